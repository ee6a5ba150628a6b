//! One open DLPI stream.

use std::collections::VecDeque;
use std::sync::Arc;

use fakekernel::genunix::{Checksums, Cred};
use fakekernel::{Errno, HostMutex, Kernel, Nanos, WaitQueue, cx};

use super::Held;
use super::control::control;
use super::layout::Layout;
use crate::address::{Destination, LinkAddress};
use crate::dls::Open;
use crate::mac::OffloadCapability;
use crate::message::{Message, Messages};
use crate::timed::TimedLink;
use crate::types::{
    Backpressure, DlpiError, LinkDetails, Notification, Offload, Promiscuity, Received, TransmitError,
};

/// `HCK_IPV4_HDRCKSUM`, `HCK_FULLCKSUM`, `HW_LSO`
const IP_HEADER: u32 = 0x1;
const FULL: u32 = 0x4;
const LARGE_SEND: u32 = 0x10;

/// An open stream on a link; it closes when dropped, which may sleep. Every call but the transmits may sleep: user or kernel
/// context.
///
/// Packets are delivered by [`Stream::on_receive`] on whatever thread the link delivers them: for a packet alone that is the
/// driver's own, in its context, inside `mac_rx`. The receiver holds no lock of the link and may transmit.
#[derive(Debug)]
pub struct Stream {
    kernel: Kernel,
    open: Arc<Open>,
}

impl Stream {
    /// Opens a link by name and starts it if nobody else has (`mc_start`).
    ///
    /// # Errors
    ///
    /// ENOENT for a link that is not there; what `mc_start` refused with.
    pub fn open(kernel: &Kernel, link: &str) -> Result<Self, Errno> {
        Self::new(kernel, link, false)
    }

    /// As [`Stream::open`] and then `DL_PASSIVE_REQ`: never counts as a user of the address (snoop).
    ///
    /// # Errors
    ///
    /// As for [`Stream::open`].
    pub fn open_passive(kernel: &Kernel, link: &str) -> Result<Self, Errno> {
        Self::new(kernel, link, true)
    }

    fn new(kernel: &Kernel, link: &str, passive: bool) -> Result<Self, Errno> {
        let open = kernel.scope(|| Open::new(kernel, link, passive))?;
        Ok(Self { kernel: kernel.clone(), open: Arc::new(open) })
    }

