//! Paths between ports, and from a member to its group.

use super::{Endport, Found, Sa, Verdict, record_of, require};
use crate::mad::{Method, SaMad, Status};
use crate::partition::SCOPE_LINK_LOCAL;
use crate::records::{McMemberRecord, PathRecord, path_mask as mask};
use crate::types::{Bound, Gid, Guid, Lid, MtuCode, PKey, RateCode, Selector, Sl};

/// A request for paths, as far as every pair of ports shares it.
pub(super) struct Query<'a> {
    pub asked: &'a PathRecord,
    mask: u64,
    /// At most this many paths per pair of ports.
    limit: usize,
}

impl Query<'_> {
    const fn given(&self, bits: u64) -> bool {
        self.mask & bits == bits
    }
}

/// What a path carries.
#[derive(Clone, Copy)]
struct Params {
    mtu: u8,
    rate: RateCode,
    lifetime: u8,
    p_key: PKey,
    sl: Sl,
}

impl Sa {
    /// `Get` and `GetTable(PathRecord)`. Unknown ports, and GIDs of another subnet that no router leads to, give no paths, which is not an error.
    pub(super) fn paths(&self, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: PathRecord = record_of(mad)?;
        let limit = match mad.method {
            Method::GET => 1,
            _ if mad.mask & mask::NUMB_PATH != 0 => usize::from(asked.numb_path),
            _ => usize::MAX,
        };
        let query = Query { asked: &asked, mask: mad.mask, limit };
        require(!query.given(mask::RATE_SELECTOR | mask::RATE) || rate_of(&asked).is_valid(), INVALID)?;
        require(
            !query.given(mask::MTU_SELECTOR | mask::MTU) || MtuCode(asked.mtu.value).is_valid(),
            INVALID,
        )?;
        let service_id = mad.mask & mask::SERVICE_ID;
        require(service_id == 0 || service_id == mask::SERVICE_ID, Status::REQ_INSUFFICIENT_COMPONENTS)?;
        if query.given(mask::DGID) && asked.dgid.is_multicast() {
            let path = self.path_to_group(&query, mad.method);
            return Ok(Found::records(&path.into_iter().collect::<Vec<_>>()));
        }
        let sources = self.ends(&query, (mask::SGID, asked.sgid), (mask::SLID, asked.slid))?;
        let requester = self.ports.get(&requester);
        if let Some(requester) = requester.filter(|_| query.given(mask::DGID) && self.is_beyond(asked.dgid)) {
            let paths = sources.iter().flat_map(|source| self.path_beyond(&query, source, requester));
            let most = if mad.method == Method::GET { 1 } else { usize::MAX };
            return Ok(Found::records(&paths.take(most).collect::<Vec<_>>()));
        }
        let destinations = self.ends(&query, (mask::DGID, asked.dgid), (mask::DLID, asked.dlid))?;
        let mut paths = Vec::new();
        for destination in &destinations {
            for source in &sources {
                if requester.is_some_and(|requester| may_meet(requester, source, destination)) {
                    paths.extend(self.between(&query, source, destination));
                }
            }
        }
        if mad.method == Method::GET {
            paths.truncate(1);
        }
        Ok(Found::records(&paths))
    }

    /// The ports one end of the request may be: by GID, by LID, or any. Both given must be the same port.
    fn ends(
        &self,
        query: &Query<'_>,
        (gid_bit, gid): (u64, Gid),
        (lid_bit, lid): (u64, Lid),
    ) -> Result<Vec<&Endport>, super::Refusal> {
        let by_gid = query.given(gid_bit).then(|| self.port_of(gid));
        let by_lid = query.given(lid_bit).then(|| self.port_at(lid));
        match (by_gid, by_lid) {
            (Some(None), _) | (_, Some(None)) => Ok(Vec::new()),
            (Some(Some(by_gid)), Some(Some(by_lid))) => {
                require(by_gid.guid() == by_lid.guid(), INVALID)?;
                Ok(vec![by_gid])
            }
            (Some(port), None) | (None, Some(port)) => Ok(port.into_iter().collect()),
            (None, None) => Ok(self.ports.values().collect()),
        }
    }

    /// The port with this GID. Link-local prefixes are the subnet's own.
    fn port_of(&self, gid: Gid) -> Option<&Endport> {
        let is_local = gid.prefix == self.config.prefix || gid.prefix >> 54 == Gid::DEFAULT_PREFIX >> 54;
        self.ports.get(&Guid(gid.guid)).filter(|_| is_local)
    }

    /// The paths of one pair of ports: as many as the ends have LIDs in common order, then the remaining combinations.
    pub(super) fn between(
        &self,
        query: &Query<'_>,
        source: &Endport,
        destination: &Endport,
    ) -> Vec<PathRecord> {
        let Some(params) = self.params(query, source, destination) else { return Vec::new() };
        let reversible = self.params(query, destination, source).is_some();
        if query.given(mask::REVERSIBLE) && query.asked.reversible && !reversible {
            return Vec::new();
        }
        let lids = |port: &Endport, bit: u64, lid: Lid| -> Vec<u16> {
            if query.given(bit) { vec![lid.0] } else { port.lids().collect() }
        };
        let slids = lids(source, mask::SLID, query.asked.slid);
        let dlids = lids(destination, mask::DLID, query.asked.dlid);
        let parallel = slids.iter().zip(&dlids).map(|(slid, dlid)| (*slid, *dlid, 0));
        let crossed = slids.iter().enumerate().flat_map(|(at, slid)| {
            let others = dlids.iter().enumerate().filter(move |(other, _)| *other != at);
            others.map(|(_, dlid)| (*slid, *dlid, 2))
        });
        let sgid = if query.given(mask::SGID) { query.asked.sgid } else { source.gid(self.config.prefix) };
        let record = |(slid, dlid, preference)| PathRecord {
            dgid: destination.gid(self.config.prefix),
            sgid,
            dlid: Lid(dlid),
            slid: Lid(slid),
            reversible,
            p_key: params.p_key,
            sl: params.sl,
            mtu: Bound::exactly(params.mtu),
            rate: Bound::exactly(params.rate.0),
            lifetime: Bound::exactly(params.lifetime),
            preference,
            ..PathRecord::default()
        };
        let mut ways: Vec<_> = parallel.chain(crossed).filter(|(slid, ..)| *slid != 0).collect();
        // Pairs of ports with several LIDs each are spread over them.
        let first = (source.guid().0 ^ destination.guid().0.rotate_left(7)) % (ways.len().max(1) as u64);
        ways.rotate_left(first as usize);
        ways.into_iter().take(query.limit).map(record).collect()
    }

