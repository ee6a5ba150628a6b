//! Multicast groups (MCMemberRecord, IBA 15.2.5.17): joins, leaves, queries.

use ibtf_provider::Gid;
use kernel::{AllocError, KVec, MayBlock};

use super::{PACKET_LIFE, PortView};
use crate::mad::{self, Mad, Records, Refusal};
use crate::rate::{self, Wish};

/// Fields of a record, as bits of a request's mask.
const MGID: u64 = 1 << 0;
const PORT_GID: u64 = 1 << 1;
const QKEY: u64 = 1 << 2;
const MLID: u64 = 1 << 3;
const MTU_SELECTOR: u64 = 1 << 4;
const TCLASS: u64 = 1 << 6;
const PKEY: u64 = 1 << 7;
const RATE_SELECTOR: u64 = 1 << 8;
const SL: u64 = 1 << 12;
const FLOW: u64 = 1 << 13;
const SCOPE: u64 = 1 << 15;
const JOIN_STATE: u64 = 1 << 16;

/// What a join needs, and what it needs to make a group.
const TO_JOIN: u64 = MGID | PORT_GID | JOIN_STATE;
const TO_CREATE: u64 = TO_JOIN | QKEY | TCLASS | PKEY | SL | FLOW;

/// Bits of the join state.
const FULL: u8 = 1;
const NON_MEMBER: u8 = 2;

/// The first LID of a group, and how many there are.
const FIRST_MLID: u16 = 0xc000;
const MAX_GROUPS: usize = 1024;

/// Bytes of a record; 56 on the wire.
const LEN: usize = 52;

/// The SM's choice for the groups it makes: 2048 bytes, 10 Gb/s.
const MTU_2048: u8 = 4;
const RATE_10: u8 = 3;
/// The Q_Key of IPoIB's broadcast groups, unless configured.
const IPOIB_QKEY: u32 = 0x0b1b;

pub(super) struct Group {
    pub(super) gid: Gid,
    pub(super) mlid: u16,
    pub(super) pkey: u16,
    qkey: u32,
    pub(super) mtu: u8,
    pub(super) rate: u8,
    pub(super) life: u8,
    pub(super) tclass: u8,
    /// SL, flow label, hop limit: as they are in the record.
    pub(super) route: u32,
    scope: u8,
    /// It stays though nobody is in it.
    permanent: bool,
    members: KVec<Member>,
}

#[derive(Clone, Copy)]
struct Member {
    guid: u64,
    state: u8,
}

impl Group {
    pub(super) fn has(&self, guid: u64) -> bool {
        self.members.iter().any(|member| member.guid == guid)
    }

    /// Whether a port is in it otherwise than to send.
    pub(super) fn hears(&self, guid: u64) -> bool {
        self.members.iter().any(|member| member.guid == guid && member.state & (FULL | NON_MEMBER) != 0)
    }

    fn full_members(&self) -> usize {
        self.members.iter().filter(|member| member.state & FULL != 0).count()
    }

    /// Its record; of a member, if one is named.
    fn record(&self, member: Option<(Gid, u8)>, rate: u8) -> [u8; LEN] {
        let mut record = [0; LEN];
        mad::put_gid(&mut record, 0, self.gid);
        let (port, state) = member.unwrap_or_default();
        mad::put_gid(&mut record, 16, port);
        mad::put32(&mut record, 32, self.qkey);
        mad::put16(&mut record, 36, self.mlid);
        record[38] = 0x80 | self.mtu;
        record[39] = self.tclass;
        mad::put16(&mut record, 40, self.pkey);
        record[42] = 0x80 | rate;
        record[43] = 0x80 | self.life;
        mad::put32(&mut record, 44, self.route);
        record[48] = self.scope << 4 | state & 0xf;
        record
    }

