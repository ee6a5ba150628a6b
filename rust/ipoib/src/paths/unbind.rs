//! Addresses to take out of the transmit queues' caches: a few by name, and "all of them" when there are more.

use crate::addr::LinkAddr;

const NAMED: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Unbinds {
    named: [LinkAddr; NAMED],
    len: usize,
    all: bool,
}

impl Unbinds {
    pub(super) fn one(&mut self, to: LinkAddr) {
        match self.named.get_mut(self.len) {
            _ if self.all => {}
            Some(free) => {
                *free = to;
                self.len += 1;
            }
            None => self.everything(),
        }
    }

    pub(super) fn everything(&mut self) {
        self.all = true;
        self.len = 0;
    }

    /// `Some(None)` is "everything".
    pub(super) fn next(&mut self) -> Option<Option<LinkAddr>> {
        if core::mem::take(&mut self.all) {
            return Some(None);
        }
        self.len = self.len.checked_sub(1)?;
        self.named.get(self.len).copied().map(Some)
    }

    /// Whether every transmit queue is still to be told to forget the address.
    #[cfg(test)]
    pub(super) fn tells_of(&self, to: &LinkAddr) -> bool {
        self.all || self.named.iter().take(self.len).any(|named| named == to)
    }
}
