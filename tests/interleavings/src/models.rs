//! What must hold in every order. Values behind the types are loom's cells, which fail a model in which one thread reads what another
//! writes with nothing between them.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::admission::Admission;
use crate::arc::KArc;
use crate::boxed::KBox;
use crate::once::Once;
use crate::pile::{Entry, Pile};
use crate::shutter::Shutter;
use crate::stack::IndexStack;

/// A value of one thread at a time, or of readers alone.
struct Value(UnsafeCell<u32>);

// SAFETY: loom checks each access.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom fails the model if anybody may be writing.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, new: u32) {
        // SAFETY: loom fails the model if anybody else may be here.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

/// Two threads pop, use and push indices of a stack of two: none is given out twice, none is lost, and what one did with an index the
/// next one sees.
pub fn an_index_is_one_threads_at_a_time() {
    loom::model(|| {
        let stack = Arc::new(IndexStack::full(2).unwrap());
        let values = Arc::new([Value::new(0), Value::new(0)]);
        let work = |stack: Arc<IndexStack>, values: Arc<[Value; 2]>| {
            if let Some(index) = stack.pop() {
                let value = &values[index as usize];
                value.write(value.read() + 1);
                stack.push(index);
            }
        };
        let (other, others) = (stack.clone(), values.clone());
        let thread = thread::spawn(move || work(other, others));
        work(stack.clone(), values.clone());
        thread.join().unwrap();
        assert_eq!(stack.len(), 2);
        assert_eq!(values.iter().map(Value::read).sum::<u32>(), 2);
        let mut both = [stack.pop(), stack.pop()];
        both.sort_unstable();
        assert_eq!((both, stack.pop()), ([Some(0), Some(1)], None));
    });
}

/// One thread pops twice and pushes the first index back while another pops: the classic way in which a stack without a count of its
/// changes takes the wrong one for the top.
pub fn a_top_that_looks_the_same_is_the_same() {
    loom::model(|| {
        let stack = Arc::new(IndexStack::full(3).unwrap());
        let other = stack.clone();
        let thread = thread::spawn(move || other.pop());
        let (first, second) = (stack.pop(), stack.pop());
        stack.push(first.unwrap());
        let held = [second, thread.join().unwrap()];
        assert_ne!(held[0], held[1]);
        let rest: Vec<_> = std::iter::from_fn(|| stack.pop()).collect();
        assert_eq!(rest.len(), 1, "{held:?} {rest:?}");
        assert!(!held.contains(&Some(rest[0])), "{held:?} {rest:?}");
    });
}

/// A call that comes late finds the target whole, or none: not one that is going.
pub fn nobody_is_inside_once_shut_has_returned() {
    loom::model(|| {
        let shutter = Arc::new(Shutter::<Value>::new());
        assert_eq!(shutter.call(Value::read), None);
        let target = Arc::new(Value::new(1));
        // SAFETY: `target` lives until the model's end, and is written only once nobody is inside.
        assert!(unsafe { shutter.open(NonNull::from(&*target)) });
        let late = shutter.clone();
        let thread = thread::spawn(move || late.call(Value::read));
        shutter.shut();
        target.write(2);
        let heard = thread.join().unwrap();
        assert!([None, Some(1)].contains(&heard), "{heard:?}");
    });
}

/// Who sees a value that was set sees all of it.
pub fn what_is_set_once_is_seen_whole() {
    loom::model(|| {
        let once = Arc::new(Once::<Value>::new());
        assert!(once.get().is_none());
        let setter = once.clone();
        let thread = thread::spawn(move || {
            let value = Value::new(0);
            value.write(7);
            setter.set(value).is_ok()
        });
        if let Some(value) = once.get() {
            assert_eq!(value.read(), 7);
        }
        let second = once.set(Value::new(8)).is_ok();
        assert!(thread.join().unwrap() != second);
        assert!([7, 8].contains(&once.get().unwrap().read()));
    });
}

/// What everybody did with a shared value is done when it is dropped.
pub fn the_last_reference_sees_what_all_others_did() {
    struct Dropped(Value, Arc<Value>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.1.write(self.0.read());
        }
    }
    loom::model(|| {
        let end = Arc::new(Value::new(0));
        let first = KArc::new(Dropped(Value::new(1), end.clone())).unwrap();
        let second = first.clone();
        let thread = thread::spawn(move || {
            second.0.write(2);
            drop(second);
        });
        drop(first);
        thread.join().unwrap();
        assert_eq!(end.read(), 2);
    });
}

/// One of two that give up their references gets the value, if any does, and nobody has it any more.
pub fn a_sole_owner_has_the_value_alone() {
    loom::model(|| {
        let first = KArc::new(Value::new(1)).unwrap();
        let second = first.clone();
        let thread = thread::spawn(move || {
            second.read();
        });
        if let Ok(value) = first.try_unwrap() {
            value.write(2);
        }
        thread.join().unwrap();
    });
}

/// A call that came in keeps the link registered; one that comes after a close is turned away.
pub fn nobody_is_inside_a_gate_that_closed() {
    loom::model(|| {
        let gate = Arc::new((Admission::closed(), Value::new(1)));
        gate.0.open();
        let caller = gate.clone();
        let thread = thread::spawn(move || caller.0.enter().map(|_inside| caller.1.read()));
        let closed = gate.0.close();
        if closed {
            gate.1.write(2);
        }
        let heard = thread.join().unwrap();
        assert!(closed || heard == Some(1), "turned away by a gate that did not close");
        assert!(heard != Some(2));
    });
}

/// All that is added is taken once, with what was written to it before, by whoever takes.
pub fn what_is_piled_up_is_taken_once_and_whole() {
    loom::model(|| {
        let pile = Arc::new(Pile::new());
        assert_eq!(pile.take().count(), 0);
        let push = |pile: &Pile<Value>, number| {
            let value = Value::new(0);
            value.write(number);
            pile.push(KBox::new(Entry::new(value)).unwrap());
        };
        let other = pile.clone();
        let thread = thread::spawn(move || push(&other, 1));
        push(&pile, 2);
        let mut taken: Vec<u32> = pile.take().map(|value| value.read()).collect();
        thread.join().unwrap();
        taken.extend(pile.take().map(|value| value.read()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}
