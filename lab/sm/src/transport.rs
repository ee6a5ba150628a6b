//! How the MADs of a client reach a subnet administrator and come back.

use std::sync::Arc;

use crate::mad::Mad;
use crate::types::{Guid, Lid, Qpn, Sl};

/// Where a subnet administrator is, as a port's PortInfo and a redirection name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmAddress {
    /// `MasterSMLID`.
    pub lid: Lid,
    /// `MasterSMSL`.
    pub sl: Sl,
    /// [`Qpn::GSI`] unless redirected.
    pub qpn: Qpn,
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
    /// From now on, what comes in for `port` goes to `inbound`; a former one is forgotten.
    fn attach(&self, port: Guid, inbound: Arc<dyn Inbound>);

    /// Nothing more goes to the port's [`Inbound`] once this has returned.
    fn detach(&self, port: Guid);

    /// Sends `mad` from QP 1 of `port`. Does not wait; the answer, if any, comes through the port's [`Inbound`].
    fn send(&self, port: Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused>;
}

/// Takes what a subnet administrator sends to a port: answers and unsolicited reports.
pub trait Inbound: Send + Sync {
    /// One MAD. Called without locks, in a context that may not block: record and return.
    fn receive(&self, mad: &Mad);
}
