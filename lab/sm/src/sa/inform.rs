//! Subscriptions to reports.

use super::{Address, Found, Refusal, Sa, Verdict, record_of, require};
use crate::mad::{SaMad, Status};
use crate::records::{InformInfo, Notice, attribute_offset};
use crate::types::{Guid, Lid};

/// Who wants to hear of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subscription {
    pub address: Address,
    /// With the subscriber's QPN, which is needed to unsubscribe.
    inform: InformInfo,
}

const ANY: u16 = 0xffff;
const ANY_PRODUCER: u32 = 0xff_ffff;

impl Subscription {
    /// Whether `notice` is what was asked for.
    pub fn wants(&self, notice: &Notice) -> bool {
        let inform = &self.inform;
        let from_there = if inform.gid.is_zero() {
            inform.lid_range_begin == Lid::PERMISSIVE
                || (inform.lid_range_begin..=inform.lid_range_end).contains(&notice.issuer_lid)
        } else {
            inform.gid == notice.issuer_gid
        };
        from_there
            && inform.is_generic == notice.is_generic
            && (inform.kind == ANY || inform.kind == u16::from(notice.kind))
            && (inform.trap_number == ANY || inform.trap_number == notice.trap_number)
            && (inform.producer_type == ANY_PRODUCER || inform.producer_type == notice.producer_type)
    }

    /// Whether both are the same subscription: the response time may differ.
    fn is(&self, address: Address, inform: &InformInfo) -> bool {
        let comparable = InformInfo { subscribe: true, resp_time: 0, ..*inform };
        self.address == address && InformInfo { subscribe: true, resp_time: 0, ..self.inform } == comparable
    }
}

/// Traps only trusted requesters may hear of: bad M_Keys, P_Keys and Q_Keys.
const SECURITY_TRAPS: std::ops::RangeInclusive<u16> = 256..=259;

impl Sa {
    /// `Set(InformInfo)`, answered with a copy.
    pub(super) fn inform(&mut self, from: Address, mad: &SaMad) -> Verdict {
        let asked: InformInfo = record_of(mad)?;
        require(self.port_at(from.lid).is_some(), Status::REQ_INVALID)?;
        let secret = asked.is_generic && SECURITY_TRAPS.contains(&asked.trap_number);
        require(mad.sm_key != 0 || !secret, Status::REQ_INVALID)?;
        let stored = if asked.subscribe { InformInfo { qpn: from.qpn, ..asked } } else { asked };
        let known = self.subscriptions.iter().position(|old| old.is(from, &stored));
        match (asked.subscribe, known) {
            (true, None) => {
                self.check_access(from, &asked)?;
                self.subscriptions.push(Subscription { address: from, inform: stored });
            }
            (true, Some(at)) => self.subscriptions[at].inform = stored,
            (false, Some(at)) => drop(self.subscriptions.remove(at)),
            (false, None) => return Err(Status::REQ_INVALID.into()),
        }
        let data = mad.data[..<InformInfo as crate::records::Record>::LEN].to_vec();
        Ok(Found { attribute_offset: attribute_offset::<InformInfo>(), count: 1, data })
    }

    /// Subscribers may only name ports they could talk to.
    fn check_access(&self, from: Address, asked: &InformInfo) -> Result<(), Refusal> {
        let subscriber = self.port_at(from.lid).ok_or(Status::REQ_INVALID)?;
        if !asked.gid.is_zero() {
            let source = self.ports.get(&Guid(asked.gid.guid)).ok_or(Status::REQ_INVALID)?;
            return require(source.is_reachable_from(subscriber), Status::REQ_INVALID);
        }
        if asked.lid_range_begin == Lid::PERMISSIVE {
            return Ok(());
        }
        let highest = self.ports.values().map(|port| *port.lids().end()).max().unwrap_or(0);
        require(asked.lid_range_begin.0 <= highest, Status::REQ_INVALID)?;
        let end = if asked.lid_range_end == Lid::NONE { asked.lid_range_begin } else { asked.lid_range_end };
        let range = asked.lid_range_begin..=end;
        let mut named = self.ports.values().filter(|port| range.contains(&port.info.lid));
        require(named.all(|port| port.is_reachable_from(subscriber)), Status::REQ_INVALID)
    }
}
