//! A MAC-type plugin under examination: its operations one by one, with everything they answer laid open.
//!
//! The framework itself looks at a part of it only; a conformance test wants to see the rest too.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use fakekernel::genunix::Genunix;
use fakekernel::mem::Mem;
use fakekernel::{Cx, EntryKind, Errno, Kernel, cx};
use illumos_sys_hdrs::{boolean_t, mac_handle_t, mac_header_info_t};

use super::ops::{NO_PDATA, Unaligned};
use super::registry::{MacType, Registry};
use crate::message::{Message, Messages};

/// A registered plugin with one user more, this one, until it is dropped.
pub struct Plugin {
    pub(crate) kernel: Kernel,
    mac_type: Arc<MacType>,
}

/// What a plugin registered (`mactype_register_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRecord {
    /// Its name.
    pub ident: String,
    /// DLPI type of the medium.
    pub mactype: u32,
    /// DLPI type native to the medium.
    pub nativetype: u32,
    /// Bytes of an address.
    pub address_length: usize,
    /// The broadcast address; empty if there is none.
    pub broadcast: Vec<u8>,
    /// Entries of the statistics table.
    pub statistics: usize,
    /// Entries of the ndd table.
    pub mappings: usize,
    /// `mtops_ops`: which of the optional operations there are.
    pub flags: u32,
    /// Is there a `pdata_verify`?
    pub verifies_pdata: bool,
}

/// The block that `header` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBlock {
    /// Its data.
    pub bytes: Vec<u8>,
    /// Bytes of its buffer behind the data.
    pub room: usize,
    /// Has something been linked to it?
    pub linked: bool,
}

/// What `header_info` answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFacts {
    /// `mhi_hdrsize`.
    pub header_size: usize,
    /// `mhi_pktsize`.
    pub packet_size: usize,
    /// Where in the packet the destination is.
    pub destination: usize,
    /// Where in the packet the source is.
    pub source: Option<usize>,
    /// `mhi_origsap`.
    pub original_sap: u32,
    /// `mhi_bindsap`.
    pub bind_sap: u32,
    /// `mhi_dsttype`.
    pub kind: u32,
    /// `mhi_tci`, `mhi_istagged` and `mhi_ispvid` are as they were.
    pub tag_untouched: bool,
}

/// What stands in the fields that `header_info` may leave alone.
const UNTOUCHED: u16 = 0x5aa5;

impl Plugin {
    /// Whether a plugin of that name is registered, without loading it.
    pub fn is_registered(kernel: &Kernel, ident: &str) -> bool {
        Registry::of(kernel).is_known(ident)
    }

    /// Looks a plugin up as `mac_register` does, which loads `mac/IDENT` if need be. `None` when there is none then.
    pub fn hold(kernel: &Kernel, ident: &str) -> Option<Self> {
        let mac_type = kernel.scope(|| Registry::of(kernel).get(kernel, ident))?;
        Some(Self { kernel: kernel.clone(), mac_type })
    }

    /// As [`hold`](Self::hold) of one that is registered already. Any context.
    pub fn hold_registered(kernel: &Kernel, ident: &str) -> Option<Self> {
        let mac_type = Registry::of(kernel).get_known(ident)?;
        Some(Self { kernel: kernel.clone(), mac_type })
    }

    /// What it registered.
    pub fn record(&self) -> PluginRecord {
        let t = &self.mac_type;
        PluginRecord {
            ident: t.ident.clone(),
            mactype: t.mactype,
            nativetype: t.nativetype,
            address_length: t.addrlen,
            broadcast: t.broadcast.clone(),
            statistics: t.statistics,
            mappings: t.mappings,
            flags: t.ops.mtops_ops,
            verifies_pdata: t.ops.mtops_pdata_verify.is_some(),
        }
    }

    /// `unicst_verify` of an address that lies at an odd one.
    ///
    /// # Errors
    ///
    /// What the operation answered.
    pub fn unicast_verify(&self, address: &[u8; 20]) -> Result<(), Errno> {
        self.verify("mtops_unicst_verify", self.mac_type.ops.mtops_unicst_verify, address)
    }

