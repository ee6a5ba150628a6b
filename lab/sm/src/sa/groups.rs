//! The multicast groups of a subnet: members and multicast LIDs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::records::McMemberRecord;
use crate::types::{Gid, Guid, JoinState, Lid};

/// A port's place in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub port_gid: Gid,
    pub scope: u8,
    pub join_state: JoinState,
    /// Another port joined for it.
    pub proxy: bool,
    /// So many of its leaves were refused by a fault, and of what it asked about the group after the first.
    pub refusals: u32,
    /// A fault has told it since that there is no such group.
    pub denied: bool,
    /// It has joined to hear the group since, and not asked to leave again. Who joins only to leave asks.
    pub is_back: bool,
}

/// Why a port that has asked to leave a group is still a member: a fault answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// It refused so many leaves, and joins and questions after the first: a role that IBTF does not count any more is joined to be left.
    pub refusals: u32,
    /// It refused a question about the group after that, with a status that says that there is none.
    pub denied: bool,
}

/// A group. Its record is its creator's, with MLID, MTU, rate and the like as the group has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub record: McMemberRecord,
    pub members: BTreeMap<Guid, Member>,
    /// It exists without members too.
    permanent: bool,
}

impl Group {
    fn new(record: McMemberRecord, permanent: bool) -> Self {
        Self { record, members: BTreeMap::new(), permanent }
    }

    /// Members that keep the group alive.
    pub fn keepers(&self) -> usize {
        self.members.values().filter(|member| member.join_state.keeps_group()).count()
    }
}

/// What a leave did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub scope: u8,
    /// What the port still is.
    pub remaining: JoinState,
    /// The last member that kept the group alive is gone.
    pub orphaned: bool,
}

/// The records that each group has had, by MGID.
pub type Ever = BTreeMap<Gid, Vec<McMemberRecord>>;

/// All groups, by MGID and by MLID.
#[derive(Debug)]
pub(super) struct Groups {
    by_mgid: BTreeMap<Gid, Group>,
    by_mlid: BTreeMap<Lid, Gid>,
    mlids: RangeInclusive<Lid>,
    /// Each record that a group has had, whatever became of the group.
    ever: Ever,
    /// Of multicast GIDs made here.
    unique: u32,
}

impl Groups {
    pub fn new(mlids: RangeInclusive<Lid>) -> Self {
        Self { by_mgid: BTreeMap::new(), by_mlid: BTreeMap::new(), mlids, ever: Ever::new(), unique: 0 }
    }

    /// Each record that a group has had, whatever became of the group.
    pub const fn ever(&mut self) -> &mut Ever {
        &mut self.ever
    }

    fn remember(&mut self, record: McMemberRecord) {
        let known = self.ever.entry(record.mgid).or_default();
        if !known.contains(&record) {
            known.push(record);
        }
    }

    pub fn get(&self, mgid: Gid) -> Option<&Group> {
        self.by_mgid.get(&mgid)
    }

    pub fn at(&self, mlid: Lid) -> Option<&Group> {
        self.by_mlid.get(&mlid).and_then(|mgid| self.get(*mgid))
    }

