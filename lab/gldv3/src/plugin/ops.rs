//! The plugin's operations under the framework's wrappers (`M/mac_client.c`).

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use fakekernel::mem::{Mem, c_string};
use fakekernel::race::Key;
use fakekernel::{Cx, EntryKind, Kernel, Module, Rule};
use illumos_sys_hdrs::{boolean_t, mac_handle_t, mac_header_info_t, mblk_t};

use super::registry::MacType;
use crate::address::{Destination, LinkAddress};
use crate::message::{Message, Messages};

const HEADER_COOK: u32 = 0x2;
const HEADER_UNCOOK: u32 = 0x4;
const LINK_DETAILS: u32 = 0x8;

/// What `header_info` says of a packet, copied out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderInfo {
    pub(crate) size: usize,
    pub(crate) destination: LinkAddress,
    pub(crate) source: Option<LinkAddress>,
    pub(crate) bind_sap: u32,
    pub(crate) kind: Destination,
}

/// An address where a module may find one: at no particular alignment, as the framework makes no promise.
pub(super) struct Unaligned([u8; 24]);

impl Unaligned {
    pub(super) fn new(address: &[u8]) -> Self {
        let mut bytes = [0; 24];
        bytes[1..=address.len()].copy_from_slice(address);
        Self(bytes)
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        self.0[1..].as_ptr().cast()
    }
}

/// The pdata of a plugin that takes none.
pub(super) const NO_PDATA: *mut c_void = ptr::null_mut();

impl MacType {
    /// The module the operations are in.
    fn module(&self, kernel: &Kernel) -> Option<Module> {
        kernel.module_at(self.ops.mtops_header.map_or(0, |op| op as usize))
    }

    fn verify(
        &self,
        kernel: &Kernel,
        name: &'static str,
        op: Option<unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int>,
        address: &[u8],
    ) -> bool {
        let Some(op) = op else { return false };
        let address = Unaligned::new(address);
        // SAFETY: the plugin's operation on as many readable bytes as it registered.
        unsafe { kernel.enter(op, (address.as_ptr(), NO_PDATA), EntryKind::callback(name)) == 0 }
    }

    /// Is this a unicast address?
    pub(crate) fn is_unicast(&self, kernel: &Kernel, address: &LinkAddress) -> bool {
        self.verify(kernel, "mtops_unicst_verify", self.ops.mtops_unicst_verify, &address.0)
    }

    /// Is this a group address one may enable?
    pub(crate) fn is_group(&self, kernel: &Kernel, address: &LinkAddress) -> bool {
        self.verify(kernel, "mtops_multicst_verify", self.ops.mtops_multicst_verify, &address.0)
    }

    /// The SAP that packets are looked up by for one that is bound; `None` when the plugin refuses it.
    pub(crate) fn bind_sap(&self, kernel: &Kernel, sap: u32) -> Option<u32> {
        let op = self.ops.mtops_sap_verify?;
        let mut bind_sap = 0u32;
        let args = (sap, &raw mut bind_sap, NO_PDATA);
        // SAFETY: the plugin's operation, with a place for its answer.
        let known: boolean_t = unsafe { kernel.enter(op, args, EntryKind::callback("mtops_sap_verify")) };
        (known.0 != 0).then_some(bind_sap)
    }

    /// A header block, the framework's own.
    pub(crate) fn header(
        &self,
        messages: &Messages<'_>,
        destination: &LinkAddress,
        sap: u32,
        payload: Option<Message>,
    ) -> Option<Message> {
        let kernel = messages.cx.kernel();
        let op = self.ops.mtops_header?;
        let source = Unaligned::new(&[0; 20]);
        let destination = Unaligned::new(&destination.0);
        let payload = payload.map_or(ptr::null_mut(), Message::raw);
        let args = (source.as_ptr(), destination.as_ptr(), sap, NO_PDATA, payload, 0usize);
        // SAFETY: the plugin's operation on two addresses of its length; it leaves the payload alone.
        let header = unsafe { kernel.enter(op, args, EntryKind::callback("mtops_header")) };
        self.taken(messages, header, "mtops_header")
    }

    /// What an operation returned; nothing for null.
    pub(super) fn taken(
        &self,
        messages: &Messages<'_>,
        raw: *mut mblk_t,
        at: &'static str,
    ) -> Option<Message> {
        let module = self.module(messages.cx.kernel())?;
        messages.take_back(raw, &module, at).first().copied()
    }

    fn given(&self, messages: &Messages<'_>, message: Message, at: &'static str) {
        if let Some(module) = self.module(messages.cx.kernel()) {
            messages.give(message, module.name(), at);
        }
    }