    /// `multicst_verify` of an address that lies at an odd one.
    ///
    /// # Errors
    ///
    /// What the operation answered.
    pub fn multicast_verify(&self, address: &[u8; 20]) -> Result<(), Errno> {
        self.verify("mtops_multicst_verify", self.mac_type.ops.mtops_multicst_verify, address)
    }

    fn verify(
        &self,
        name: &'static str,
        op: Option<unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int>,
        address: &[u8; 20],
    ) -> Result<(), Errno> {
        let op = op.expect("mactype_register insists on it");
        let address = Unaligned::new(address);
        let args = (address.as_ptr(), NO_PDATA);
        // SAFETY: the plugin's operation on as many readable bytes as it registered.
        let answer = self.kernel.scope(|| unsafe { self.kernel.enter(op, args, EntryKind::callback(name)) });
        if answer == 0 { Ok(()) } else { Err(Errno(answer)) }
    }

    /// `sap_verify`: what it answered, and what then stood where `before` had been.
    pub fn sap_verify(&self, sap: u32, before: u32) -> (bool, u32) {
        let mut place = before;
        let answer = self.ask_sap(sap, &raw mut place);
        (answer, place)
    }

    /// `sap_verify` without a place for the SAP to bind to.
    pub fn sap_is_legal(&self, sap: u32) -> bool {
        self.ask_sap(sap, ptr::null_mut())
    }

    fn ask_sap(&self, sap: u32, place: *mut u32) -> bool {
        let op = self.mac_type.ops.mtops_sap_verify.expect("mactype_register insists on it");
        let kind = EntryKind::callback("mtops_sap_verify");
        // SAFETY: the plugin's operation, with a place for its answer or none.
        let known: boolean_t =
            self.kernel.scope(|| unsafe { self.kernel.enter(op, (sap, place, NO_PDATA), kind) });
        known.0 != 0
    }

    /// `header` for a payload that stays where it is. `None` when the operation answered with null.
    pub fn header(
        &self,
        destination: &[u8; 20],
        sap: u32,
        payload: &[u8],
        extra: usize,
    ) -> Option<HeaderBlock> {
        let op = self.mac_type.ops.mtops_header.expect("mactype_register insists on it");
        self.with_messages(|messages| {
            let payload = message(messages, &[payload]);
            let source = Unaligned::new(&[0xee; 20]);
            let destination = Unaligned::new(destination);
            let args = (source.as_ptr(), destination.as_ptr(), sap, NO_PDATA, payload.raw(), extra);
            let kind = EntryKind::callback("mtops_header");
            // SAFETY: the plugin's operation on two addresses of its length; it leaves the payload alone.
            let header = unsafe { self.kernel.enter(op, args, kind) };
            messages.free(payload);
            let header = self.mac_type.taken(messages, header, "mtops_header")?;
            let block = HeaderBlock {
                bytes: messages.first(header).get(),
                room: messages.genunix.room(messages.cx, header.raw()),
                linked: !messages.genunix.continuation(messages.cx, header.raw()).is_null(),
            };
            messages.free(header);
            Some(block)
        })
    }

    /// `header_info` of a packet made of these blocks.
    ///
    /// # Errors
    ///
    /// What the operation answered.
    pub fn header_info(&self, blocks: &[&[u8]]) -> Result<HeaderFacts, Errno> {
        let op = self.mac_type.ops.mtops_header_info.expect("mactype_register insists on it");
        self.with_messages(|messages| {
            let packet = message(messages, blocks);
            let first = messages.first(packet);
            let mut info = mac_header_info_t {
                mhi_tci: UNTOUCHED,
                mhi_istagged: boolean_t(UNTOUCHED.into()),
                mhi_ispvid: boolean_t(UNTOUCHED.into()),
                ..mac_header_info_t::default()
            };
            let args = (packet.raw(), NO_PDATA, &raw mut info);
            let kind = EntryKind::callback("mtops_header_info");
            // SAFETY: the plugin's operation on a live message, with a place for its answer.
            let answer = unsafe { self.kernel.enter(op, args, kind) };
            let same = messages.bytes(packet, 0) == blocks.concat();
            messages.free(packet);
            assert!(same, "mtops_header_info changed the packet");
            if answer == 0 { Ok(facts(&info, first)) } else { Err(Errno(answer)) }
        })
    }