    /// In the order of their MGIDs.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.by_mgid.values()
    }

    /// The wanted MLID if it is free, or the first free one.
    pub fn free_mlid(&self, wanted: Lid) -> Option<Lid> {
        if self.mlids.contains(&wanted) && !self.by_mlid.contains_key(&wanted) {
            return Some(wanted);
        }
        let mut all = self.mlids.start().0..=self.mlids.end().0;
        all.find(|mlid| !self.by_mlid.contains_key(&Lid(*mlid))).map(Lid)
    }

    /// An MGID nobody uses, in `scope`.
    pub fn make_mgid(&mut self, subnet_prefix: u64, scope: u8) -> Gid {
        loop {
            // 0xff, flags and scope, signature, subnet prefix with the counter over its last two bytes and the two behind.
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&[0xff, 0x10 | scope, 0xa0, 0x1b]);
            bytes[4..12].copy_from_slice(&subnet_prefix.to_be_bytes());
            bytes[10..14].copy_from_slice(&self.unique.to_le_bytes());
            self.unique = self.unique.wrapping_add(1);
            let mgid = Gid::from_bytes(bytes);
            if !self.by_mgid.contains_key(&mgid) {
                return mgid;
            }
        }
    }

    /// Adds a group whose MLID is free.
    pub fn insert(&mut self, record: McMemberRecord) {
        self.remember(record);
        self.by_mlid.insert(record.mlid, record.mgid);
        self.by_mgid.insert(record.mgid, Group::new(record, false));
    }

    /// Makes these the permanent groups; returns the MLIDs of groups that went.
    pub fn set_permanent(&mut self, records: Vec<McMemberRecord>) -> Vec<Lid> {
        let named: BTreeSet<Gid> = records.iter().map(|record| record.mgid).collect();
        let dismissed: Vec<Gid> = (self.by_mgid.values())
            .filter(|group| group.permanent && !named.contains(&group.record.mgid))
            .map(|group| group.record.mgid)
            .collect();
        let gone = dismissed.into_iter().filter_map(|mgid| self.dismiss(mgid)).collect();
        for record in records {
            self.make_permanent(record);
        }
        gone
    }

    fn dismiss(&mut self, mgid: Gid) -> Option<Lid> {
        let group = self.by_mgid.get_mut(&mgid)?;
        group.permanent = false;
        if group.keepers() > 0 {
            return None;
        }
        let mlid = group.record.mlid;
        self.remove(mgid);
        Some(mlid)
    }

    fn make_permanent(&mut self, record: McMemberRecord) {
        let Some(mlid) = self.free_mlid(record.mlid) else { return };
        let record = McMemberRecord { mlid, ..record };
        if !self.by_mgid.contains_key(&record.mgid) {
            self.remember(record);
        }
        match self.by_mgid.entry(record.mgid) {
            Entry::Occupied(mut group) => group.get_mut().permanent = true,
            Entry::Vacant(place) => {
                place.insert(Group::new(record, true));
                self.by_mlid.insert(mlid, record.mgid);
            }
        }
    }

    /// Adds `member`, or its join state to what the port already is. Returns the place it has now, whether the port is new in
    /// the group, and whether it is the first that keeps the group alive.
    pub fn add(&mut self, mgid: Gid, port: Guid, member: Member) -> Option<(Member, bool, bool)> {
        let group = self.by_mgid.get_mut(&mgid)?;
        let kept_before = group.keepers() > 0;
        let (place, is_new) = match group.members.entry(port) {
            Entry::Occupied(place) => (place.into_mut(), false),
            Entry::Vacant(place) => (place.insert(Member { join_state: JoinState::NONE, ..member }), true),
        };
        place.join_state = place.join_state.union(member.join_state);
        // Who joins to send only wants no more than before of what it could not leave.
        if member.join_state.intersects(JoinState::FULL.union(JoinState::NON)) {
            place.is_back = true;
        }
        let place = *place;
        Some((place, is_new, !kept_before && group.keepers() > 0))
    }

    /// A fault refuses a leave of this port.
    pub fn refuse_leave(&mut self, mgid: Gid, port: Guid) {
        if let Some(member) = self.by_mgid.get_mut(&mgid).and_then(|group| group.members.get_mut(&port)) {
            member.refusals += 1;
            member.is_back = false;
        }
    }

    /// A fault refuses what this port asks about a group that it may be leaving.
    pub fn refuse_else(&mut self, mgid: Gid, port: Guid) {
        if let Some(member) = self.by_mgid.get_mut(&mgid).and_then(|group| group.members.get_mut(&port)) {
            member.refusals += u32::from(member.refusals > 0);
        }
    }

    /// A fault tells this port that there is no such group.
    pub fn deny(&mut self, mgid: Gid, port: Guid) {
        if let Some(member) = self.by_mgid.get_mut(&mgid).and_then(|group| group.members.get_mut(&port)) {
            member.denied |= member.refusals > 0;
        }
    }

    /// Takes `bits` from what the port is. It leaves the group when none remain, and also when those that remain do not keep
    /// the group alive and nobody else does.
    pub fn take(&mut self, mgid: Gid, port: Guid, bits: JoinState) -> Option<Left> {
        let group = self.by_mgid.get_mut(&mgid)?;
        let before = group.keepers();
        let member = group.members.get_mut(&port)?;
        let was_keeper = member.join_state.keeps_group();
        let scope = member.scope;
        let remaining = member.join_state.without(bits);
        member.join_state = remaining;
        let others = before - usize::from(was_keeper);
        let stays = remaining.keeps_group() || (!remaining.is_empty() && others > 0);
        if !stays {
            group.members.remove(&port);
        }
        let orphaned = was_keeper && group.keepers() == 0;
        Some(Left { scope, remaining: if stays { remaining } else { JoinState::NONE }, orphaned })
    }

    /// Drops the members of a group nobody keeps alive, and the group unless it is permanent.
    pub fn bury(&mut self, mgid: Gid) {
        if let Some(group) = self.by_mgid.get_mut(&mgid) {
            group.members.clear();
            if !group.permanent {
                self.remove(mgid);
            }
        }
    }

    /// Ends a group whatever keeps it; what it was.
    pub fn delete(&mut self, mgid: Gid) -> Option<McMemberRecord> {
        let record = self.by_mgid.get(&mgid)?.record;
        self.remove(mgid);
        Some(record)
    }

    /// The groups a port is in.
    pub fn of_port(&self, port: Guid) -> Vec<Gid> {
        let groups = self.by_mgid.values().filter(|group| group.members.contains_key(&port));
        groups.map(|group| group.record.mgid).collect()
    }

    fn remove(&mut self, mgid: Gid) {
        if let Some(group) = self.by_mgid.remove(&mgid) {
            self.by_mlid.remove(&group.record.mlid);
        }
    }
}
