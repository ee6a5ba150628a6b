//! The order in which locks are taken (rule 34).
//!
//! Locks are nodes by class: where they were initialised, or the name of a lab lock. Taking B while holding A is an edge; an edge
//! that closes a circle is an inversion, whether or not the threads met this time. Two locks of one class are compared one by one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

/// A node of the graph.
pub type Class = u32;

/// What makes locks alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassKey {
    /// Initialised there (host index, return address).
    InitAt(usize, usize),
    /// Never initialised: alone in its class (host index, address).
    Zeroed(usize, usize),
    /// A lab lock.
    Lab(&'static str),
}

/// The graph of one machine.
#[derive(Debug, Default)]
pub struct Order {
    ids: BTreeMap<ClassKey, Class>,
    keys: Vec<ClassKey>,
    after: BTreeMap<Class, BTreeSet<Class>>,
    /// The edges once more: what is taken in an order that is known is looked up here alone.
    edges: FxHashSet<(Class, Class)>,
    /// Pairs of locks of one class, first taken first.
    pairs: BTreeSet<(usize, usize)>,
}

/// Two locks taken in both orders.
#[derive(Debug, PartialEq, Eq)]
pub struct Inversion {
    /// The classes on the way from the new lock back to the held one, both included.
    pub path: Vec<Class>,
}

impl Order {
    /// The node of these locks, made if need be.
    pub fn class(&mut self, key: ClassKey) -> Class {
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = self.keys.len() as Class;
        self.keys.push(key.clone());
        self.ids.insert(key, id);
        id
    }

    /// What makes the locks of a node alike.
    pub fn key(&self, class: Class) -> &ClassKey {
        &self.keys[class as usize]
    }

    /// Notes that `new` is taken while `held` is held (class and address of each).
    pub fn take(&mut self, held: (Class, usize), new: (Class, usize)) -> Result<(), Inversion> {
        if held.0 == new.0 {
            return self.take_alike(held, new);
        }
        if self.edges.contains(&(held.0, new.0)) {
            return Ok(());
        }
        match self.path(new.0, held.0) {
            Some(path) => Err(Inversion { path }),
            None => {
                self.after.entry(held.0).or_default().insert(new.0);
                self.edges.insert((held.0, new.0));
                Ok(())
            }
        }
    }

    fn take_alike(&mut self, held: (Class, usize), new: (Class, usize)) -> Result<(), Inversion> {
        if held.1 == new.1 {
            return Ok(());
        }
        if self.pairs.contains(&(new.1, held.1)) {
            return Err(Inversion { path: vec![new.0, held.0] });
        }
        self.pairs.insert((held.1, new.1));
        Ok(())
    }

    /// The lock at `addr` is gone: another one there is another lock.
    pub fn forget(&mut self, addr: usize) {
        if !self.pairs.is_empty() {
            self.pairs.retain(|(a, b)| *a != addr && *b != addr);
        }
    }

    fn path(&self, from: Class, to: Class) -> Option<Vec<Class>> {
        let mut seen = BTreeSet::from([from]);
        let mut paths = vec![vec![from]];
        while let Some(path) = paths.pop() {
            let last = *path.last()?;
            if last == to {
                return Some(path);
            }
            for next in self.after.get(&last).into_iter().flatten() {
                if seen.insert(*next) {
                    paths.push(path.iter().copied().chain([*next]).collect());
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{ClassKey, Inversion, Order};

    #[test]
    fn a_circle_over_three_locks_is_an_inversion() {
        let mut order = Order::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| order.class(ClassKey::Lab(name)));
        order.take((a, 1), (b, 2)).unwrap();
        order.take((b, 2), (c, 3)).unwrap();
        order.take((a, 1), (c, 3)).unwrap();
        assert_eq!(order.take((c, 3), (a, 1)), Err(Inversion { path: vec![a, c] }));
    }

    #[test]
    fn two_locks_of_one_class_have_an_order_until_one_is_destroyed() {
        let mut order = Order::default();
        let class = order.class(ClassKey::InitAt(0, 0x100));
        order.take((class, 1), (class, 2)).unwrap();
        assert!(order.take((class, 2), (class, 1)).is_err());
        order.forget(2);
        order.take((class, 2), (class, 1)).unwrap();
    }
}
