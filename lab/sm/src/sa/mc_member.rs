//! Joining, creating, leaving and querying multicast groups.

use super::groups::{Group, Member};
use super::{Address, Audience, Endport, Found, Refusal, Sa, Verdict, record_of, require};
use crate::mad::{Attribute, Method, SaMad, Status};
use crate::partition::{SCOPE_LINK_LOCAL, SIGNATURE_IPV4, SIGNATURE_IPV6, SIGNATURE_SA};
use crate::records::{McMemberRecord, Trap, mc_member_mask as mask};
use crate::types::{Bound, Gid, Guid, JoinState, MtuCode, Nanos, RateCode, Selector};

const INVALID: Status = Status::REQ_INVALID;

impl Sa {
    /// `Set(MCMemberRecord)`.
    pub(super) fn join(&mut self, now: Nanos, requester: Guid, mad: &SaMad) -> Verdict {
        let mut asked: McMemberRecord = record_of(mad)?;
        let prefix = asked.port_gid.prefix;
        self.check_form(mad.mask, &mut asked)?;
        let guid = Guid(asked.port_gid.guid);
        let (port, from) = (self.known(guid)?, self.known(requester)?);
        let proxy = guid != requester;
        require(!proxy || port.is_reachable_from(from), INVALID)?;
        require(mad.mask & mask::P_KEY == 0 || asked.p_key.is_valid(), INVALID)?;
        let existing = self.groups.get(asked.mgid).map(|group| group.record);
        let group = match existing {
            Some(group) => {
                require(matches(mad.mask, &asked, &group), INVALID)?;
                group
            }
            None => self.design(mad.mask, &asked, guid)?,
        };
        let (port, from) = (self.known(guid)?, self.known(requester)?);
        require(bounds_match(mad.mask, &asked, &group), INVALID)?;
        require(port.mtu().0 >= group.mtu.value, INVALID)?;
        require(port.rate().cmp_speed(RateCode(group.rate.value)).is_ge(), INVALID)?;
        require(!asked.join_state.is_empty(), INVALID)?;
        require(port.holds(group.p_key), INVALID)?;
        require(existing.is_none() || self.may_modify(group.mgid, guid, from), INVALID)?;
        if existing.is_none() {
            self.groups.insert(group);
        }
        let place = self.enter(now, &group, guid, &asked, proxy)?;
        Ok(answer(&McMemberRecord {
            mgid: group.mgid,
            port_gid: Gid { prefix, ..asked.port_gid },
            scope: place.scope,
            join_state: place.join_state,
            proxy_join: asked.proxy_join,
            ..group
        }))
    }

    /// `Delete(MCMemberRecord)`.
    pub(super) fn leave(&mut self, now: Nanos, requester: Guid, mad: &SaMad) -> Verdict {
        let mut asked: McMemberRecord = record_of(mad)?;
        let prefix = asked.port_gid.prefix;
        self.check_form(mad.mask, &mut asked)?;
        let guid = Guid(asked.port_gid.guid);
        let group = self.groups.get(asked.mgid).ok_or(INVALID)?;
        let member = group.members.get(&guid).ok_or(INVALID)?;
        require(member.join_state.intersects(asked.join_state), INVALID)?;
        require(member.join_state.contains(asked.join_state), INVALID)?;
        require(self.may_modify(asked.mgid, guid, self.known(requester)?), INVALID)?;
        let (scope, join_state) = self.depart(now, asked.mgid, guid, asked.join_state).ok_or(INVALID)?;
        let port_gid = Gid { prefix, ..asked.port_gid };
        Ok(answer(&McMemberRecord { port_gid, scope, join_state, ..asked }))
    }

    /// Remembers that a fault refused this request of a port, if it is a leave, a join or a question about one group.
    pub(super) fn remember_refused(&mut self, from: Address, mad: &SaMad, status: Status) {
        if mad.attribute != Attribute::MC_MEMBER_RECORD {
            return;
        }
        let Some(asked) = mad.record::<McMemberRecord>() else { return };
        let denies = matches!(status, Status::REQ_INVALID | Status::NO_RECORDS | Status::REQ_DENIED);
        match mad.method {
            Method::DELETE => self.groups.refuse_leave(asked.mgid, Guid(asked.port_gid.guid)),
            Method::SET => self.groups.refuse_else(asked.mgid, Guid(asked.port_gid.guid)),
            Method::GET | Method::GET_TABLE if mad.mask & mask::MGID != 0 => {
                if let Some(port) = self.port_at(from.lid).map(Endport::guid) {
                    self.groups.refuse_else(asked.mgid, port);
                    if denies {
                        self.groups.deny(asked.mgid, port);
                    }
                }
            }
            _ => {}
        }
    }