    /// What a path from `source` to `destination` carries, `None` if none is as asked.
    fn params(&self, query: &Query<'_>, source: &Endport, destination: &Endport) -> Option<Params> {
        let asked = query.asked;
        let loopback = source.guid() == destination.guid();
        let mut mtu = source.mtu().min(destination.mtu()).0;
        let mut rate = source.rate().slower(destination.rate());
        let mut lifetime = if loopback { 0 } else { self.config.subnet_timeout };
        if query.given(mask::MTU_SELECTOR | mask::MTU) {
            mtu = fit(mtu, asked.mtu)?;
        }
        if query.given(mask::RATE_SELECTOR | mask::RATE) {
            rate = fit_rate(rate, asked.rate)?;
        }
        if query.given(mask::LIFETIME_SELECTOR | mask::LIFETIME) {
            lifetime = fit(lifetime, asked.lifetime)?;
        }
        let p_key = if query.given(mask::RAW) && asked.raw {
            PKey(0)
        } else if query.given(mask::P_KEY) {
            Some(asked.p_key)
                .filter(|p_key| source.guid() == destination.guid() || source.shares(destination, *p_key))?
        } else {
            source.common_p_key(destination)?
        };
        let sl = if query.given(mask::SL) { asked.sl } else { Sl::default() };
        let lifetime = if loopback { 0 } else { lifetime };
        Some(Params { mtu, rate, lifetime, p_key, sl })
    }

    /// The path to a group: only for members, and only in the group's partition with all sixteen bits.
    fn path_to_group(&self, query: &Query<'_>, method: Method) -> Option<PathRecord> {
        let asked = query.asked;
        let group = self.groups.get(asked.dgid)?;
        let record: &McMemberRecord = &group.record;
        let is_member = |guid: Guid| group.members.contains_key(&guid);
        let agrees = |bit: u64, same: bool| !query.given(bit) || same;
        let matches = agrees(mask::DLID, asked.dlid == record.mlid)
            && agrees(mask::SGID, is_member(Guid(asked.sgid.guid)))
            && agrees(mask::SLID, self.port_at(asked.slid).is_some_and(|port| is_member(port.guid())))
            && agrees(mask::P_KEY, asked.p_key == record.p_key)
            && agrees(mask::SL, asked.sl == record.sl)
            && (method == Method::GET || agrees(mask::NUMB_PATH, asked.numb_path != 0))
            && agrees(mask::FLOW_LABEL, asked.flow_label == record.flow_label)
            && agrees(mask::HOP_LIMIT, asked.hop_limit == record.hop_limit)
            && agrees(mask::T_CLASS, asked.t_class == record.t_class);
        matches.then(|| PathRecord {
            dgid: record.mgid,
            dlid: record.mlid,
            t_class: record.t_class,
            reversible: false,
            numb_path: 1,
            p_key: record.p_key,
            mtu: record.mtu,
            rate: record.rate,
            lifetime: record.lifetime,
            sl: record.sl,
            qos_class: 0,
            raw: false,
            flow_label: record.flow_label,
            hop_limit: if record.mgid.scope() == SCOPE_LINK_LOCAL { record.hop_limit } else { 255 },
            ..*asked
        })
    }
}

const INVALID: Status = Status::REQ_INVALID;

/// The requester learns of a path only if it shares a partition with both ends.
pub(super) fn may_meet(requester: &Endport, source: &Endport, destination: &Endport) -> bool {
    requester.is_reachable_from(source)
        && requester.is_reachable_from(destination)
        && source.is_reachable_from(destination)
}

const fn rate_of(asked: &PathRecord) -> RateCode {
    RateCode(asked.rate.value)
}

/// What is answered where `best` is possible and `bound` asked for: the value itself, or a smaller one that fits.
fn fit(best: u8, bound: Bound) -> Option<u8> {
    match bound.selector {
        Selector::Greater => (best > bound.value).then_some(best),
        Selector::Less if best < bound.value => Some(best),
        Selector::Less => (bound.value > 1).then(|| bound.value - 1),
        Selector::Exactly => (best >= bound.value).then_some(bound.value),
        Selector::Best => Some(best),
    }
}

/// The same for rates; only the path's own rate is exactly itself.
fn fit_rate(best: RateCode, bound: Bound) -> Option<RateCode> {
    let wanted = RateCode(bound.value);
    let order = best.cmp_speed(wanted);
    match bound.selector {
        Selector::Greater => order.is_gt().then_some(best),
        Selector::Less if order.is_lt() => Some(best),
        Selector::Less => wanted.next_slower(),
        Selector::Exactly => order.is_eq().then_some(wanted),
        Selector::Best => Some(best),
    }
}