    /// Whether a request that names fields of the group names them right.
    fn agrees(&self, request: &Mad) -> bool {
        let (data, mask) = (request.data(), request.mask());
        let wish = |at: usize, bit| Wish::read(data.get(at).copied().unwrap_or(0), mask, bit);
        (mask & QKEY == 0 || mad::be32(data, 32) == self.qkey)
            && (mask & PKEY == 0 || mad::be16(data, 40) & 0x7fff == self.pkey & 0x7fff)
            && wish(38, MTU_SELECTOR).is_none_or(|wish| wish.accepts(self.mtu, rate::mtu_bytes))
            && wish(42, RATE_SELECTOR).is_none_or(|wish| wish.accepts(self.rate, rate::speed))
    }

    /// Whether a port can be in it.
    fn suits(&self, port: &PortView) -> bool {
        port.pkey_for(self.pkey).is_some()
            && rate::mtu_bytes(self.mtu) <= rate::mtu_bytes(port.mtu)
            && rate::speed(self.rate) <= rate::speed(port.rate())
    }
}

/// All groups.
pub(super) struct Groups(KVec<Group>);

impl Groups {
    /// None yet, and room for all that there can be: what an adapter's partitions need is no adapter's own, and stays when it goes.
    pub(super) fn new(may_block: &MayBlock) -> Self {
        Self(KVec::with_capacity_waiting(MAX_GROUPS, may_block))
    }

    pub(super) fn find(&self, gid: Gid) -> Option<&Group> {
        self.0.iter().find(|group| group.gid == gid)
    }

    /// How many a port is in.
    pub(super) fn with_member(&self, guid: u64) -> usize {
        self.0.iter().filter(|group| group.has(guid)).count()
    }

    fn position(&self, gid: Gid) -> Option<usize> {
        self.0.iter().position(|group| group.gid == gid)
    }

    pub(super) fn make_broadcast(&mut self, pkey: u16) -> Result<(), AllocError> {
        let gid = broadcast(pkey, 2);
        if self.find(gid).is_some() {
            return Ok(());
        }
        let Some(mlid) = self.free_mlid() else { return Err(AllocError) };
        self.0.push(Group {
            gid,
            mlid,
            pkey: pkey | 0x8000,
            qkey: IPOIB_QKEY,
            mtu: MTU_2048,
            rate: RATE_10,
            life: PACKET_LIFE,
            tclass: 0,
            route: 0,
            scope: 2,
            permanent: true,
            members: KVec::new(),
        })
    }

    fn free_mlid(&self) -> Option<u16> {
        let taken = |lid| self.0.iter().any(|group| group.mlid == lid);
        if self.0.len() >= MAX_GROUPS {
            return None;
        }
        (FIRST_MLID..).take(MAX_GROUPS).find(|lid| !taken(*lid))
    }

    pub(super) fn restart(&mut self) {
        let mut index = 0;
        while let Some(group) = self.0.get_mut(index) {
            if group.permanent {
                group.members.clear();
                index += 1;
            } else {
                self.0.swap_remove(index);
            }
        }
    }

    /// Set: the GID of the group if this is its first full member.
    pub(super) fn join(
        &mut self,
        request: &Mad,
        ports: &[PortView],
        answer: &mut Mad,
    ) -> Result<Option<Gid>, Refusal> {
        let (data, mask) = (request.data(), request.mask());
        let (gid, state) = (mad::gid(data, 0), data[48] & 0xf);
        if mask & TO_JOIN != TO_JOIN || gid.prefix == 0 {
            return Err(Refusal::INSUFFICIENT_COMPONENTS);
        }
        let port = port_of(request, ports)?;
        if state == 0 {
            return Err(Refusal::INVALID);
        }
        let index = match self.position(gid) {
            Some(index) => index,
            None => self.create(request, port)?,
        };
        let group = self.0.get_mut(index).ok_or(Refusal::NO_RESOURCES)?;
        if !group.agrees(request) || !group.suits(port) {
            return Err(Refusal::INVALID);
        }
        let had = group.full_members();
        let held = match group.members.iter_mut().find(|member| member.guid == port.gid.guid) {
            Some(member) => {
                member.state |= state;
                member.state
            }
            None => {
                let member = Member { guid: port.gid.guid, state };
                group.members.push(member).map_err(|_| Refusal::NO_RESOURCES)?;
                state
            }
        };
        let told = port.told_rate.unwrap_or(group.rate);
        answer.put_record(&group.record(Some((port.gid, held)), told));
        Ok((had == 0 && group.full_members() == 1).then_some(gid))
    }

