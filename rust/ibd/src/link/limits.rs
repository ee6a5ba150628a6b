//! Numbers that several parts of a link are built for.

/// Transmit rings, and queue pairs to send from, that a link has at most.
pub(crate) const MOST_TRANSMIT_RINGS: usize = 8;
/// Every so many datagrams one completes, and tells about those before it.
pub(crate) const SIGNAL_EVERY: u32 = 64;