    /// What the header says, or `None` when the first block does not hold one.
    pub(crate) fn header_info(&self, messages: &Messages<'_>, message: Message) -> Option<HeaderInfo> {
        let cx = messages.cx;
        let first = messages.first(message);
        // The wrapper's assertion: headers are looked at through 16-bit loads.
        cx.check(first.addr().is_multiple_of(2), Rule::BadMessagePointers, || {
            format!("a packet's header lies at the odd address {:#x}", first.addr())
        });
        let op = self.ops.mtops_header_info?;
        let mut info = mac_header_info_t::default();
        let args = (message.raw(), NO_PDATA, &raw mut info);
        let kind =
            EntryKind::callback("mtops_header_info").in_turn(Key("message", message.raw().addr() as u64));
        // SAFETY: the plugin's operation on a live message, with a place for its answer.
        let failed = unsafe { cx.kernel().enter(op, args, kind) };
        if failed != 0 {
            return None;
        }
        Some(HeaderInfo {
            size: info.mhi_hdrsize,
            destination: self.address(cx, first, info.mhi_daddr)?,
            source: if info.mhi_saddr.is_null() { None } else { self.address(cx, first, info.mhi_saddr) },
            bind_sap: info.mhi_bindsap,
            kind: match info.mhi_dsttype.0 {
                0 => Destination::Unicast,
                1 => Destination::Multicast,
                _ => Destination::Broadcast,
            },
        })
    }

    /// An address the plugin pointed to, which lies in the packet.
    fn address(&self, cx: &Cx, first: Mem, at: *const u8) -> Option<LinkAddress> {
        let offset = at.addr().checked_sub(first.addr()).filter(|at| at + self.addrlen <= first.len());
        cx.check(offset.is_some(), Rule::BadMessagePointers, || {
            format!("mtops_header_info names an address at {at:p}, outside of the packet's first block")
        });
        let mut address = [0; 20];
        first.part(offset?, self.addrlen.min(20)).copy_to(&mut address);
        Some(LinkAddress(address))
    }

    /// `mac_header_cook`: what a raw writer gave becomes a packet. On failure the message is freed: unlike in the C framework,
    /// which frees a shared message twice then.
    pub(crate) fn cook(&self, messages: &Messages<'_>, message: Message) -> Option<Message> {
        if self.ops.mtops_ops & HEADER_COOK == 0 {
            return Some(message);
        }
        let message = self.unshared(messages, message)?;
        let kernel = messages.cx.kernel();
        let Some(op) = self.ops.mtops_header_cook else { return Some(message) };
        self.given(messages, message, "mtops_header_cook");
        // SAFETY: the plugin's operation on an unshared message that is its own until it returns.
        let cooked =
            unsafe { kernel.enter(op, (message.raw(), NO_PDATA), EntryKind::callback("mtops_header_cook")) };
        let result = if cooked.is_null() { message.raw() } else { cooked };
        let back = self.taken(messages, result, "mtops_header_cook");
        if cooked.is_null() {
            messages.free_all(back);
            return None;
        }
        back
    }

    /// `mac_header_uncook`: a packet becomes what a raw reader sees.
    pub(crate) fn uncook(&self, messages: &Messages<'_>, message: Message) -> Option<Message> {
        if self.ops.mtops_ops & HEADER_UNCOOK == 0 {
            return Some(message);
        }
        let message = self.unshared(messages, message)?;
        let kernel = messages.cx.kernel();
        let Some(op) = self.ops.mtops_header_uncook else { return Some(message) };
        self.given(messages, message, "mtops_header_uncook");
        // SAFETY: as for cooking.
        let plain = unsafe {
            kernel.enter(op, (message.raw(), NO_PDATA), EntryKind::callback("mtops_header_uncook"))
        };
        if plain.is_null() {
            Cx::of_entry(self.module(kernel).as_ref(), "mtops_header_uncook")
                .violate(Rule::BadMessageFree, "returned null, which it may not");
            return None;
        }
        self.taken(messages, plain, "mtops_header_uncook")
    }

    /// The message itself, or a copy when its first block is shared; frees it when it cannot be copied.
    fn unshared(&self, messages: &Messages<'_>, message: Message) -> Option<Message> {
        if !messages.genunix.is_shared(messages.cx, message.raw()) {
            return Some(message);
        }
        let copy = messages.copy(message);
        messages.free(message);
        copy
    }

    /// The details for the log line of a link that comes up.
    pub(crate) fn link_details(&self, kernel: &Kernel, handle: mac_handle_t) -> Option<String> {
        let op = self.ops.mtops_link_details.filter(|_| self.ops.mtops_ops & LINK_DETAILS != 0)?;
        let mut buffer = [0 as c_char; 200];
        let args = (buffer.as_mut_ptr(), buffer.len(), handle, NO_PDATA);
        // SAFETY: the plugin's operation on a buffer of that size.
        unsafe { kernel.enter(op, args, EntryKind::callback("mtops_link_details")) };
        // SAFETY: the buffer ends the string at the latest.
        let text = unsafe { c_string(buffer.as_ptr(), Some(buffer.len())) };
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}
