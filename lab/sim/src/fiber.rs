//! Threads of a virtual machine as coroutines of one operating-system thread: a switch between two of them costs as much as a few
//! calls, where the kernel would take microseconds, and their memory stays in one processor's caches.
//!
//! [`Carriage::carry`] is the loop between them. Whoever gives the baton away names the next holder ([`Shared::hand_baton`]) and
//! suspends; the loop goes on with whom was named, until nobody was: then the machine has stopped.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::current;
use crate::machine::Shared;
use crate::thread::{STACK_SIZE, ThreadInner, first_frame};

/// A thread between two turns.
type Fiber = Coroutine<(), (), ()>;
/// What a running fiber gives its operating-system thread back by.
pub(crate) type Turn = NonNull<Yielder<(), ()>>;

/// Stacks that one operating-system thread keeps for the machines that it will carry.
const KEPT_STACKS: usize = 256;

thread_local! {
    /// Stacks of machines that are over: the next one has no page of them to fetch.
    static KEPT: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Carries the threads of a machine on the calling operating-system thread.
pub(crate) struct Carriage<'a> {
    shared: &'a Shared,
    fibers: BTreeMap<u64, Fiber>,
    /// Those of threads that have ended.
    stacks: Vec<DefaultStack>,
    _while_it_carries: Box<dyn Any>,
}

impl<'a> Carriage<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            fibers: BTreeMap::new(),
            stacks: KEPT.take(),
            _while_it_carries: shared.hosts.carrier_begins(),
        }
    }

    /// Lets threads run until none has been named as the next one.
    pub(crate) fn carry(&mut self) {
        while let Some(thread) = self.shared.take_next_up() {
            self.turn(&thread);
        }
    }

    fn turn(&mut self, thread: &Arc<ThreadInner>) {
        let Self { fibers, stacks, .. } = self;
        let fiber = fibers.entry(thread.did).or_insert_with(|| fiber_of(thread.clone(), stacks.pop()));
        thread.kthread.become_cpu();
        if fiber.resume(()).as_return().is_some() {
            stacks.extend(fibers.remove(&thread.did).map(Fiber::into_stack));
        }
    }

    /// Lets one thread run to its end: the machine has stopped.
    pub(crate) fn end(&mut self, thread: &Arc<ThreadInner>) {
        while !thread.has_ended() {
            self.turn(thread);
        }
    }
}

impl Drop for Carriage<'_> {
    fn drop(&mut self) {
        let mut stacks = std::mem::take(&mut self.stacks);
        stacks.truncate(KEPT_STACKS);
        KEPT.set(stacks);
    }
}

fn fiber_of(thread: Arc<ThreadInner>, stack: Option<DefaultStack>) -> Fiber {
    let new =
        || DefaultStack::new(STACK_SIZE).unwrap_or_else(|error| panic!("no memory for a stack: {error}"));
    let stack = stack.unwrap_or_else(new);
    Coroutine::with_stack(stack, move |yielder, ()| {
        current::set_turn(Some(NonNull::from(yielder)));
        first_frame(thread);
    })
}

/// Gives the operating-system thread back to [`Carriage::carry`], until it is this thread's turn again.
pub(crate) fn suspend() {
    let saved = current::take();
    let turn = saved.turn.get().expect("a thread that is carried has a turn");
    // SAFETY: the yielder lives as long as the fiber, and the calling fiber is the one it was given to.
    unsafe { turn.as_ref() }.suspend(());
    current::put(saved);
}
