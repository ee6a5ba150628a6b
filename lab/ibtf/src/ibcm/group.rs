//! Joining, leaving and querying multicast groups.
//!
//! Joins are counted per group and port; each of them goes to the administrator all the same. Only the last leave does, with
//! the join state of all of them.

use std::collections::{BTreeMap, BTreeSet};

use fabric::{Gid, PortState};
use fakekernel::{HostMutex, Nanos, now};
use illumos_sys_hdrs::{
    B_TRUE, IBT_INVALID_PARAM, IBT_MC_MGID_INVALID, IBT_MCG_RECORDS_NOT_FOUND, ib_mtu_t, ibt_adds_vect_t,
    ibt_mcg_attr_t, ibt_mcg_info_t, ibt_selector_t, ibt_srate_e, ibt_status_t,
};
use sm::records::{McMemberRecord, mc_member_mask as mask, parse_table};
use sm::{Bound, JoinState, Lid, Method, PKey, QKey, Sl, Status};

use super::{Ibcm, Local, status, units};
use crate::convert::{gid_from_c, gid_to_c};
use crate::ibtl::Ibtl;
use crate::saa::{GroupMembers, Request, SaError};

/// What clients have joined and left.
#[derive(Default)]
pub(super) struct Joins(HostMutex<State>);

