//! [`Provider`]: what a GLDv3 driver does for one link (`mac_callbacks_t`).

use core::ffi::CStr;

use illumos_sys_hdrs as sys;
use kernel::mblk::MblkChain;
use kernel::user::Cred;
use kernel::{Errno, MayBlock};

use crate::Address;
use crate::property::{PropertyBuffer, PropertyId, PropertyInfo, PropertyValue};
use crate::stat::Stat;

/// One link.
///
/// Callbacks arrive from the moment the link is registered, some before
/// [`Registration::register`](crate::Registration::register) has returned ([`Provider::start`] not), until it is
/// unregistered; so the value must be complete when it is made.
pub trait Provider: Send + Sync + 'static {
    /// The private properties: names beginning with `_`, at most 255 characters.
    const PRIVATE_PROPERTIES: &'static [&'static CStr] = &[];

    /// A statistic; `None` if the driver has no such thing. **May block**, at any time, before start and during stop
    /// too.
    fn stat(&self, stat: Stat) -> Option<u64>;

    /// The first user came. Success with the link down is legal. **Perimeter**; [`Mac`](crate::Mac)'s calls that
    /// enter it are allowed here.
    fn start(&self) -> Result<(), Errno>;

    /// The last user went. When this returns no thread of the driver calls up with packets any more. **Perimeter**.
    fn stop(&self);

    /// Promiscuous mode on or off. **Perimeter**; must not wait for the fabric.
    fn set_promiscuous(&self, on: bool) -> Result<(), Errno>;

    /// A group was joined for the first time or left for the last time; never the broadcast group. Also before start
    /// and after stop. **Perimeter**; must not wait for the fabric, so success means "wanted", not "joined". A failure
    /// of leaving is ignored.
    fn multicast(&self, add: bool, address: &Address) -> Result<(), Errno>;

    /// A station address set by an administrator (never by bringing up IP). **Perimeter**.
    fn set_address(&self, address: &Address) -> Result<(), Errno>;

    /// Takes packets to send and returns those it has no room for: the *same* messages, in order, the first refused
    /// one first. Returning one is the promise to call [`Mac::transmit_ready`](crate::Mac::transmit_ready) later;
    /// what can never be sent (link down, not started) is consumed. Headers may only be changed idempotently, and
    /// only in a buffer that is not shared. **Any** context, concurrently.
    fn transmit(&self, packets: MblkChain) -> MblkChain;

    /// The checksums the adapter computes. **May block**; during registration too.
    fn checksum_offload(&self) -> Option<ChecksumOffload> {
        None
    }

    /// The largest TCP/IPv4 send, in bytes, that the adapter cuts into segments itself. Asked only when checksums are
    /// offloaded. **May block**.
    fn large_send(&self) -> Option<u32> {
        None
    }

    /// An ioctl on the link's own node (`I_STR`) that dld leaves to the driver: answers with the first so many bytes of
    /// `argument`. `EINVAL` for an unknown command. **May block**, at any time.
    fn ioctl(&self, command: u32, argument: &mut [u8], cred: Cred<'_>) -> Result<usize, Errno> {
        let _ = (command, argument, cred);
        Err(Errno::EINVAL)
    }

    /// Sets a property; `ENOTSUP` for an unknown one. **Perimeter**; **may block**.
    fn set_property(
        &self,
        id: PropertyId<'_>,
        value: PropertyValue<'_>,
        may_block: &MayBlock,
    ) -> Result<(), Errno> {
        let _ = (id, value, may_block);
        Err(Errno::ENOTSUP)
    }

    /// Reads a property; `ENOTSUP` for an unknown one. **Perimeter**.
    fn get_property(&self, id: PropertyId<'_>, value: &mut PropertyBuffer<'_>) -> Result<(), Errno> {
        let _ = (id, value);
        Err(Errno::ENOTSUP)
    }

    /// Describes a property: permission, default, range. **Perimeter**, possibly with the link's lock held for
    /// writing: nothing of [`Mac`](crate::Mac) may be called, and nothing may block.
    fn property_info(&self, id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
        let _ = (id, info);
    }
}

/// Checksums an adapter computes on transmit (`HCKSUM_*` of `sys/dlpi.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumOffload {
    /// Any range, given by offsets.
    pub partial: bool,
    /// TCP and UDP over IPv4.
    pub full_ipv4: bool,
    /// TCP and UDP over IPv6.
    pub full_ipv6: bool,
    /// The IPv4 header.
    pub ipv4_header: bool,
}

impl ChecksumOffload {
    pub(crate) fn raw(self) -> u32 {
        let flag = |on: bool, raw| if on { raw } else { 0 };
        flag(self.partial, sys::HCKSUM_INET_PARTIAL)
            | flag(self.full_ipv4, sys::HCKSUM_INET_FULL_V4)
            | flag(self.full_ipv6, sys::HCKSUM_INET_FULL_V6)
            | flag(self.ipv4_header, sys::HCKSUM_IPHDRCKSUM)
    }
}