    /// See [`control`].
    fn control<R: Send + 'static>(&self, request: impl FnOnce(&Open) -> R + Send + 'static) -> R {
        control(&self.kernel, &self.open, request)
    }

    /// What the link is now.
    pub fn details(&self) -> LinkDetails {
        self.kernel.scope(|| self.open.link.details())
    }

    /// Measures the link: from now on, while the result lives, what comes up is counted and goes to no stream.
    pub fn timed(&self) -> TimedLink {
        TimedLink::new(&self.kernel, &self.open.link.mac)
    }

    /// Name of the link.
    pub fn link(&self) -> String {
        self.open.link.name()
    }

    /// What the driver offers to compute, as `DL_CAPABILITY_REQ` finds out.
    pub fn offload_capability(&self) -> OffloadCapability {
        self.control(|open| open.link.mac.offload_capability())
    }

    /// Over how many soft ring triples received packets are spread; 0 while nobody receives.
    pub fn fanout(&self) -> usize {
        self.open.link.fanout()
    }

    /// Packets the framework has dropped on this link: on the way up (too many waiting, malformed), on the way down (queue over its
    /// limit, client going away), and for want of a stream.
    pub fn framework_drops(&self) -> (u64, u64, u64) {
        let (up, down) = self.open.link.drops();
        (up, down, self.open.link.unknowns())
    }

    /// Calls `receiver` for every packet from now on; one receiver per stream. Set it before [`Stream::bind`].
    pub fn on_receive(&self, receiver: impl Fn(Received) + Send + Sync + 'static) {
        self.open.set_receiver(Arc::new(receiver));
    }

    /// A receiver that keeps up to `limit` packets for [`ReceiveQueue::next`]; more are dropped and counted.
    pub fn receive_queue(&self, limit: usize) -> ReceiveQueue {
        let queue = ReceiveQueue::new();
        let fed = queue.clone();
        self.on_receive(move |packet| fed.put(packet, limit));
        queue
    }

    /// From now on messages are not freed when they have been delivered, but kept until the result says so.
    pub fn hold_received(&self) -> Held {
        let (held, kept) = Held::new(&self.kernel);
        self.open.set_kept(kept);
        held
    }

    /// Calls `receiver` for every notification; at once for the state as it is now (carrier, address, SDU).
    pub fn on_notify(&self, receiver: impl Fn(Notification) + Send + Sync + 'static) {
        self.control(move |open| open.notify(Arc::new(receiver)));
    }

    /// `DL_BIND_REQ`: packets of this type come here from now on.
    ///
    /// # Errors
    ///
    /// A SAP that the plugin refuses is a bad address; a stream that is bound is out of state; EBUSY when the link cannot be activated.
    pub fn bind(&self, sap: u32) -> Result<(), DlpiError> {
        self.control(move |open| open.bind(sap))
    }

    /// Whether it is bound to a SAP.
    pub fn is_bound(&self) -> bool {
        self.open.bound_sap().is_some()
    }

    /// `DL_PASSIVE_REQ`: from now on the stream never counts as a user of the address.
    ///
    /// # Errors
    ///
    /// Out of state when it does already.
    pub fn make_passive(&self) -> Result<(), DlpiError> {
        self.control(Open::make_passive)
    }

    /// `DL_UNBIND_REQ`.
    ///
    /// # Errors
    ///
    /// Out of state when not bound.
    pub fn unbind(&self) -> Result<(), DlpiError> {
        self.control(move |open| open.unbind())
    }

    /// The DLD capability as IP negotiates it: DLS bypass for this stream, bound to 0x800.
    ///
    /// # Errors
    ///
    /// EINVAL when bound to something else or in raw mode.
    pub fn enable_bypass(&self) -> Result<(), Errno> {
        self.control(move |open| open.enable_bypass())
    }

    /// `ioctl(2)` with `I_STR` on the stream, of a command that dld leaves to the driver: the driver's number and the bytes that
    /// came back.
    ///
    /// # Errors
    ///
    /// EINVAL from a driver that has none; what it refused with.
    pub fn ioctl(&self, cred: Cred, command: i32, argument: &[u8]) -> Result<(i32, Vec<u8>), Errno> {
        let argument = argument.to_vec();
        self.control(move |open| open.link.mac.ioctl(cred, command, &argument))
    }

    /// `DLIOCRAW`: see the header too.
    ///
    /// # Errors
    ///
    /// EPROTO (71) once bypass is on.
    pub fn set_raw(&self) -> Result<(), Errno> {
        self.control(move |open| open.set_raw())
    }

    /// `DL_ENABMULTI_REQ`.
    ///
    /// # Errors
    ///
    /// What the plugin does not call a group is a bad address, as is what the driver refuses with EINVAL; or what else it refused with.
    pub fn enable_multicast(&self, group: LinkAddress) -> Result<(), DlpiError> {
        self.control(move |open| open.enable_group(group))
    }

    /// `DL_DISABMULTI_REQ`.
    ///
    /// # Errors
    ///
    /// Not enabled when the stream has not enabled it.
    pub fn disable_multicast(&self, group: LinkAddress) -> Result<(), DlpiError> {
        self.control(move |open| open.disable_group(group))
    }

    /// `DL_PROMISCON_REQ`, `DL_PROMISCOFF_REQ`.
    ///
    /// # Errors
    ///
    /// Not enabled when the level is off already; what the driver refused with.
    pub fn set_promiscuous(&self, level: Promiscuity, on: bool) -> Result<(), DlpiError> {
        self.control(move |open| open.set_promiscuous(level, on))
    }

    /// `DL_SET_PHYS_ADDR_REQ`.
    ///
    /// # Errors
    ///
    /// What the plugin does not call a unicast address is a bad one; or what the driver refused with.
    pub fn set_address(&self, address: LinkAddress) -> Result<(), DlpiError> {
        self.control(move |open| open.set_address(address))
    }

    /// Sends `payload` to `destination` with the type this stream is bound to. Any context up to soft interrupts.
    ///
    /// # Errors
    ///
    /// See [`TransmitError`].
    pub fn transmit(
        &self,
        destination: LinkAddress,
        payload: &[u8],
        offload: Offload,
    ) -> Result<Backpressure, TransmitError> {
        let sap = self.open.bound_sap().ok_or(TransmitError::NotBound)?;
        self.send(sap, destination, payload, offload, Keep::Nothing)
    }

    /// As [`Stream::transmit`], with the payload in blocks of the caller's choice. Otherwise a large send is in blocks as TCP makes
    /// them, of a size that the seed decides, and what is not large in one.
    ///
    /// # Errors
    ///
    /// See [`TransmitError`].
    pub fn transmit_in_blocks(
        &self,
        destination: LinkAddress,
        payload: &[u8],
        offload: Offload,
        layout: Layout,
    ) -> Result<Backpressure, TransmitError> {
        let sap = self.open.bound_sap().ok_or(TransmitError::NotBound)?;
        self.send(sap, destination, payload, offload, Keep::Blocks(layout))
    }

    /// As [`Stream::transmit`], while the stack keeps a duplicate of the payload, as TCP does of what is not acknowledged yet: the
    /// driver may read it, not write to it (rule 22).
    ///
    /// # Errors
    ///
    /// See [`TransmitError`].
    pub fn transmit_and_keep(
        &self,
        destination: LinkAddress,
        payload: &[u8],
    ) -> Result<Backpressure, TransmitError> {
        let sap = self.open.bound_sap().ok_or(TransmitError::NotBound)?;
        self.send(sap, destination, payload, Offload::default(), Keep::Payload)
    }

    /// The same, while somebody else keeps a duplicate of the whole packet, link-layer header and all.
    ///
    /// # Errors
    ///
    /// See [`TransmitError`].
    pub fn transmit_and_keep_whole(
        &self,
        destination: LinkAddress,
        payload: &[u8],
    ) -> Result<Backpressure, TransmitError> {
        let sap = self.open.bound_sap().ok_or(TransmitError::NotBound)?;
        self.send(sap, destination, payload, Offload::default(), Keep::Whole)
    }

    /// As [`Stream::transmit`] with another type: what one stream that serves IPv4, IPv6 and ARP needs.
    ///
    /// # Errors
    ///
    /// See [`TransmitError`].
    pub fn transmit_as(
        &self,
        sap: u16,
        destination: LinkAddress,
        payload: &[u8],
        offload: Offload,
    ) -> Result<Backpressure, TransmitError> {
        self.open.bound_sap().ok_or(TransmitError::NotBound)?;
        self.send(sap.into(), destination, payload, offload, Keep::Nothing)
    }

    fn send(
        &self,
        sap: u32,
        destination: LinkAddress,
        payload: &[u8],
        offload: Offload,
        keep: Keep,
    ) -> Result<Backpressure, TransmitError> {
        let link = &self.open.link;
        let max = link.mac.state.lock().max_sdu;
        if payload.len() > max as usize && offload.large_send.is_none() {
            return Err(TransmitError::TooLarge(max));
        }
        self.kernel.scope(|| {
            let cx = cx();
            let genunix = self.kernel.genunix();
            let messages = Messages { cx: &cx, genunix: &genunix };
            let layout = match keep {
                Keep::Blocks(layout) => Some(layout),
                _ => offload.large_send.map(|_| Layout::of_large_send(payload)),
            };
            let data = match layout {
                Some(layout) => messages.laid_out(payload, layout),
                None => Message::new(genunix.message(&cx, 0, payload)),
            };
            let data = data.ok_or(TransmitError::NoMemory)?;
            let Some(header) = link.mac.plugin.header(&messages, &destination, sap, Some(data)) else {
                messages.free(data);
                return Err(TransmitError::NoMemory);
            };
            genunix.linkb(&cx, header.raw(), data.raw());
            genunix.set_checksums(&cx, header.raw(), wanted(offload));
            let kept = match keep {
                Keep::Payload => Message::new(genunix.dupmsg(&cx, data.raw())),
                Keep::Whole => Message::new(genunix.dupmsg(&cx, header.raw())),
                Keep::Nothing | Keep::Blocks(_) => None,
            };
            let pressure = link.transmit(&messages, header);
            messages.free_all(kept);
            Ok(pressure)
        })
    }

    /// Raw transmit: 20 bytes of destination, type, two zero bytes, payload. What the link does not like is dropped without
    /// a word, as on illumos; false then.
    pub fn transmit_raw(&self, packet: &[u8]) -> bool {
        self.kernel.scope(|| {
            let cx = cx();
            let genunix = self.kernel.genunix();
            let messages = Messages { cx: &cx, genunix: &genunix };
            let link = &self.open.link;
            let cooked = Message::new(genunix.message(&cx, 0, packet))
                .and_then(|message| link.cooked(&messages, message));
            let taken = cooked.is_some();
            if let Some(message) = cooked {
                link.transmit(&messages, message);
            }
            taken
        })
    }

    /// Waits until the queue that was full has room, or until `deadline`; false if that passed first.
    pub fn wait_writable(&self, deadline: Nanos) -> bool {
        self.open.link.transmit.wait_room(deadline)
    }

    /// Packets of this host that wait for the driver to take them again.
    pub fn transmit_queue(&self) -> usize {
        self.open.link.transmit.queued()
    }
}

