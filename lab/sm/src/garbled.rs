//! Answers of several segments that come as they should not: what a subnet administrator does wrong about RMPP.

use crate::mad::{Rmpp, RmppKind, SaMad};
use crate::rmpp::AbortCode;

/// What is wrong with the segments of an answer (InfiniBand Architecture volume 1, 13.6). Each is about the second one, or about the only
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbled {
    /// It never comes, those behind it do. The only one comes.
    Missing,
    /// It comes twice, and counts twice.
    Twice,
    /// The payload of all is said to be 2 GB, and that of the last less than its header.
    Length,
    /// Its number is beyond every window.
    Number,
    /// The administrator ends the transfer in its place.
    Abort,
}

/// What is added to a segment's number.
const BEYOND: u32 = 1_000;
/// Payload that no answer has.
const TOO_LONG: u32 = 1 << 31;

impl Garbled {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Missing, Self::Twice, Self::Length, Self::Number, Self::Abort];

    /// Does it to the segments of an answer. At least one stays.
    pub(crate) fn garble(self, segments: &mut Vec<SaMad>) {
        let Some(at) = segments.len().checked_sub(1).map(|last| last.min(1)) else { return };
        match self {
            Self::Missing if segments.len() == 1 => {}
            Self::Missing => drop(segments.remove(at)),
            Self::Twice => segments.insert(at, segments[at]),
            Self::Length => {
                segments[0].rmpp.data2 = TOO_LONG;
                if let Some(last) = segments.last_mut() {
                    last.rmpp.data2 = u32::from(last.rmpp.flags & Rmpp::LAST);
                }
            }
            Self::Number => segments[at].rmpp.data1 += BEYOND,
            Self::Abort => {
                segments[at].rmpp.kind = RmppKind::Abort;
                segments[at].rmpp.status = AbortCode::RESOURCES.0;
            }
        }
    }
}