    /// Makes the group that a join names, without a member.
    fn create(&mut self, request: &Mad, port: &PortView) -> Result<usize, Refusal> {
        let (data, mask) = (request.data(), request.mask());
        if data[48] & FULL == 0 {
            return Err(Refusal::INVALID);
        }
        if mask & TO_CREATE != TO_CREATE {
            return Err(Refusal::INSUFFICIENT_COMPONENTS);
        }
        let gid = mad::gid(data, 0);
        let (pkey, qkey) = (mad::be16(data, 40), mad::be32(data, 32));
        let scope = ((gid.prefix >> 48) & 0xf) as u8;
        if !gid.is_multicast() || port.pkey_for(pkey).is_none() || !self.belongs(gid, scope, pkey, qkey) {
            return Err(Refusal::INVALID);
        }
        let wish = |at: usize, bit| Wish::read(data.get(at).copied().unwrap_or(0), mask, bit);
        let chosen = |wish: Option<Wish>, own, measure| wish.map_or(own, |wish| wish.choose(own, measure));
        let group = Group {
            gid,
            mlid: self.free_mlid().ok_or(Refusal::NO_RESOURCES)?,
            pkey: pkey | 0x8000,
            qkey,
            mtu: chosen(wish(38, MTU_SELECTOR), port.mtu, rate::mtu_bytes),
            rate: chosen(wish(42, RATE_SELECTOR), port.rate(), rate::speed),
            life: PACKET_LIFE,
            tclass: data[39],
            route: mad::be32(data, 44),
            scope: if mask & SCOPE != 0 { data[48] >> 4 } else { scope },
            permanent: false,
            members: KVec::new(),
        };
        if !group.agrees(request) || !group.suits(port) {
            return Err(Refusal::INVALID);
        }
        let mut group = group;
        group.members.reserve(1).map_err(|_| Refusal::NO_RESOURCES)?;
        self.0.push(group).map_err(|_| Refusal::NO_RESOURCES)?;
        Ok(self.0.len() - 1)
    }

    /// Whether a group of IPoIB has its broadcast group, with the same Q_Key (RFC 4391, 4); others need none.
    fn belongs(&self, gid: Gid, scope: u8, pkey: u16, qkey: u32) -> bool {
        let signature = (gid.prefix >> 32) as u16;
        let broadcast = broadcast(pkey, scope);
        if !matches!(signature, 0x401b | 0x601b) || gid == broadcast {
            return true;
        }
        self.find(broadcast).is_some_and(|broadcast| broadcast.qkey == qkey)
    }

    /// Delete: the GID of the group if this was its last full member.
    pub(super) fn leave(
        &mut self,
        request: &Mad,
        ports: &[PortView],
        answer: &mut Mad,
    ) -> Result<Option<Gid>, Refusal> {
        let data = request.data();
        if request.mask() & TO_JOIN != TO_JOIN {
            return Err(Refusal::INSUFFICIENT_COMPONENTS);
        }
        let (gid, state) = (mad::gid(data, 0), data[48] & 0xf);
        let port = port_of(request, ports)?;
        let index = self.position(gid).ok_or(Refusal::INVALID)?;
        let group = self.0.get_mut(index).ok_or(Refusal::INVALID)?;
        let mine = group.members.iter().position(|member| member.guid == port.gid.guid);
        let mine = mine.ok_or(Refusal::INVALID)?;
        let member = group.members.get_mut(mine).ok_or(Refusal::INVALID)?;
        if state == 0 || member.state & state != state {
            return Err(Refusal::INVALID);
        }
        member.state &= !state;
        let left = member.state;
        if left == 0 {
            group.members.swap_remove(mine);
            // What was asked is what is answered, without a state.
            answer.0[mad::DATA + 48] &= 0xf0;
        } else {
            let group = &*group;
            answer.put_record(&group.record(Some((port.gid, left)), group.rate));
        }
        Ok((state & FULL != 0 && self.end_if_empty(index)).then_some(gid))
    }

