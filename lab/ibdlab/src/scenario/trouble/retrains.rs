//! A link that trains to less than its port can, and to all of it again.

use fabric::LinkWidth;
use fabric::subnet::Trained;
use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use crate::scenario::Speed;
use crate::setup::{mtu_of, speed_of};

/// What a host's link is like for a time. What is not said is as the host has it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRetrains {
    pub host: Spanned<String>,
    /// Active lanes: 1, 2, 4, 8 or 12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<Spanned<u8>>,
    /// Active signalling of a lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// The largest MTU of the port in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Spanned<u32>>,
    /// The link stays up meanwhile, and no event tells of it: some links lose lanes so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub quietly: bool,
    /// Milliseconds of machine time.
    #[serde(deserialize_with = "crate::scenario::range::for_ms")]
    pub for_ms: u64,
}

impl LinkRetrains {
    /// What a link becomes that is like `now`. The number of lanes is checked when it is read.
    pub fn changed(&self, now: Trained) -> Trained {
        let lanes = self.width.as_ref().and_then(|width| LinkWidth::of_lanes(*width.get_ref()));
        Trained {
            width: lanes.unwrap_or(now.width),
            speed: self.speed.map_or(now.speed, speed_of),
            mtu: self.mtu.as_ref().map_or(now.mtu, |mtu| mtu_of(*mtu.get_ref())),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