    /// `Get` and `GetTable(MCMemberRecord)`.
    pub(super) fn query_groups(&self, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: McMemberRecord = record_of(mad)?;
        require(codes_are_valid(mad.mask, &asked), INVALID)?;
        let requester = self.known(requester)?;
        let trusted = mad.sm_key != 0;
        let groups = self.groups.iter().filter(|group| requester.holds(group.record.p_key));
        let records: Vec<McMemberRecord> =
            groups.flat_map(|group| records_of(group, mad.mask, &asked, trusted)).collect();
        Ok(Found::records(&records))
    }

    /// A port that is gone leaves all its groups.
    pub(super) fn drop_memberships(&mut self, now: Nanos, guid: Guid) {
        for mgid in self.groups.of_port(guid) {
            self.depart(now, mgid, guid, JoinState::truncating(0xf));
        }
    }

    fn known(&self, guid: Guid) -> Result<&Endport, Refusal> {
        self.ports.get(&guid).ok_or(Refusal::Status(INVALID))
    }

    /// What a join or leave must be whatever the group; turns the default subnet prefix into the subnet's.
    fn check_form(&self, mask: u64, asked: &mut McMemberRecord) -> Result<(), Refusal> {
        require(mask & mask::JOIN == mask::JOIN, Status::REQ_INSUFFICIENT_COMPONENTS)?;
        require(codes_are_valid(mask, asked), INVALID)?;
        if asked.port_gid.prefix == Gid::DEFAULT_PREFIX {
            asked.port_gid.prefix = self.config.prefix;
        }
        require(asked.port_gid.prefix == self.config.prefix, Status::REQ_INVALID_GID)
    }

    /// The group a join would create.
    fn design(&mut self, mask: u64, asked: &McMemberRecord, port: Guid) -> Result<McMemberRecord, Refusal> {
        require(asked.join_state.keeps_group(), INVALID)?;
        require(mask & mask::CREATE == mask::CREATE, Status::REQ_INSUFFICIENT_COMPONENTS)?;
        let mgid = if asked.mgid.is_zero() {
            let scope = if mask & mask::SCOPE != 0 { asked.scope } else { SCOPE_LINK_LOCAL };
            self.groups.make_mgid(self.config.prefix, scope)
        } else {
            self.check_mgid(mask, asked)?;
            asked.mgid
        };
        let port = self.known(port)?;
        let mtu = choose_mtu(mask, asked.mtu, port.mtu()).ok_or(INVALID)?;
        let rate = choose_rate(mask, asked.rate, port.rate()).ok_or(INVALID)?;
        let mlid = self.groups.free_mlid(asked.mlid).ok_or(Status::NO_RESOURCES)?;
        let lifetime = Bound::exactly(asked.lifetime.value);
        Ok(McMemberRecord {
            mgid,
            mlid,
            mtu: Bound::exactly(mtu.0),
            rate: Bound::exactly(rate.0),
            lifetime,
            ..*asked
        })
    }

    /// Whether a group may be created under this MGID. One with an IPoIB signature follows the broadcast group of its
    /// partition and scope.
    pub(super) fn check_mgid(&self, mask: u64, asked: &McMemberRecord) -> Result<(), Refusal> {
        let mgid = asked.mgid;
        require(mgid.is_multicast(), INVALID)?;
        match mgid.signature() {
            SIGNATURE_IPV4 | SIGNATURE_IPV6 => {
                let broadcast = broadcast_of(mgid);
                if mgid == broadcast {
                    return Ok(());
                }
                let broadcast = self.groups.get(broadcast).ok_or(INVALID)?;
                require(matches(mask, asked, &broadcast.record), INVALID)
            }
            signature => {
                require(mgid.flags() & 0xe == 0, INVALID)?;
                require(signature != SIGNATURE_SA || mgid.scope() != SCOPE_LINK_LOCAL, INVALID)
            }
        }
    }

