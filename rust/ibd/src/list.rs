//! A list with a block of memory per element, so that what an instance adds goes with it.

use kernel::{AllocError, KBox};

/// Elements, the last one added first.
pub(crate) struct List<T> {
    first: Link<T>,
}

type Link<T> = Option<KBox<Node<T>>>;

struct Node<T> {
    value: T,
    next: Link<T>,
}

impl<T> List<T> {
    /// No elements.
    pub(crate) const fn new() -> Self {
        Self { first: None }
    }

    /// Adds an element. On failure it is dropped.
    pub(crate) fn add(&mut self, value: T) -> Result<(), AllocError> {
        let mut node = KBox::new(Node { value, next: None })?;
        node.next = self.first.take();
        self.first = Some(node);
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first.as_deref();
        core::iter::from_fn(move || {
            let node = next?;
            next = node.next.as_deref();
            Some(&node.value)
        })
    }

    /// The first element that `wanted` accepts.
    pub(crate) fn find_mut(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut next = self.first.as_deref_mut();
        while let Some(node) = next {
            if wanted(&node.value) {
                return Some(&mut node.value);
            }
            next = node.next.as_deref_mut();
        }
        None
    }

    /// Takes out the first element that `wanted` accepts.
    pub(crate) fn take(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut passed = Self::new();
        let mut taken = None;
        while let Some(mut node) = self.first.take() {
            self.first = node.next.take();
            if wanted(&node.value) {
                taken = Some(node.into_inner().value);
                break;
            }
            node.next = passed.first.take();
            passed.first = Some(node);
        }
        while let Some(mut node) = passed.first.take() {
            passed.first = node.next.take();
            node.next = self.first.take();
            self.first = Some(node);
        }
        taken
    }
}

impl<T> Drop for List<T> {
    /// One by one: dropping the first would drop the rest inside it, a stack frame each.
    fn drop(&mut self) {
        while let Some(mut node) = self.first.take() {
            self.first = node.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    #[test]
    fn elements_are_found_changed_and_taken_and_the_others_keep_their_order() {
        let mut list = List::new();
        for n in 0..5 {
            list.add(n).unwrap();
        }
        *list.find_mut(|n| *n == 3).unwrap() = 30;
        assert_eq!(list.take(|n| *n == 2), Some(2));
        assert_eq!(list.take(|n| *n == 2), None);
        assert!(list.iter().eq(&[4, 30, 1, 0]));
        assert_eq!((list.take(|n| *n == 4), list.take(|n| *n == 0)), (Some(4), Some(0)));
        assert!(list.iter().eq(&[30, 1]));
    }
}