    /// Deletes a group without full members; whether there was none.
    fn end_if_empty(&mut self, index: usize) -> bool {
        let Some(group) = self.0.get_mut(index) else { return false };
        if group.full_members() != 0 {
            return false;
        }
        group.members.clear();
        if !group.permanent {
            self.0.swap_remove(index);
        }
        true
    }

    /// A port that went away leaves all its groups; `deleted` hears of those that end with it.
    pub(super) fn leave_all(&mut self, guid: u64, deleted: &mut dyn FnMut(Gid)) {
        let mut index = 0;
        while let Some(group) = self.0.get_mut(index) {
            let before = self_len(group);
            let gid = group.gid;
            if let Some(mine) = group.members.iter().position(|member| member.guid == guid) {
                group.members.swap_remove(mine);
            }
            let ended = before != self_len(group) && self.end_if_empty(index);
            if ended {
                deleted(gid);
            }
            // Another group may be in the place of one that was deleted.
            if self.0.get(index).is_some_and(|group| group.gid == gid) {
                index += 1;
            }
        }
    }

    /// Get and GetTable: one record of each group that is asked for and that the asker's port can see.
    pub(super) fn query(
        &self,
        request: &Mad,
        asker: &PortView,
        answer: &mut Mad,
        all: &mut KVec<u8>,
    ) -> Result<(), Refusal> {
        let (data, mask) = (request.data(), request.mask());
        let mut records = Records::new(answer, all, LEN);
        let wanted = |group: &&Group| {
            (mask & MGID == 0 || mad::gid(data, 0) == group.gid)
                && (mask & PORT_GID == 0 || group.has(mad::gid(data, 16).guid))
                && (mask & MLID == 0 || mad::be16(data, 36) == group.mlid)
                && (mask & TCLASS == 0 || data[39] == group.tclass)
                && (mask & SL == 0 || data[44] >> 4 == (group.route >> 28) as u8)
                && (mask & SCOPE == 0 || data[48] >> 4 == group.scope)
                && group.agrees(request)
                && asker.pkey_for(group.pkey).is_some()
        };
        for group in self.0.iter().filter(wanted) {
            records.push(&group.record(None, asker.told_rate.unwrap_or(group.rate)));
        }
        records.finish()
    }
}

fn self_len(group: &Group) -> usize {
    group.members.len()
}

/// The port that a request is for: any of the subnet, by its GID or by the link-local form of it.
fn port_of<'a>(request: &Mad, ports: &'a [PortView]) -> Result<&'a PortView, Refusal> {
    const LINK_LOCAL: u64 = 0xfe80 << 48;
    let gid = mad::gid(request.data(), 16);
    let port = ports.iter().find(|port| port.gid.guid == gid.guid && port.active).ok_or(Refusal::INVALID)?;
    if gid.prefix != port.gid.prefix && gid.prefix != LINK_LOCAL {
        return Err(Refusal::INVALID_GID);
    }
    Ok(port)
}

/// The GID of the IPv4 broadcast group of a partition (RFC 4391, 4).
pub(super) fn broadcast(pkey: u16, scope: u8) -> Gid {
    let prefix = 0xff10_401b_0000_0000 | u64::from(scope & 0xf) << 48 | u64::from(pkey | 0x8000) << 16;
    Gid { prefix, guid: 0xffff_ffff }
}
