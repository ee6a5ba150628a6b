//! Whose turn it is.

/// Kinds of work that have turns: however much there is of one, the others are done meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    next: usize,
}

impl Turns {
    /// Something to do, of the kind whose turn it is or the next that has something. `ask` is called with `0..kinds`, each at most once.
    pub(super) fn take<T>(&mut self, kinds: usize, mut ask: impl FnMut(usize) -> Option<T>) -> Option<T> {
        for turn in self.next..self.next + kinds {
            let kind = turn % kinds;
            if let Some(work) = ask(kind) {
                self.next = (kind + 1) % kinds;
                return Some(work);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first kind was done as long as there was some of it.
    #[test]
    fn a_kind_of_which_there_is_always_more_leaves_the_others_their_turns() {
        let mut turns = Turns::default();
        let mut left = [usize::MAX, 2, 3];
        let mut done = [0; 3];
        for _ in 0..12 {
            let kind = turns.take(3, |kind| {
                left[kind] = left[kind].checked_sub(1)?;
                Some(kind)
            });
            done[kind.unwrap()] += 1;
        }
        assert_eq!(done, [7, 2, 3]);
        assert_eq!(turns.take(3, |_| None::<()>), None);
    }
}
