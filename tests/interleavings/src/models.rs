//! What must hold in every order. Values behind the types are loom's cells, which fail a model in which one thread reads what another
//! writes with nothing between them.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::admission::Admission;
use crate::arc::KArc;
use crate::boxed::KBox;
use crate::callback_slot::CallbackSlot;
use crate::lock_free_stack::{Entry, LockFreeStack};
use crate::once::Once;
use crate::stack::IndexStack;
use crate::validity::{DenialEpoch, Validity};

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

/// One thread pops all there is and pushes it back in another order while another pops: top and number are those of before, and what
/// lies below is not. The classic way in which a stack without a count of its changes loses what it has.
pub fn a_top_that_looks_the_same_is_the_same() {
    loom::model(|| {
        let stack = Arc::new(IndexStack::full(3).unwrap());
        let other = stack.clone();
        let thread = thread::spawn(move || other.pop());
        let popped: Vec<u32> = std::iter::from_fn(|| stack.pop()).collect();
        if let [first, rest @ ..] = popped.as_slice() {
            rest.iter().chain([first]).for_each(|index| stack.push(*index));
        }
        let mut held = Vec::from_iter(thread.join().unwrap());
        assert_eq!(stack.len() as usize + held.len(), 3);
        held.extend(std::iter::from_fn(|| stack.pop()));
        held.sort_unstable();
        assert_eq!(held, [0, 1, 2]);
    });
}

/// One thread takes all there is at once and uses it while another pops, uses and pushes: each index is one thread's, and what one did
/// with it the next one sees.
pub fn what_is_taken_together_is_nobody_elses() {
    loom::model(|| {
        let stack = Arc::new(IndexStack::full(2).unwrap());
        let values = Arc::new([Value::new(0), Value::new(0)]);
        let use_one = |values: &[Value; 2], index: u32| {
            let value = &values[index as usize];
            value.write(value.read() + 1);
        };
        let (other, others) = (stack.clone(), values.clone());
        let thread = thread::spawn(move || {
            let popped = other.pop();
            if let Some(index) = popped {
                use_one(&others, index);
                other.push(index);
            }
            u32::from(popped.is_some())
        });
        let mut taken = stack.take_all();
        let mut used = taken.len();
        while let Some(index) = stack.next(&mut taken) {
            use_one(&values, index);
            stack.push(index);
        }
        used += thread.join().unwrap();
        assert_eq!((stack.len(), values.iter().map(Value::read).sum::<u32>()), (2, used));
        assert_eq!(stack.take_all().len(), 2);
    });
}

/// A call that comes late finds the target whole, or none: not one that is going.
pub fn nobody_is_inside_once_shut_has_returned() {
    loom::model(|| {
        let slot = Arc::new(CallbackSlot::<Value>::new());
        assert_eq!(slot.call(Value::read), None);
        let target = Arc::new(Value::new(1));
        // SAFETY: `target` lives until the model's end, and is written only once nobody is inside.
        assert!(unsafe { slot.open(NonNull::from(&*target)) });
        let late = slot.clone();
        let thread = thread::spawn(move || late.call(Value::read));
        slot.quiesce();
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
        let stack = Arc::new(LockFreeStack::new());
        assert_eq!(stack.take().count(), 0);
        let push = |stack: &LockFreeStack<Value>, number| {
            let value = Value::new(0);
            value.write(number);
            stack.push(KBox::new(Entry::new(value)).unwrap());
        };
        let other = stack.clone();
        let thread = thread::spawn(move || push(&other, 1));
        push(&stack, 2);
        let mut taken: Vec<u32> = stack.take().map(|value| value.read()).collect();
        thread.join().unwrap();
        taken.extend(stack.take().map(|value| value.read()));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// What the table of paths knows about one address: a handle, by its number, or none. Under the table's lock.
struct Table {
    known: Option<usize>,
}

/// A queue that remembers a handle, while the table takes another one for the address and then loses that, too. A queue that finds its
/// handle withdrawn gets another one from the table, or none; once it has, the handle that it had before never holds again; and who is
/// told by the table sees what the table withdrew.
pub fn a_handle_that_is_withdrawn_never_holds_again() {
    loom::model(|| {
        let handles = Arc::new([Validity::new(), Validity::new()]);
        assert!(handles.iter().all(Validity::holds));
        let table = Arc::new(Mutex::new(Table { known: Some(0) }));
        let (theirs, known) = (handles.clone(), table.clone());
        let thread = thread::spawn(move || {
            for next in [Some(1), None] {
                let mut table = known.lock().unwrap();
                let before = std::mem::replace(&mut table.known, next);
                before.into_iter().for_each(|handle| theirs[handle].withdraw());
            }
        });
        let mut remembered = Some(0);
        for _ in 0..2 {
            let Some(handle) = remembered else { break };
            if !handles[handle].holds() {
                remembered = table.lock().unwrap().known;
                assert_ne!(remembered, Some(handle), "the table told a handle that it had withdrawn");
                assert!(!handles[handle].holds(), "it holds again");
            }
        }
        thread.join().unwrap();
        assert!(handles.iter().all(|handle| !handle.holds()));
    });
}

/// A packet goes by a handle while the table asks whether one has: the use is in that answer or in the next.
pub fn a_use_is_seen_by_one_look_or_the_next() {
    loom::model(|| {
        let handle = Arc::new(Validity::new());
        handle.note_use();
        let used = handle.clone();
        let thread = thread::spawn(move || used.note_use());
        let first = handle.take_use();
        thread.join().unwrap();
        assert!(first, "one was before");
        let second = handle.take_use();
        handle.note_use();
        assert!(handle.take_use() && !handle.take_use(), "second was {second}");
    });
    loom::model(|| {
        let handle = Arc::new(Validity::new());
        assert!(!handle.take_use());
        let used = handle.clone();
        let thread = thread::spawn(move || used.note_use());
        let first = handle.take_use();
        thread.join().unwrap();
        assert!(first != handle.take_use(), "a use is seen once");
    });
}

/// A queue remembers that nothing goes to an address, in one epoch of denials, while the table begins another. A queue to which the table's
/// word has come, by its lock, sees that.
pub fn a_denial_of_an_earlier_epoch_does_not_stand() {
    loom::model(|| {
        let denial_epoch = Arc::new(DenialEpoch::new());
        let table = Arc::new(Mutex::new(Table { known: None }));
        let denied = table.lock().map(|_table| denial_epoch.count()).unwrap();
        let (theirs, known) = (denial_epoch.clone(), table.clone());
        let thread = thread::spawn(move || {
            let mut table = known.lock().unwrap();
            theirs.add();
            table.known = Some(1);
        });
        if table.lock().unwrap().known.is_some() {
            assert_ne!(denial_epoch.count(), denied);
        }
        thread.join().unwrap();
        assert_ne!(denial_epoch.count(), denied);
    });
}
