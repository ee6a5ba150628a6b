//! A message on its way through the framework.

use std::ptr;

use fakekernel::genunix::{Chain, Genunix, Owner};
use fakekernel::mem::Mem;
use fakekernel::{Cx, Module};
use illumos_sys_hdrs::mblk_t;

/// One message that the framework owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message(*mut mblk_t);

// SAFETY: whoever has the value owns the message; blocks lie in the host's heap and belong to no thread. Every use goes
// through the heap's table, which is locked.
unsafe impl Send for Message {}
// SAFETY: as above.
unsafe impl Sync for Message {}

impl Message {
    /// The message at a pointer, if it is one.
    pub(crate) fn new(raw: *mut mblk_t) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw))
    }

    pub(crate) fn raw(self) -> *mut mblk_t {
        self.0
    }

    /// The messages of a chain that the framework has just been given.
    pub(crate) fn all(chain: Chain) -> Vec<Self> {
        chain.into_iter().map(Self).collect()
    }
}

/// The operations on messages that the framework needs, with the host's services at hand.
pub(crate) struct Messages<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) genunix: &'a Genunix,
}

impl Messages<'_> {
    pub(crate) fn free(&self, message: Message) {
        self.genunix.freemsg(self.cx, message.raw());
    }

    pub(crate) fn free_all(&self, messages: impl IntoIterator<Item = Message>) {
        messages.into_iter().for_each(|message| self.free(message));
    }

    pub(crate) fn copy(&self, message: Message) -> Option<Message> {
        Message::new(self.genunix.copymsg(self.cx, message.raw()))
    }

    pub(crate) fn size(&self, message: Message) -> usize {
        self.genunix.msgdsize(self.cx, message.raw())
    }

    /// All data of the message behind `offset`.
    pub(crate) fn bytes(&self, message: Message, offset: usize) -> Vec<u8> {
        self.genunix.message_bytes(self.cx, message.raw(), offset)
    }

    /// The first block's data, in place.
    pub(crate) fn first(&self, message: Message) -> Mem {
        // SAFETY: an empty range has no bytes to vouch for.
        let nothing = unsafe { Mem::of(ptr::null::<u8>(), 0) };
        self.genunix.first_block(self.cx, message.raw()).unwrap_or(nothing)
    }

    /// Passes a message to a module.
    pub(crate) fn give(&self, message: Message, module: &str, at: &str) {
        self.genunix.hand_over(self.cx, message.raw(), Owner::Framework, Owner::module(module), at);
    }

    /// Takes a chain that a module gave with the call being served.
    pub(crate) fn take(&self, chain: *mut mblk_t, at: &str) -> Vec<Message> {
        self.take_as(self.cx, chain, at)
    }

    /// Takes a chain that a function of a module's returned: what is wrong with it is reported as that function's.
    pub(crate) fn take_back(&self, chain: *mut mblk_t, module: &Module, entry: &'static str) -> Vec<Message> {
        self.take_as(&Cx::of_entry(Some(module), entry), chain, entry)
    }

    fn take_as(&self, cx: &Cx, chain: *mut mblk_t, at: &str) -> Vec<Message> {
        self.genunix.hand_over(cx, chain, Owner::module(cx.module_name()), Owner::Framework, at);
        Message::all(self.genunix.take_chain(cx, chain))
    }
}
