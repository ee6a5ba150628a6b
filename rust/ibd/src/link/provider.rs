//! What GLDv3 calls ([`gldv3::Provider`]).

use core::ffi::CStr;

use gldv3::{Address, Permission, PropertyBuffer, PropertyId, PropertyInfo, PropertyValue, Stat};
use ipoib::groups;
use ipoib::link::Status;
use ipoib::{Cast, LinkAddr};
use kernel::mblk::MblkChain;
use kernel::{Errno, KArc};

use super::Shared;
use super::settings::{BROADCAST_GROUP, CREATE_BROADCAST_GROUP, NAMES};
use crate::now;

/// `linkmode`: datagram.
const DATAGRAM: u32 = 0;

/// A link in GLDv3's hands.
pub(crate) struct Provider(pub(crate) KArc<Shared>);

impl Provider {
    fn is_started(&self) -> bool {
        !matches!(self.0.control.lock().link.status(), Status::Stopped)
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

    /// Asks for the link and returns; address, MTU and state are announced when they are known.
    fn start(&self) -> Result<(), Errno> {
        let mut control = self.0.control.lock();
        if control.removed {
            drop(control);
            return Err(Errno::ENXIO);
        }
        control.start(now());
        drop(control);
        self.0.control.notify_all();
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
        self.0.transmitter.transmit(packets)
    }

    fn set_property(&self, id: PropertyId<'_>, value: PropertyValue<'_>) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => match value.u32()? {
                DATAGRAM => Ok(()),
                // Connected mode is not there.
                1 => Err(Errno::ENOTSUP),
                _ => Err(Errno::EINVAL),
            },
            PropertyId::Private(name) if name == CREATE_BROADCAST_GROUP => {
                let create = match value.number()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Errno::EINVAL),
                };
                if self.is_started() {
                    return Err(Errno::EBUSY);
                }
                self.0.settings.lock().create_broadcast_group = create;
                self.0.tell(|control| control.link.set_create(create));
                Ok(())
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn get_property(&self, id: PropertyId<'_>, value: &mut PropertyBuffer<'_>) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => value.put_u32(DATAGRAM),
            PropertyId::Private(name) if name == BROADCAST_GROUP => {
                let joined = self.0.control.lock().link.broadcast_group().is_some();
                value.put_text(format_args!("{}", u8::from(joined)))
            }
            PropertyId::Private(name) if name == CREATE_BROADCAST_GROUP => {
                let create = self.0.settings.lock().create_broadcast_group;
                value.put_text(format_args!("{}", u8::from(create)))
            }
            _ => Err(Errno::ENOTSUP),
        }
    }

    fn property_info(&self, id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
        match id {
            PropertyId::LinkMode => info.default_u32(DATAGRAM),
            PropertyId::Mtu => info.permission(Permission::Read),
            PropertyId::Private(name) if name == BROADCAST_GROUP => info.permission(Permission::Read),
            PropertyId::Private(name) if name == CREATE_BROADCAST_GROUP => {
                info.default_text(format_args!("1"))
            }
            _ => {}
        }
    }
}