#[derive(Default)]
struct State {
    /// By group and GUID of the port: whichever prefix the port's GID had, its joins are counted together.
    joined: BTreeMap<(Gid, u64), Joined>,
    /// Groups and ports (GIDs) whose last leave found no port to tell the administrator from, or whose port went down during the last join.
    untold: BTreeSet<(Gid, Gid)>,
    /// Groups and ports (GUIDs) whose leaves the administrator has refused.
    refused: BTreeMap<(Gid, u64), Refused>,
    /// Groups that ports (GIDs) have asked to join, and were not told to have left.
    asked: BTreeSet<(Gid, Gid)>,
    /// Since when leaves are not answered.
    unanswered: BTreeMap<(Gid, Gid), Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused {
    /// In all of these.
    state: JoinState,
    times: u32,
    /// Joined in that state since, and no leave was refused again. Who joins only to leave asks.
    is_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Joined {
    count: u32,
    /// All in which it was joined.
    state: JoinState,
}

impl State {
    /// The refused leaves that a port's new state makes up for.
    fn refused_in(&mut self, mgid: Gid, port: Gid, state: JoinState) -> Option<&mut Refused> {
        self.refused.get_mut(&(mgid, port.guid)).filter(|refused| state.contains(refused.state))
    }
}

impl Joins {
    fn add(&self, mgid: Gid, port: Gid, state: JoinState) {
        let mut all = self.0.lock();
        all.untold.retain(|(group, known)| (*group, known.guid) != (mgid, port.guid));
        if let Some(refused) = all.refused_in(mgid, port, state) {
            refused.is_back = true;
        }
        let joined =
            all.joined.entry((mgid, port.guid)).or_insert(Joined { count: 0, state: JoinState::NONE });
        joined.count += 1;
        joined.state = joined.state.union(state);
    }

    /// Groups and ports that the administrator may still have as members although every join has been undone.
    pub(super) fn untold(&self) -> Vec<(Gid, Gid)> {
        self.0.lock().untold.iter().copied().collect()
    }

    /// See [`crate::joins`].
    pub(super) fn counted(&self) -> Vec<((Gid, u64), u32)> {
        let all = self.0.lock();
        // What an administrator answers about no group at all is counted, too, and no client can leave that.
        let groups = all.joined.iter().filter(|((mgid, _), _)| mgid.is_multicast());
        groups.map(|(who, joined)| (*who, joined.count)).collect()
    }

    /// See [`crate::ended_with_the_last`].
    pub(super) fn ended_with_the_last(&self) -> Vec<(Gid, u64)> {
        let all = self.0.lock();
        let more = all.joined.iter().filter(|(_, joined)| joined.state.bits().count_ones() > joined.count);
        more.map(|(who, _)| *who).collect()
    }

    /// See [`crate::refused_leaves`].
    pub(super) fn refused(&self) -> Vec<((Gid, u64), u32)> {
        self.0
            .lock()
            .refused
            .iter()
            .filter(|(_, all)| !all.is_back)
            .map(|(who, all)| (*who, all.times))
            .collect()
    }

    fn answered(&self, mgid: Gid, port: Gid, state: JoinState, refused: bool) {
        let mut all = self.0.lock();
        if refused {
            let first = Refused { state: JoinState::NONE, times: 0, is_back: false };
            let refused = all.refused.entry((mgid, port.guid)).or_insert(first);
            *refused =
                Refused { state: refused.state.union(state), times: refused.times + 1, is_back: false };
        } else if all.refused_in(mgid, port, state).is_some() {
            all.refused.remove(&(mgid, port.guid));
        }
    }

    /// The administrator was asked for a membership and may have granted it.
    fn asks(&self, mgid: Gid, port: Gid) {
        self.0.lock().asked.insert((mgid, port));
    }

    /// How the administrator's answer to a leave was.
    fn leave_ended(&self, mgid: Gid, port: Gid, answered: bool) {
        let mut all = self.0.lock();
        if answered {
            all.asked.remove(&(mgid, port));
            all.unanswered.remove(&(mgid, port));
        } else {
            all.unanswered.entry((mgid, port)).or_insert_with(now);
        }
    }

    /// The driver of a port (GUID) goes. What it cannot end any more, because the administrator has not answered it for so long, is the
    /// administrator's.
    pub(super) fn left_alone(&self, port: u64, is_silent: bool, patience: Nanos) {
        let mut all = self.0.lock();
        let asked = all.asked.iter().filter(|(_, by)| is_silent && by.guid == port).copied();
        let late =
            all.unanswered.iter().filter(|((_, by), since)| by.guid == port && now() - **since >= patience);
        let left: Vec<(Gid, Gid)> = asked.chain(late.map(|(who, _)| *who)).collect();
        all.untold.extend(left);
    }

    fn cannot_tell(&self, mgid: Gid, port: Gid) {
        self.0.lock().untold.insert((mgid, port));
    }

    /// One join less. The state to leave with if that was the last, or if there never was one.
    fn take(&self, mgid: Gid, port: Gid, state: JoinState) -> Option<JoinState> {
        let mut all = self.0.lock();
        let Some(joined) = all.joined.get_mut(&(mgid, port.guid)) else { return Some(state) };
        joined.count -= 1;
        if joined.count > 0 {
            return None;
        }
        all.joined.remove(&(mgid, port.guid)).map(|joined| joined.state)
    }
}

/// A join that may be asked for.
pub(super) struct Join {
    local: Local,
    request: Request,
    mgid: Gid,
    port_gid: Gid,
    state: JoinState,
}

impl Join {
    /// Checks what a client asked for.
    pub fn check(ibcm: &Ibcm, rgid: Gid, attr: &ibt_mcg_attr_t) -> Result<Self, ibt_status_t> {
        let record = asked(rgid, attr);
        if !is_port(rgid) || !record.p_key.is_valid() || record.join_state.is_empty() {
            return Err(IBT_INVALID_PARAM);
        }
        let local = ibcm.local(rgid)?;
        let mut given = given(&record) & OPTIONAL;
        given |= mask::PORT_GID | mask::Q_KEY | mask::P_KEY | mask::JOIN_STATE;
        given |= mask::T_CLASS | mask::FLOW_LABEL | mask::SL;
        if record.mgid.is_multicast() {
            given |= mask::MGID;
        }
        let (mgid, port_gid) = (record.mgid, record.port_gid);
        let request = Request::of(Method::SET, given, &record);
        Ok(Self { local, request, mgid, port_gid, state: record.join_state })
    }

    /// Asks the administrator; what the client is told of the group.
    pub fn run(&self, ibcm: &Ibcm) -> Result<ibt_mcg_info_t, ibt_status_t> {
        let answer = ibcm.ask(&self.local, &self.request);
        if !matches!(answer, Err(SaError::Refused(_))) {
            ibcm.joins.asks(self.mgid, self.port_gid);
        }
        if matches!(answer, Err(SaError::NoSession)) {
            // The port went down before the answer came: the administrator may grant it all the same.
            ibcm.joins.cannot_tell(self.mgid, self.port_gid);
        }
        let answer = answer.map_err(status::of_group)?;
        let record: McMemberRecord = answer.header.record().ok_or(IBT_MCG_RECORDS_NOT_FOUND)?;
        ibcm.joins.add(record.mgid, self.port_gid, self.state);
        Ok(info(&self.local, &record, record.port_gid))
    }
}

/// What a join may leave out.
const OPTIONAL: u64 = mask::MTU_SELECTOR
    | mask::MTU
    | mask::RATE_SELECTOR
    | mask::RATE
    | mask::LIFETIME_SELECTOR
    | mask::LIFETIME
    | mask::HOP_LIMIT
    | mask::SCOPE
    | mask::MLID;

impl Ibcm {
    /// One leave, counted before the port is looked for. The administrator hears of the last one only, and is not asked again if
    /// it refuses.
    pub(super) fn leave(
        &self,
        rgid: Gid,
        mgid: Gid,
        port: Gid,
        state: JoinState,
    ) -> Result<(), ibt_status_t> {
        if !is_port(rgid) {
            return Err(IBT_INVALID_PARAM);
        }
        if mgid != Gid::default() && !mgid.is_multicast() {
            return Err(IBT_MC_MGID_INVALID);
        }
        let port = if is_port(port) { port } else { rgid };
        let Some(join_state) = self.joins.take(mgid, port, state) else { return Ok(()) };
        // Who names no port to ask by, of a port that is there, only wants the count undone.
        let is_there = self.local(port).is_ok();
        let local = self.local(rgid).inspect_err(|_| {
            if !is_there {
                self.joins.cannot_tell(mgid, port);
            }
        })?;
        let record = McMemberRecord { mgid, port_gid: port, join_state, ..McMemberRecord::default() };
        let request = Request::of(Method::DELETE, mask::JOIN, &record);
        let answer = self.ask(&local, &request);
        self.joins.answered(mgid, port, join_state, matches!(answer, Err(SaError::Refused(_))));
        self.joins.leave_ended(mgid, port, matches!(answer, Ok(_) | Err(SaError::Refused(_))));
        answer.map(|_| ()).map_err(status::of_leave)
    }

    /// Whether the subscriptions of a port stand.
    pub(crate) fn is_subscribed(&self, port: sm::Guid) -> bool {
        self.sessions.lock().values().all(|session| session.port().guid.0 != port.0 || session.is_available())
    }

    /// See [`crate::groups_of`]. Asks from the first port that is ACTIVE.
    pub(crate) fn groups_of(&self, port: fabric::Guid) -> Result<Vec<GroupMembers>, String> {
        let devices = Ibtl::of(&self.kernel).all_devices();
        let ports = devices
            .iter()
            .flat_map(|device| device.cached_ports().into_iter().map(move |attr| (device, attr)));
        let all: Vec<_> = ports.collect();
        let prefix = all.iter().find(|(_, attr)| attr.claimed() == port).map(|(_, attr)| attr.gids[0].prefix);
        let asker = all.into_iter().find(|(_, attr)| attr.state == PortState::Active);
        let (device, attr) = asker.ok_or("no port is up")?;
        let local = Local { device: device.clone(), attr, sgid_ix: 0 };
        let port_gid = Gid { prefix: prefix.unwrap_or(Gid::DEFAULT_PREFIX), guid: port.0 };
        let record = McMemberRecord { port_gid, ..McMemberRecord::default() };
        let request = Request::of(Method::GET_TABLE, mask::PORT_GID, &record);
        let records: Vec<McMemberRecord> = match self.ask(&local, &request) {
            Ok(answer) => parse_table(&answer.data, answer.header.attribute_offset),
            Err(SaError::Refused(status)) if status == Status::NO_RECORDS => Vec::new(),
            Err(error) => return Err(format!("the groups of port {port}: {error:?}")),
        };
        let members = |record: &McMemberRecord| GroupMembers {
            mgid: record.mgid,
            mlid: record.mlid,
            members: vec![port],
        };
        Ok(records.iter().map(members).collect())
    }

    /// The groups that match what is not zero in `attr`, at most `max` of them; 0 is all.
    pub(super) fn query_groups(
        &self,
        rgid: Gid,
        attr: Option<&ibt_mcg_attr_t>,
        max: usize,
    ) -> Result<Vec<ibt_mcg_info_t>, ibt_status_t> {
        if !is_port(rgid) {
            return Err(IBT_INVALID_PARAM);
        }
        let local = self.local(rgid)?;
        let record = attr.map(|attr| asked(Gid::default(), attr)).unwrap_or_default();
        let request = Request::of(Method::GET_TABLE, given(&record), &record);
        let answer = self.ask(&local, &request).map_err(status::of_group)?;
        let records: Vec<McMemberRecord> = parse_table(&answer.data, answer.header.attribute_offset);
        if records.is_empty() {
            return Err(IBT_MCG_RECORDS_NOT_FOUND);
        }
        let member = attr.map(|attr| gid_from_c(attr.mc_pgid)).filter(|gid| is_port(*gid)).unwrap_or(rgid);
        let wanted = if max == 0 { usize::MAX } else { max };
        Ok(records.iter().take(wanted).map(|record| info(&local, record, member)).collect())
    }
}

/// Whether both halves of a port's GID are there.
const fn is_port(gid: Gid) -> bool {
    gid.prefix != 0 && gid.guid != 0
}

/// What a client asks for, as a record. Without a port of its own it means `rgid`.
fn asked(rgid: Gid, attr: &ibt_mcg_attr_t) -> McMemberRecord {
    let port = gid_from_c(attr.mc_pgid);
    let lifetime = match attr.mc_pkt_lt_req.p_pkt_lt {
        0 => Bound::default(),
        usec => bound(units::usec_to_ib(usec).into(), attr.mc_pkt_lt_req.p_selector),
    };
    McMemberRecord {
        mgid: gid_from_c(attr.mc_mgid),
        port_gid: if is_port(port) { port } else { rgid },
        q_key: QKey(attr.mc_qkey),
        mlid: Lid(attr.mc_opaque1),
        mtu: bound(attr.mc_mtu_req.r_mtu.0, attr.mc_mtu_req.r_selector),
        t_class: attr.mc_tclass,
        p_key: PKey(attr.mc_pkey),
        rate: bound(attr.mc_rate_req.r_srate.0, attr.mc_rate_req.r_selector),
        lifetime,
        sl: Sl::truncating(attr.mc_sl()),
        flow_label: attr.mc_flow(),
        hop_limit: attr.mc_hop,
        scope: attr.mc_scope(),
        join_state: JoinState::truncating(attr.mc_join_state()),
        proxy_join: false,
    }
}

/// A value with its selector, as the two have the same numbers on the wire and in the interface.
pub(super) fn bound(value: u32, selector: ibt_selector_t) -> Bound {
    Bound::from_wire((selector.0 as u8) << 6 | (value as u8 & 0x3f))
}

/// The components that are not zero.
fn given(record: &McMemberRecord) -> u64 {
    let parts = [
        (record.mgid.prefix != 0 || record.mgid.guid != 0, mask::MGID),
        (record.port_gid.prefix != 0 && record.port_gid.guid != 0, mask::PORT_GID),
        (record.q_key.0 != 0, mask::Q_KEY),
        (record.mlid.0 != 0, mask::MLID),
        (record.mtu.value != 0, mask::MTU_SELECTOR | mask::MTU),
        (record.t_class != 0, mask::T_CLASS),
        (record.p_key.0 != 0, mask::P_KEY),
        (record.rate.value != 0, mask::RATE_SELECTOR | mask::RATE),
        (record.lifetime.value != 0, mask::LIFETIME_SELECTOR | mask::LIFETIME),
        (record.sl.get() != 0, mask::SL),
        (record.flow_label != 0, mask::FLOW_LABEL),
        (record.hop_limit != 0, mask::HOP_LIMIT),
        (record.scope != 0, mask::SCOPE),
        (!record.join_state.is_empty(), mask::JOIN_STATE),
    ];
    parts.iter().filter(|(there, _)| *there).fold(0, |all, (_, bits)| all | bits)
}

/// What a client is told of a group. The P_Key's index is 0 if the port's table does not have it, as in ibcm.
fn info(local: &Local, record: &McMemberRecord, member: Gid) -> ibt_mcg_info_t {
    let mut vector = ibt_adds_vect_t {
        av_dgid: gid_to_c(record.mgid),
        av_sgid: gid_to_c(member),
        av_srate: ibt_srate_e(record.rate.value.into()),
        av_tclass: record.t_class,
        av_hop: record.hop_limit,
        av_port_num: local.attr.num.0,
        av_opaque1: B_TRUE,
        av_opaque2: record.mlid.0,
        av_opaque4: local.sgid_ix,
        ..Default::default()
    };
    vector.set_av_srvl(record.sl.get());
    vector.set_av_flow(record.flow_label);
    let mut info = ibt_mcg_info_t {
        mc_adds_vect: vector,
        mc_mtu: ib_mtu_t(record.mtu.value.into()),
        mc_qkey: record.q_key.0,
        mc_pkey_ix: local.p_key_index(record.p_key).unwrap_or(0),
        mc_opaque2: units::ib_to_usec(record.lifetime.value),
        ..Default::default()
    };
    info.set_mc_scope(record.scope);
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    const MGID: Gid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 1 };
    const PORT: Gid = Gid { prefix: Gid::DEFAULT_PREFIX, guid: 0xa };

    #[test]
    fn only_the_last_leave_is_passed_on_and_with_all_states() {
        let joins = Joins::default();
        joins.add(MGID, PORT, JoinState::FULL);
        joins.add(MGID, PORT, JoinState::SEND_ONLY_NON);
        assert_eq!(joins.take(MGID, PORT, JoinState::FULL), None);
        assert_eq!(joins.take(MGID, PORT, JoinState::FULL), Some(JoinState::truncating(5)));
        assert_eq!(joins.take(MGID, PORT, JoinState::NON), Some(JoinState::NON), "nobody knows of a join");
    }

    #[test]
    fn a_query_asks_for_what_is_not_zero() {
        let mut attr = ibt_mcg_attr_t { mc_pkey: 0xffff, mc_mgid: gid_to_c(MGID), ..Default::default() };
        attr.set_mc_scope(2);
        attr.set_mc_join_state(1);
        let record = asked(Gid::default(), &attr);
        assert_eq!(given(&record), mask::MGID | mask::P_KEY | mask::SCOPE | mask::JOIN_STATE);
        assert_eq!((record.scope, record.join_state), (2, JoinState::FULL));
    }
}