/// What the stack keeps of a payload while the driver has it.
enum Keep {
    Nothing,
    /// Nothing, and it lies in these blocks.
    Blocks(Layout),
    Payload,
    Whole,
}

fn wanted(offload: Offload) -> Checksums {
    let mut flags = 0;
    flags |= if offload.ip_checksum { IP_HEADER } else { 0 };
    flags |= if offload.full_checksum { FULL } else { 0 };
    flags |= if offload.large_send.is_some() { LARGE_SEND } else { 0 };
    Checksums { flags, mss: offload.large_send.map_or(0, u32::from), ..Checksums::default() }
}

/// Packets waiting to be taken. Cheap clone.
#[derive(Clone, Debug)]
pub struct ReceiveQueue(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    state: HostMutex<State>,
    arrived: WaitQueue,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Received>,
    dropped: u64,
}

impl ReceiveQueue {
    fn new() -> Self {
        Self(Arc::new(Queue { state: HostMutex::new(State::default()), arrived: WaitQueue::new("packets") }))
    }

    fn put(&self, packet: Received, limit: usize) {
        let mut state = self.0.state.lock();
        if state.packets.len() >= limit {
            state.dropped += 1;
            return;
        }
        state.packets.push_back(packet);
        drop(state);
        self.0.arrived.wake_one();
    }

    /// The next packet, waiting until `deadline` at most. User or kernel context.
    pub fn next(&self, deadline: Nanos) -> Option<Received> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(packet) = state.packets.pop_front() {
                return Some(packet);
            }
            let (guard, in_time) = self.0.arrived.wait_until(state, deadline);
            state = guard;
            if !in_time {
                return state.packets.pop_front();
            }
        }
    }

    /// The next packet if there is one. Any context.
    pub fn try_next(&self) -> Option<Received> {
        self.0.state.lock().packets.pop_front()
    }

    /// Packets dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.0.state.lock().dropped
    }
}

impl Received {
    /// Whether the packet was for a group or for everybody.
    pub fn is_group(&self) -> bool {
        self.kind != Destination::Unicast
    }
}
