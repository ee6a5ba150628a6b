//! [`Outgoing`]: sends in the order in which they will be over, and what each needs until then.

use kernel::{AllocError, KArc};

use crate::adapter_owned::Keep;
use crate::ring::Ring;

/// Elements with a number each, in order. Each needs a `D` for as long as it is inside. Of consecutive ones that need the same the last
/// one keeps it for all of them: elements leave in order, or from the end. So a run of sends to one address counts it once.
///
/// # Invariants
///
/// An element that keeps nothing is followed by one that needs the same.
pub(crate) struct Outgoing<E, D> {
    ring: Ring<Place<E, D>>,
}

struct Place<E, D> {
    element: E,
    keeps: Option<KArc<D>>,
}

impl<E: Send + Sync, D: Send + Sync> Keep for Outgoing<E, D> {}

impl<E, D> Outgoing<E, D> {
    /// Room for at least `capacity` (at most 2^31).
    pub(crate) fn new(capacity: u32) -> Result<Self, AllocError> {
        Ok(Self { ring: Ring::new(capacity)? })
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// The number the next element gets.
    #[inline]
    pub(crate) fn next_number(&self) -> u32 {
        self.ring.next_number()
    }

    /// Whether `number` is one of the oldest `count`.
    #[inline]
    pub(crate) fn is_among(&self, number: u32, count: u32) -> bool {
        self.ring.is_among(number, count)
    }

    /// Appends, or hands back when full.
    #[inline(always)]
    pub(crate) fn push(&mut self, element: E, needs: &KArc<D>) -> Result<(), E> {
        let last = self.ring.newest();
        let kept = last.and_then(|last| last.keeps.take_if(|kept| KArc::ptr_eq(kept, needs)));
        let keeps = Some(kept.unwrap_or_else(|| needs.clone()));
        self.ring.push(Place { element, keeps }).map_err(|Place { element, keeps }| {
            self.give_back(keeps);
            element
        })
    }

    /// What the oldest needs.
    pub(crate) fn oldest_needs(&self) -> Option<&KArc<D>> {
        self.ring.iter().find_map(|place| place.keeps.as_ref())
    }

    /// Takes the oldest, with its number.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(u32, E)> {
        let (number, Place { element, .. }) = self.ring.pop()?;
        Some((number, element))
    }

    /// Takes the newest `count` out, the oldest of them first.
    pub(crate) fn take_back(&mut self, count: u32, mut each: impl FnMut(E)) {
        let mut first = None;
        self.ring.take_back(count, |Place { element, keeps }| {
            if first.is_none() {
                first = keeps;
            }
            each(element);
        });
        self.give_back(first);
    }

    /// Takes one out of the newest; those behind it move up and get the numbers before theirs.
    pub(crate) fn remove(&mut self, number: u32) -> Option<E> {
        let Place { element, keeps } = self.ring.remove(number)?;
        if let Some(before) = self.ring.get(number.wrapping_sub(1))
            && before.keeps.is_none()
        {
            // If it kept nothing either, one behind it does for both.
            before.keeps = keeps;
        }
        Some(element)
    }

    /// What was kept by the first of those behind the newest is kept by that, if it needs it.
    fn give_back(&mut self, kept: Option<KArc<D>>) {
        if let Some(last) = self.ring.newest()
            && last.keeps.is_none()
        {
            last.keeps = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::VecDeque;
    use std::rc::Rc;
    use std::vec::Vec;

    use super::Outgoing;
    use kernel::KArc;

    /// Lives as long as its address is in use.
    struct Address(#[allow(dead_code, reason = "counted")] Rc<()>);

    fn addresses(count: usize) -> (Vec<Rc<()>>, Vec<KArc<Address>>) {
        let lives: Vec<_> = (0..count).map(|_| Rc::new(())).collect();
        let addresses = lives.iter().map(|life| KArc::new(Address(life.clone())).unwrap()).collect();
        (lives, addresses)
    }

    #[test]
    fn a_run_of_sends_to_one_address_counts_it_once() {
        let (_, addresses) = addresses(2);
        let mut outgoing = Outgoing::new(8).unwrap();
        for (n, to) in [0, 0, 0, 1, 0].into_iter().enumerate() {
            outgoing.push(n, &addresses[to]).unwrap();
        }
        assert_eq!([0, 1].map(|to| KArc::count(&addresses[to])), [3, 2]);
    }

    /// Whatever happens in whatever order, nothing that an element needs goes before it, and everything goes with the last one.
    #[test]
    fn what_a_send_needs_lives_as_long_as_the_send() {
        const ADDRESSES: usize = 3;
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..if cfg!(miri) { 10 } else { 500 } {
            let (lives, addresses) = addresses(ADDRESSES);
            let mut addresses: Vec<_> = addresses.into_iter().map(Some).collect();
            let mut outgoing = Outgoing::new(8).unwrap();
            let mut inside: VecDeque<usize> = VecDeque::new();
            for _ in 0..60 {
                match random(8) {
                    0..4 => {
                        let to = random(ADDRESSES);
                        let Some(address) = &addresses[to] else { continue };
                        match outgoing.push(to, address) {
                            Ok(()) => inside.push_back(to),
                            Err(back) => assert_eq!((back, inside.len()), (to, 8)),
                        }
                    }
                    4 => assert_eq!(outgoing.pop().map(|(_, to)| to), inside.pop_front()),
                    5 => {
                        let count = random(4).min(inside.len());
                        let mut back = Vec::new();
                        outgoing.take_back(count as u32, |to| back.push(to));
                        assert_eq!(back, Vec::from_iter(inside.split_off(inside.len() - count)));
                    }
                    6 if !inside.is_empty() => {
                        let at = random(inside.len());
                        let number = outgoing.next_number().wrapping_sub((inside.len() - at) as u32);
                        assert_eq!(outgoing.remove(number), inside.remove(at));
                    }
                    // Nobody else has the address any more.
                    _ if random(4) == 0 => addresses[random(ADDRESSES)] = None,
                    _ => {}
                }
                for to in 0..ADDRESSES {
                    let needed = inside.contains(&to) || addresses[to].is_some();
                    assert_eq!(Rc::strong_count(&lives[to]) > 1, needed, "{to} of {inside:?}");
                }
            }
            drop((outgoing, addresses));
            assert!(lives.iter().all(|life| Rc::strong_count(life) == 1));
        }
    }
}
