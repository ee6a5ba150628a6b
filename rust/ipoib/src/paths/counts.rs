//! What the table of paths was asked, and what came of it: for whoever reads statistics.

use core::ops::{Deref, DerefMut};

use super::{DenialEpoch, Handle, PacketSlot, PathSlot, Paths};

/// Events since the table was made. Packets that a transmit queue sent by a handle it remembered are not among them: the table never saw
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that no transmit queue knew the way of.
    pub asked: u64,
    /// Of these, those that went at once by the handle that the table had.
    pub ready: u64,
    /// Of these, those that were refused because the last lookup failed and may not be repeated yet.
    pub denied: u64,
    /// Packets that waited, and were handed out with a handle.
    pub waited: u64,
    /// Addresses that had to go for another one.
    pub evicted: u64,
    /// Lookups that brought a handle.
    pub found: u64,
    /// Lookups that brought none.
    pub failed: u64,
    /// Of these, those that lacked an address handle.
    pub no_handle: u64,
}

impl<P, H, S, T, G> Paths<P, H, S, T, G>
where
    H: Handle,
    S: DerefMut<Target = [PathSlot<H>]>,
    T: DerefMut<Target = [PacketSlot<P>]>,
    G: Deref<Target = DenialEpoch>,
{
    /// What happened until now.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}
