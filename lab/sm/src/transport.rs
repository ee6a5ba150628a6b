//! How the MADs of a client reach a subnet administrator and come back.

use std::collections::BTreeMap;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};

use crate::mad::Mad;
use crate::types::{Guid, Lid, PKey, Qpn, Sl};

/// Where a subnet administrator is, as a port's PortInfo and a redirection name it; or who else sends and takes MADs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmAddress {
    /// `MasterSMLID`.
    pub lid: Lid,
    /// `MasterSMSL`.
    pub sl: Sl,
    /// [`Qpn::GSI`] unless redirected.
    pub qpn: Qpn,
    /// In the packets.
    pub p_key: PKey,
}

/// A MAD that came in for QP 1 of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent it.
    pub from: SmAddress,
    /// What.
    pub mad: Mad,
    /// It is full, and what was behind its end may have been lost on the way: a table must not be taken for whole.
    pub cut: bool,
}

/// Why a MAD was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such port, or it has no link.
    #[error("port {0} cannot send")]
    NoPort(Guid),
}

/// Carries MADs between the ports of a fabric and its subnet administrator.
///
/// The embedded one is such a transport, and so can be the real OpenSM behind a simulated or real fabric. MADs may be lost;
/// they are never altered.
pub trait SaTransport: Send + Sync {
    /// From now on, what comes in for `port` goes to `inbound` too: each takes what is an answer to it or concerns it. The
    /// transport does not keep it alive.
    fn attach(&self, port: Guid, inbound: &Arc<dyn Inbound>);

    /// No MAD that comes in from now on goes to `inbound`; one that is on its way to it may still.
    fn detach(&self, port: Guid, inbound: &Arc<dyn Inbound>);

    /// Sends `mad` from QP 1 of `port`. Does not wait; the answer, if any, comes through the port's [`Inbound`]s.
    fn send(&self, port: Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused>;

    /// `port` has other capabilities than it had (trap 144 tells a manager so).
    fn capabilities_changed(&self, port: Guid) {
        let _ = port;
    }
}

/// Takes what a subnet administrator sends to a port: answers and unsolicited reports.
pub trait Inbound: Send + Sync {
    /// One MAD. Called without locks, in a context that may not block: record and return.
    fn receive(&self, arrival: &Arrival);
}

/// Who takes what comes in for which port: the half of [`SaTransport`] that every transport has.
#[derive(Default)]
pub struct Inbounds(BTreeMap<Guid, Vec<Weak<dyn Inbound>>>);

impl Inbounds {
    /// See [`SaTransport::attach`].
    pub fn attach(&mut self, port: Guid, inbound: &Arc<dyn Inbound>) {
        let known = self.0.entry(port).or_default();
        known.retain(|other| other.strong_count() > 0);
        known.push(Arc::downgrade(inbound));
    }

    /// See [`SaTransport::detach`].
    pub fn detach(&mut self, port: Guid, inbound: &Arc<dyn Inbound>) {
        if let Some(known) = self.0.get_mut(&port) {
            known.retain(|other| !addr_eq(other.as_ptr(), Arc::as_ptr(inbound)));
        }
    }

    /// Those of a port, in the order in which they came.
    pub fn of(&self, port: Guid) -> Vec<Arc<dyn Inbound>> {
        self.0.get(&port).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }
}
