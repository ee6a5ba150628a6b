//! What GLDv3 calls ([`gldv3::Provider`]).

use core::ffi::CStr;

use gldv3::{
    Address, ChecksumOffload, PropertyBuffer, PropertyId, PropertyInfo, PropertyValue, RingProvider, Stat,
};
use ibtf::PathRecord;
use ipoib::groups;
use ipoib::header::IPOIB_HEADER_LEN;
use ipoib::{Cast, LinkAddr};
use kernel::mblk::MblkChain;
use kernel::user::{self, Cred};
use kernel::{Errno, KArc, MayBlock};

use super::Shared;
use super::queue_pairs::abilities;
use super::settings::NAMES;
use super::transmit::Abilities;
use crate::now;

/// A link in GLDv3's hands.
pub(crate) struct Provider(pub(crate) KArc<Shared>);

impl Provider {
    /// `None` once the adapter is gone.
    fn abilities(&self) -> Option<Abilities> {
        let (hca, _) = self.0.hardware()?;
        let settings = *self.0.settings.lock();
        Some(abilities(&hca, &settings))
    }
}

impl gldv3::Provider for Provider {
    const PRIVATE_PROPERTIES: &'static [&'static CStr] = NAMES;

    fn stat(&self, stat: Stat) -> Option<u64> {
        match stat {
            Stat::Speed => Some(self.0.announcer.speed()),
            counted => self.0.counters.stat(counted),
        }
    }

    /// Asks for the link and returns as soon as it has its address, which needs the port and no subnet administrator, or a second
    /// later. MTU and state are announced when they are known, and so is an address that comes late.
    fn start(&self) -> Result<(), Errno> {
        let mut control = self.0.control.lock();
        if control.removed {
            drop(control);
            return Err(Errno::ENXIO);
        }
        control.wanted = true;
        control.start(now());
        drop(control);
        // A receive ring opens the way when it is started.
        if !self.0.rings.receive {
            self.0.open_delivery(None);
        }
        self.0.control.notify_all();
        self.0.wait_for_address();
        Ok(())
    }

    /// Takes the queue pair down and returns; what the SA has to be told is told later.
    fn stop(&self) {
        self.0.stop();
    }

    fn set_promiscuous(&self, on: bool) -> Result<(), Errno> {
        self.0.tell(|control| control.groups.handle_event(now(), groups::Event::Promiscuous(on)));
        Ok(())
    }

    fn multicast(&self, add: bool, address: &Address) -> Result<(), Errno> {
        let address = LinkAddr::from_bytes(*address);
        let group = address.mgid().ok_or(Errno::EINVAL)?;
        if address.cast() == Cast::Broadcast {
            // The link's own.
            return Ok(());
        }
        let mut control = self.0.control.lock();
        let mut wanted = Ok(());
        if add {
            wanted = control.groups.want(group);
        } else {
            control.groups.unwant(group);
        }
        drop(control);
        self.0.control.notify_all();
        wanted.map_err(|_| Errno::ENOMEM)
    }

    fn set_address(&self, _address: &Address) -> Result<(), Errno> {
        // The address is queue pair and GID: nobody can choose it.
        Err(Errno::ENOTSUP)
    }

    fn transmit(&self, packets: MblkChain) -> MblkChain {
        self.transmit_on_ring(0, packets)
    }

    fn checksum_offload(&self) -> Option<ChecksumOffload> {
        let full = ChecksumOffload { full_ipv4: true, ..ChecksumOffload::default() };
        self.abilities()?.checksum.then_some(full)
    }

    fn large_send(&self) -> Option<u32> {
        // The limit counts the IPoIB header, and is one that must not be reached.
        self.abilities()?.large.checked_sub(IPOIB_HEADER_LEN as u32 + 1)
    }

    fn ioctl(&self, command: u32, argument: &mut [u8], cred: Cred<'_>) -> Result<usize, Errno> {
        if command != ibtf::PATH_INFO {
            return Err(Errno::EINVAL);
        }
        cred.may_configure_links()?;
        let mut record: PathRecord = user::from_bytes(argument)?;
        self.0.tell_path(&mut record)?;
        let answer = user::as_bytes(&record);
        argument.get_mut(..answer.len()).ok_or(Errno::EINVAL)?.copy_from_slice(answer);
        Ok(answer.len())
    }

    fn set_property(
        &self,
        id: PropertyId<'_>,
        value: PropertyValue<'_>,
        may_block: &MayBlock,
    ) -> Result<(), Errno> {
        self.0.set_property(id, value, may_block)
    }

    fn get_property(&self, id: PropertyId<'_>, value: &mut PropertyBuffer<'_>) -> Result<(), Errno> {
        self.0.get_property(id, value)
    }

    fn property_info(&self, id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
        self.0.describe(id, info);
    }
}
