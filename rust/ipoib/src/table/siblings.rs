//! Entries whose keys have something in common, found without a walk through the map: a doubly linked chain of its own per hash of
//! what they have in common. However many siblings there are, adding and removing one of them costs the same.

use core::ops::DerefMut;

use super::{Id, Key, Link, NONE, Slot, Table};

impl<K: Key, V, S, const LISTS: usize> Table<K, V, S, LISTS>
where
    S: DerefMut<Target = [Slot<K, V, LISTS>]>,
{
    /// The first entry that may be siblings of `key`, which need not be in the map: others may be among them.
    pub(crate) fn siblings(&self, key: &K) -> Option<Id> {
        if self.len == 0 {
            return None;
        }
        some(self.slot(self.kin_bucket_of(key)).kin_bucket)
    }

    /// The next one behind `id`.
    pub(crate) fn next_sibling(&self, id: Id) -> Option<Id> {
        some(self.slot(id.0).siblings.after)
    }

    fn kin_bucket_of(&self, key: &K) -> u32 {
        self.number_of(key.kin_hash(self.seed))
    }

    pub(super) fn chain_kin(&mut self, at: u32, key: &K) {
        let bucket = self.kin_bucket_of(key);
        let after = core::mem::replace(&mut self.slot_mut(bucket).kin_bucket, at);
        self.slot_mut(at).siblings = Link { before: NONE, after };
        if after != NONE {
            self.slot_mut(after).siblings.before = at;
        }
    }

    pub(super) fn unchain_kin(&mut self, at: u32, key: &K) {
        let Link { before, after } = core::mem::replace(&mut self.slot_mut(at).siblings, Link::ALONE);
        match before {
            NONE => {
                let bucket = self.kin_bucket_of(key);
                self.slot_mut(bucket).kin_bucket = after;
            }
            _ => self.slot_mut(before).siblings.after = after,
        }
        if after != NONE {
            self.slot_mut(after).siblings.before = before;
        }
    }
}

fn some(at: u32) -> Option<Id> {
    (at != NONE).then_some(Id(at))
}
