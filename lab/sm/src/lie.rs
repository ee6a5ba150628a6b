//! Answers that are wrong: what a subnet administrator says of a path or of a group, and that is not so.

use crate::mad::Attribute;
use crate::records::{McMemberRecord, PathRecord, Record};
use crate::types::{Bound, Gid, Lid, PKey, QKey, Sl};

/// One thing that is wrong with each record of an answer. An answer that has no such field is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Another port or group than was asked for.
    OtherGid,
    /// LID 0.
    NoLid,
    /// A multicast LID for a port, a unicast one for a group.
    LidOfOtherKind,
    /// The LID of another port or group.
    OtherLid,
    /// The largest MTU there is.
    LargestMtu,
    /// A rate that no code names.
    UnknownRate,
    /// Service level 15.
    OtherSl,
    /// Another Q_Key than the group's.
    OtherQKey,
    /// A P_Key that no port has.
    ForeignPKey,
    /// A path that leads there and not back.
    OneWay,
    /// Another port's or group's record in front of the one that was asked for.
    TwoRecords,
}

/// What no code names.
const NO_RATE: u8 = 0x3f;
/// 4096 bytes.
const LARGEST_MTU: u8 = 5;

impl Lie {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::OtherGid,
        Self::NoLid,
        Self::LidOfOtherKind,
        Self::OtherLid,
        Self::LargestMtu,
        Self::UnknownRate,
        Self::OtherSl,
        Self::OtherQKey,
        Self::ForeignPKey,
        Self::OneWay,
        Self::TwoRecords,
    ];

    /// The records of an answer about `attribute`, each `len` bytes long, as they are told; `other` is the LID of a port that was not asked for.
    pub(crate) fn told(self, attribute: Attribute, data: &[u8], len: usize, other: Lid) -> Vec<u8> {
        let change: fn(Self, &[u8], Lid) -> Option<Vec<u8>> = match attribute {
            Attribute::PATH_RECORD => {
                |lie, bytes, other| Some(lie.of_path(PathRecord::parse(bytes)?, other).emit())
            }
            Attribute::MC_MEMBER_RECORD => {
                |lie, bytes, _| Some(lie.of_group(McMemberRecord::parse(bytes)?).emit())
            }
            _ => return data.to_vec(),
        };
        let mut told = Vec::new();
        if self == Self::TwoRecords
            && let Some(first) = data.get(..len)
        {
            // In front, so that it is the one which is taken.
            told.extend(change(Self::OtherGid, first, other).unwrap_or_default());
            told.resize(len, 0);
        }
        for record in data.chunks(len.max(1)) {
            let changed = change(self, record, other).unwrap_or_else(|| record.to_vec());
            told.extend(changed.iter().chain(record.iter().skip(changed.len())));
        }
        told
    }

    fn of_path(self, path: PathRecord, other: Lid) -> PathRecord {
        match self {
            Self::OtherGid => PathRecord { dgid: another(path.dgid), dlid: other, ..path },
            Self::NoLid => PathRecord { dlid: Lid::NONE, ..path },
            Self::LidOfOtherKind => PathRecord { dlid: Lid(Lid::FIRST_MULTICAST.0 + 7), ..path },
            Self::OtherLid => PathRecord { dlid: other, ..path },
            Self::LargestMtu => PathRecord { mtu: Bound::exactly(LARGEST_MTU), ..path },
            Self::UnknownRate => PathRecord { rate: Bound::exactly(NO_RATE), ..path },
            Self::OtherSl => PathRecord { sl: Sl::truncating(15), ..path },
            Self::ForeignPKey => PathRecord { p_key: FOREIGN, ..path },
            Self::OneWay => PathRecord { reversible: false, ..path },
            Self::OtherQKey | Self::TwoRecords => path,
        }
    }

    fn of_group(self, group: McMemberRecord) -> McMemberRecord {
        match self {
            Self::OtherGid => McMemberRecord { mgid: another(group.mgid), ..group },
            Self::NoLid => McMemberRecord { mlid: Lid::NONE, ..group },
            Self::LidOfOtherKind => McMemberRecord { mlid: Lid(7), ..group },
            Self::OtherLid => McMemberRecord { mlid: Lid(group.mlid.0 ^ 0x155), ..group },
            Self::LargestMtu => McMemberRecord { mtu: Bound::exactly(LARGEST_MTU), ..group },
            Self::UnknownRate => McMemberRecord { rate: Bound::exactly(NO_RATE), ..group },
            Self::OtherSl => McMemberRecord { sl: Sl::truncating(15), ..group },
            Self::OtherQKey => McMemberRecord { q_key: QKey(group.q_key.0 ^ 0x1111), ..group },
            Self::ForeignPKey => McMemberRecord { p_key: FOREIGN, ..group },
            Self::OneWay | Self::TwoRecords => group,
        }
    }
}

/// Of no partition of the lab.
const FOREIGN: PKey = PKey(0xe1e1);

fn another(gid: Gid) -> Gid {
    Gid { guid: gid.guid ^ 0xff00, ..gid }
}