    /// `mac_header_cook` of a message made of these blocks, whose data is shared with another message or not: the blocks of the
    /// result. `None` when it was refused; the message is freed then.
    pub fn cook(&self, blocks: &[&[u8]], shared: bool) -> Option<Vec<Vec<u8>>> {
        self.through(blocks, shared, |messages, message| self.mac_type.cook(messages, message))
    }

    /// `mac_header_uncook`, otherwise as [`cook`](Self::cook).
    pub fn uncook(&self, blocks: &[&[u8]], shared: bool) -> Option<Vec<Vec<u8>>> {
        self.through(blocks, shared, |messages, message| self.mac_type.uncook(messages, message))
    }

    fn through(
        &self,
        blocks: &[&[u8]],
        shared: bool,
        wrapper: impl FnOnce(&Messages<'_>, Message) -> Option<Message>,
    ) -> Option<Vec<Vec<u8>>> {
        self.with_messages(|messages| {
            let given = message(messages, blocks);
            let other =
                shared.then(|| messages.genunix.dupmsg(messages.cx, given.raw())).and_then(Message::new);
            let result = wrapper(messages, given);
            let parts = result.map(|result| blocks_of(messages, result));
            messages.free_all(result);
            if let Some(other) = other {
                assert_eq!(messages.bytes(other, 0), blocks.concat(), "the other message's data changed");
                messages.free(other);
            }
            parts
        })
    }

    fn with_messages<R>(&self, f: impl FnOnce(&Messages<'_>) -> R) -> R {
        self.kernel.scope(|| {
            let (cx, genunix): (Cx, Arc<Genunix>) = (cx(), self.kernel.genunix());
            f(&Messages { cx: &cx, genunix: &genunix })
        })
    }

    /// `link_details` of a live mac into a buffer of `size` bytes. `None` when the plugin has no such operation.
    pub(crate) fn details_of(&self, mac: mac_handle_t, size: usize) -> Option<String> {
        let op = self.mac_type.ops.mtops_link_details?;
        let mut buffer = vec![0x7f as c_char; size + 1];
        let args = (buffer.as_mut_ptr(), size, mac, NO_PDATA);
        let kind = EntryKind::callback("mtops_link_details");
        // SAFETY: the plugin's operation on a buffer of that size and a live mac.
        self.kernel.scope(|| unsafe { self.kernel.enter(op, args, kind) });
        assert_eq!(buffer[size], 0x7f, "mtops_link_details wrote behind its buffer");
        let text: Vec<u8> = buffer.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.mac_type.release();
    }
}

/// A message of the framework's, one block for each piece.
fn message(messages: &Messages<'_>, blocks: &[&[u8]]) -> Message {
    let block = |bytes: &[u8]| messages.genunix.message(messages.cx, 0, bytes);
    let (first, rest) = blocks.split_first().expect("a message has a block");
    let head = Message::new(block(first)).expect("no fault was asked for");
    rest.iter().for_each(|bytes| messages.genunix.linkb(messages.cx, head.raw(), block(bytes)));
    head
}

fn blocks_of(messages: &Messages<'_>, message: Message) -> Vec<Vec<u8>> {
    let next = |m: &Message| Message::new(messages.genunix.continuation(messages.cx, m.raw()));
    std::iter::successors(Some(message), next).map(|m| messages.first(m).get()).collect()
}

fn facts(info: &mac_header_info_t, first: Mem) -> HeaderFacts {
    let offset = |at: *const u8| at.addr().wrapping_sub(first.addr());
    HeaderFacts {
        header_size: info.mhi_hdrsize,
        packet_size: info.mhi_pktsize,
        destination: offset(info.mhi_daddr),
        source: (!info.mhi_saddr.is_null()).then(|| offset(info.mhi_saddr)),
        original_sap: info.mhi_origsap,
        bind_sap: info.mhi_bindsap,
        kind: info.mhi_dsttype.0,
        tag_untouched: info.mhi_tci == UNTOUCHED
            && info.mhi_istagged.0 == UNTOUCHED.into()
            && info.mhi_ispvid.0 == UNTOUCHED.into(),
    }
}
