//! What waits in line, and is taken out in order.

use kernel::{AllocError, KVec};

/// A line with room that is made beforehand.
pub(crate) struct Line<T> {
    places: KVec<Option<T>>,
    head: usize,
    count: usize,
}

impl<T> Line<T> {
    pub(crate) const fn new() -> Self {
        Self { places: KVec::new(), head: 0, count: 0 }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Makes room for so many in all.
    pub(crate) fn reserve(&mut self, all: usize) -> Result<(), AllocError> {
        let now = self.places.len();
        if all <= now {
            return Ok(());
        }
        let room = all.max(now * 2);
        self.places.reserve(room - now)?;
        self.places.rotate_left(self.head);
        self.head = 0;
        while self.places.len() < room && self.places.push_within_capacity(None).is_ok() {}
        Ok(())
    }

    /// The last one; handed back if there is no room.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        if self.count == self.places.len() {
            return Err(value);
        }
        let at = (self.head + self.count) % self.places.len();
        match self.places.get_mut(at) {
            Some(place) => *place = Some(value),
            None => return Err(value),
        }
        self.count += 1;
        Ok(())
    }

    /// The first one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        let first = self.places.get_mut(self.head).and_then(Option::take);
        self.head = (self.head + 1) % self.places.len();
        self.count -= 1;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn who_comes_again_waits_behind_those_who_wait_already() {
        let mut line = Line::new();
        line.reserve(3).unwrap();
        for who in ['a', 'b', 'c'] {
            line.push(who).unwrap();
        }
        let mut served = String::new();
        for _ in 0..6 {
            let who = line.pop().unwrap();
            served.push(who);
            // Two of them never have enough.
            if who != 'b' {
                line.push(who).unwrap();
            }
        }
        assert_eq!((served.as_str(), line.len()), ("abcaca", 2));
    }

    #[test]
    fn room_can_be_made_while_some_wait_and_they_keep_their_order() {
        let mut line = Line::new();
        assert_eq!((line.push(0), line.pop()), (Err(0), None));
        for room in 1..40 {
            line.reserve(room).unwrap();
            while line.push(room).is_ok() {}
            let last = line.pop();
            assert!(last <= line.pop().or(Some(usize::MAX)), "{room}");
        }
        let rest: Vec<_> = core::iter::from_fn(|| line.pop()).collect();
        assert!(rest.is_sorted());
        assert_eq!(line.len(), 0);
    }
}