    /// Whether `requester` may change the port's membership: the port itself, and where another joined for it anybody in the
    /// group's partition.
    fn may_modify(&self, mgid: Gid, port: Guid, requester: &Endport) -> bool {
        let Some(group) = self.groups.get(mgid) else { return true };
        match group.members.get(&port) {
            None => true,
            Some(member) if member.proxy => requester.holds(group.record.p_key),
            Some(_) => requester.guid() == port,
        }
    }

    pub(super) fn enter(
        &mut self,
        now: Nanos,
        group: &McMemberRecord,
        port: Guid,
        asked: &McMemberRecord,
        proxy: bool,
    ) -> Result<Member, Refusal> {
        let member = Member {
            port_gid: asked.port_gid,
            scope: group.scope,
            join_state: asked.join_state,
            proxy,
            refusals: 0,
            denied: false,
            is_back: false,
        };
        let (place, is_new, is_first) =
            self.groups.add(group.mgid, port, member).ok_or(Status::NO_RESOURCES)?;
        if is_new {
            self.reroute.insert(group.mlid);
        }
        if is_first {
            self.report(now, Trap::GroupCreated, group.mgid, &Audience::Partition(group.p_key));
        }
        Ok(place)
    }

    /// See [`crate::Sm::delete_group`].
    pub(crate) fn delete_group(&mut self, now: Nanos, mgid: Gid) -> bool {
        let Some(record) = self.groups.delete(mgid) else { return false };
        self.reroute.insert(record.mlid);
        self.report(now, Trap::GroupDeleted, mgid, &Audience::Partition(record.p_key));
        true
    }

    /// Takes join state bits from a port; what remains of it, and the scope it is in.
    pub(super) fn depart(
        &mut self,
        now: Nanos,
        mgid: Gid,
        port: Guid,
        bits: JoinState,
    ) -> Option<(u8, JoinState)> {
        let (mlid, p_key) = self.groups.get(mgid).map(|group| (group.record.mlid, group.record.p_key))?;
        let left = self.groups.take(mgid, port, bits)?;
        if left.remaining.is_empty() {
            self.reroute.insert(mlid);
        }
        if left.orphaned {
            self.report(now, Trap::GroupDeleted, mgid, &Audience::Partition(p_key));
            self.groups.bury(mgid);
            self.reroute.insert(mlid);
        }
        Some((left.scope, left.remaining))
    }
}

/// The IPv4 broadcast group of an IPoIB MGID's partition and scope.
fn broadcast_of(mgid: Gid) -> Gid {
    let prefix = 0xff10_401b_0000_0000 | u64::from(mgid.scope()) << 48 | u64::from(mgid.ipoib_pkey().0) << 16;
    Gid { prefix, guid: 0xffff_ffff }
}

/// The three bounds go out as exact values.
fn answer(record: &McMemberRecord) -> Found {
    Found::records(&[McMemberRecord {
        mtu: Bound::exactly(record.mtu.value),
        rate: Bound::exactly(record.rate.value),
        lifetime: Bound::exactly(record.lifetime.value),
        ..*record
    }])
}

/// An MTU or rate that is given with its selector must be one that exists.
fn codes_are_valid(mask: u64, asked: &McMemberRecord) -> bool {
    let given = |bits: u64| mask & bits == bits;
    (!given(mask::RATE_SELECTOR | mask::RATE) || RateCode(asked.rate.value).is_valid())
        && (!given(mask::MTU_SELECTOR | mask::MTU) || MtuCode(asked.mtu.value).is_valid())
}

/// Whether the components given agree with the group's, bounds apart.
fn matches(mask: u64, asked: &McMemberRecord, group: &McMemberRecord) -> bool {
    let given = |bit: u64| mask & bit != 0;
    (!given(mask::Q_KEY) || asked.q_key == group.q_key)
        && (!given(mask::P_KEY) || asked.p_key.admits(group.p_key))
        && (!given(mask::T_CLASS) || asked.t_class == group.t_class)
        && (!given(mask::SL) || asked.sl == group.sl)
        && (!given(mask::FLOW_LABEL) || asked.flow_label == group.flow_label)
        && (!given(mask::HOP_LIMIT) || asked.hop_limit == group.hop_limit)
}

