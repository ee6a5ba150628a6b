//! One open DLPI stream.

use fakekernel::{Errno, Kernel, Nanos};

use super::types::{Backpressure, LinkDetails, Notification, Offload, Promiscuity, Received, TransmitError};
use crate::address::LinkAddress;

/// An open stream on a link; it closes when dropped. Every call but the two transmits may sleep: user or kernel context.
///
/// Packets are delivered by [`Stream::on_receive`] on whatever thread the link delivers them: for a packet alone that is the
/// driver's own, in its context, inside `mac_rx`. The receiver holds no lock of the link and may transmit.
#[derive(Debug)]
pub struct Stream {}

impl Stream {
    /// Opens a link by name and starts it if nobody else has (`mc_start`).
    ///
    /// # Errors
    ///
    /// ENOENT for a link that is not there; what `mc_start` refused with.
    pub fn open(kernel: &Kernel, link: &str) -> Result<Self, Errno> {
        let _ = (kernel, link);
        unimplemented!()
    }

    /// As [`Stream::open`] and then `DL_PASSIVE_REQ`: never counts as a user of the address (snoop).
    ///
    /// # Errors
    ///
    /// As for [`Stream::open`].
    pub fn open_passive(kernel: &Kernel, link: &str) -> Result<Self, Errno> {
        let _ = (kernel, link);
        unimplemented!()
    }

    /// What the link is now.
    pub fn details(&self) -> LinkDetails {
        unimplemented!()
    }

    /// Calls `receiver` for every packet from now on; one receiver per stream. Set it before [`Stream::bind`].
    pub fn on_receive(&self, receiver: impl Fn(Received) + Send + Sync + 'static) {
        let _ = receiver;
        unimplemented!()
    }

    /// A receiver that keeps up to `limit` packets for [`ReceiveQueue::next`]; more are dropped and counted.
    pub fn receive_queue(&self, limit: usize) -> ReceiveQueue {
        let _ = limit;
        unimplemented!()
    }

    /// Calls `receiver` for every notification; at once for the state as it is now (carrier, address, SDU).
    pub fn on_notify(&self, receiver: impl Fn(Notification) + Send + Sync + 'static) {
        let _ = receiver;
        unimplemented!()
    }

    /// `DL_BIND_REQ`: packets of this type come here from now on.
    ///
    /// # Errors
    ///
    /// EINVAL for a SAP the plugin refuses; EBUSY when already bound, or when the link cannot be activated.
    pub fn bind(&self, sap: u32) -> Result<(), Errno> {
        let _ = sap;
        unimplemented!()
    }

    /// `DL_UNBIND_REQ`.
    ///
    /// # Errors
    ///
    /// EINVAL when not bound.
    pub fn unbind(&self) -> Result<(), Errno> {
        unimplemented!()
    }

    /// The DLD capability as IP negotiates it: DLS bypass for this stream, bound to 0x800.
    ///
    /// # Errors
    ///
    /// EINVAL when bound to something else or in raw mode.
    pub fn enable_bypass(&self) -> Result<(), Errno> {
        unimplemented!()
    }

    /// `DLIOCRAW`: see the header too. Before [`Stream::bind`].
    ///
    /// # Errors
    ///
    /// EPROTO (71) once bypass is on.
    pub fn set_raw(&self) -> Result<(), Errno> {
        unimplemented!()
    }

    /// `DL_ENABMULTI_REQ`.
    ///
    /// # Errors
    ///
    /// EINVAL for what the plugin does not call a group; what the driver refused with.
    pub fn enable_multicast(&self, group: LinkAddress) -> Result<(), Errno> {
        let _ = group;
        unimplemented!()
    }

    /// `DL_DISABMULTI_REQ`.
    ///
    /// # Errors
    ///
    /// ENOENT when the stream has not enabled it.
    pub fn disable_multicast(&self, group: LinkAddress) -> Result<(), Errno> {
        let _ = group;
        unimplemented!()
    }

    /// `DL_PROMISCON_REQ`, `DL_PROMISCOFF_REQ`.
    ///
    /// # Errors
    ///
    /// EINVAL when the level is off already; what the driver refused with.
    pub fn set_promiscuous(&self, level: Promiscuity, on: bool) -> Result<(), Errno> {
        let _ = (level, on);
        unimplemented!()
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
        let _ = (destination, payload, offload);
        unimplemented!()
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
        let _ = (sap, destination, payload, offload);
        unimplemented!()
    }

    /// Raw transmit: 20 bytes of destination, type, two zero bytes, payload. What the link does not like is dropped without
    /// a word, as on illumos; false then.
    pub fn transmit_raw(&self, packet: &[u8]) -> bool {
        let _ = packet;
        unimplemented!()
    }

    /// Waits until the queue that was full has room, or until `deadline`; false if that passed first.
    pub fn wait_writable(&self, deadline: Nanos) -> bool {
        let _ = deadline;
        unimplemented!()
    }
}

/// Packets waiting to be taken. Cheap clone.
#[derive(Clone, Debug)]
pub struct ReceiveQueue {}

impl ReceiveQueue {
    /// The next packet, waiting until `deadline` at most. User or kernel context.
    pub fn next(&self, deadline: Nanos) -> Option<Received> {
        let _ = deadline;
        unimplemented!()
    }

    /// The next packet if there is one. Any context.
    pub fn try_next(&self) -> Option<Received> {
        unimplemented!()
    }

    /// Packets dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        unimplemented!()
    }
}
