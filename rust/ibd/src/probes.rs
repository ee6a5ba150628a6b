//! DTrace's probes of a link (docs/probes.md): on every drop, on what a link goes through, and on what is asked of the SA.
//!
//! One function each, which is where the probe sites are. They are called where something is out of the ordinary or slow, never for
//! a packet that goes its way.

use core::ffi::CStr;

use ipoib::connections::OpenError;
use ipoib::{Gid, LinkAddr};
use kernel::probe;

/// Packets to send go no further; the reason is named as in the kstat.
#[cold]
#[inline(never)]
pub(crate) fn tx_drop(link: i32, reason: &'static CStr, packets: usize) {
    probe!(ibd, tx__drop, link, reason.as_ptr(), packets);
}

/// A transmit ring gives packets back for the first time since it had room last.
#[cold]
#[inline(never)]
pub(crate) fn tx_full(link: i32, ring: usize) {
    probe!(ibd, tx__full, link, ring);
}

/// A transmit ring that gave packets back has room.
#[cold]
#[inline(never)]
pub(crate) fn tx_resume(link: i32, ring: usize) {
    probe!(ibd, tx__resume, link, ring);
}

/// A received frame goes no further; the reason is named as in the kstat.
#[cold]
#[inline(never)]
pub(crate) fn rx_drop(link: i32, reason: &'static CStr) {
    probe!(ibd, rx__drop, link, reason.as_ptr());
}

/// A neighbour that asked for a connection has got one.
#[inline(never)]
pub(crate) fn cm_accepted(link: i32, peer: &LinkAddr) {
    probe!(ibd, cm__accepted, link, peer.gid().guid);
}

/// Whoever asked for a connection gets none.
#[cold]
#[inline(never)]
pub(crate) fn cm_refused(link: i32, gid: Gid, why: &'static CStr) {
    probe!(ibd, cm__refused, link, gid.guid, why.as_ptr());
}

/// A neighbour is about to be asked for a connection.
#[inline(never)]
pub(crate) fn cm_open(link: i32, peer: &LinkAddr) {
    probe!(ibd, cm__open, link, peer.gid().guid);
}

/// A connection came of it.
#[inline(never)]
pub(crate) fn cm_opened(link: i32, peer: &LinkAddr) {
    probe!(ibd, cm__opened, link, peer.gid().guid);
}

/// Nothing came of it.
#[inline(never)]
pub(crate) fn cm_open_failed(link: i32, peer: &LinkAddr, error: OpenError) {
    let why = match error {
        OpenError::NoService => c"no service",
        OpenError::Stale => c"stale",
        OpenError::Failed => c"failed",
    };
    probe!(ibd, cm__open__failed, link, peer.gid().guid, why.as_ptr());
}

/// Nothing is left of a connection, that a neighbour or this link had opened.
#[inline(never)]
pub(crate) fn cm_closed(link: i32, peer: &LinkAddr, opened_by: &'static CStr) {
    probe!(ibd, cm__closed, link, peer.gid().guid, opened_by.as_ptr());
}

/// A link has come to another state, named as in the property.
#[inline(never)]
pub(crate) fn link_state(link: i32, state: &'static CStr) {
    probe!(ibd, link__state, link, state.as_ptr());
}

/// A queue pair carries traffic.
#[inline(never)]
pub(crate) fn qp_up(link: i32, qpn: u32) {
    probe!(ibd, qp__up, link, qpn);
}

/// A queue pair is gone.
#[inline(never)]
pub(crate) fn qp_down(link: i32) {
    probe!(ibd, qp__down, link);
}

/// A queue pair has to be replaced, and why.
#[inline(never)]
pub(crate) fn qp_broken(link: i32, why: &'static CStr) {
    probe!(ibd, qp__broken, link, why.as_ptr());
}

/// The SA is about to be asked about a group or a port, or about all groups (GID zero).
#[inline(never)]
pub(crate) fn sa_ask(link: i32, what: &'static CStr, gid: Gid) {
    probe!(ibd, sa__ask, link, what.as_ptr(), gid.prefix, gid.guid);
}

/// What came of it: an `ibt_status_t`.
#[inline(never)]
pub(crate) fn sa_answer(link: i32, what: &'static CStr, gid: Gid, status: u32) {
    let status = u64::from(status);
    probe!(ibd, sa__answer, link, what.as_ptr(), gid.guid, status);
}