/// Whether the group's MTU and rate are within the bounds given. A selector counts also without the value's bit, and the
/// packet lifetime is not looked at.
fn bounds_match(mask: u64, asked: &McMemberRecord, group: &McMemberRecord) -> bool {
    let within = |bound: Bound, order: std::cmp::Ordering| match bound.selector {
        Selector::Greater => order.is_gt(),
        Selector::Less => order.is_lt(),
        Selector::Exactly => order.is_eq(),
        Selector::Best => true,
    };
    let mtu = group.mtu.value.cmp(&asked.mtu.value);
    let rate = RateCode(group.rate.value).cmp_speed(RateCode(asked.rate.value));
    (mask & mask::MTU_SELECTOR == 0 || within(asked.mtu, mtu))
        && (mask & mask::RATE_SELECTOR == 0 || within(asked.rate, rate))
}

/// The MTU of a new group: the port's unless the creator bounds it.
fn choose_mtu(mask: u64, asked: Bound, port: MtuCode) -> Option<MtuCode> {
    const GIVEN: u64 = mask::MTU_SELECTOR | mask::MTU;
    if mask & GIVEN != GIVEN || asked.selector == Selector::Best {
        return Some(port);
    }
    let mtu = match asked.selector {
        Selector::Greater if asked.value >= port.0 => return None,
        Selector::Greater => port.0,
        Selector::Less if asked.value > port.0 => port.0,
        Selector::Less => asked.value.checked_sub(1)?,
        Selector::Exactly | Selector::Best => asked.value,
    };
    Some(MtuCode(mtu)).filter(|mtu| mtu.is_valid())
}

/// The rate of a new group: the port's unless the creator bounds it.
fn choose_rate(mask: u64, asked: Bound, port: RateCode) -> Option<RateCode> {
    const GIVEN: u64 = mask::RATE_SELECTOR | mask::RATE;
    if mask & GIVEN != GIVEN || asked.selector == Selector::Best {
        return Some(port);
    }
    let wanted = RateCode(asked.value);
    match asked.selector {
        Selector::Greater if wanted.cmp_speed(port).is_ge() => None,
        Selector::Greater => Some(port),
        Selector::Less if wanted.cmp_speed(port).is_gt() => Some(port),
        Selector::Less => wanted.next_slower(),
        Selector::Exactly | Selector::Best => Some(wanted),
    }
}

/// The records of a group that match a query: one for the group, or one per member for a trusted requester.
fn records_of(group: &Group, mask: u64, asked: &McMemberRecord, trusted: bool) -> Vec<McMemberRecord> {
    let record = &group.record;
    let fits = (mask & mask::MGID == 0 || asked.mgid == record.mgid)
        && (mask & mask::MLID == 0 || asked.mlid == record.mlid)
        && matches(mask, asked, record)
        && (mask & mask::PROXY_JOIN == 0 || asked.proxy_join == record.proxy_join)
        && bounds_match(mask, asked, record);
    if !fits {
        return Vec::new();
    }
    let state_fits = |scope: u8, join_state: JoinState| {
        (mask & mask::SCOPE == 0 || scope == asked.scope)
            && (mask & mask::JOIN_STATE == 0 || join_state == asked.join_state)
    };
    let of_member = |member: &Member| McMemberRecord {
        port_gid: member.port_gid,
        scope: member.scope,
        join_state: member.join_state,
        proxy_join: member.proxy,
        ..*record
    };
    let mut found: Vec<McMemberRecord> = if mask & mask::PORT_GID != 0 {
        group.members.get(&Guid(asked.port_gid.guid)).map(of_member).into_iter().collect()
    } else if trusted {
        group.members.values().map(of_member).collect()
    } else {
        vec![McMemberRecord { port_gid: Gid::ZERO, proxy_join: false, ..*record }]
    };
    found.retain(|record| state_fits(record.scope, record.join_state));
    if !trusted {
        for record in &mut found {
            record.port_gid = Gid::ZERO;
            record.join_state = JoinState::NONE;
            record.proxy_join = false;
        }
    }
    found
}
