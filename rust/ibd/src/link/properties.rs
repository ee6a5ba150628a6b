//! Link properties (`dladm show-linkprop`, `set-linkprop`).

use gldv3::{Permission, PropertyBuffer, PropertyId, PropertyInfo, PropertyValue};
use ipoib::link::Status;
use kernel::{Errno, log};

use super::Shared;
use super::datapath::moderate;
use super::settings::{BROADCAST_GROUP, Key};

/// `linkmode`: datagram.
const DATAGRAM: u32 = 0;
/// `linkmode`: connected.
const CONNECTED: u32 = 1;

impl Shared {
    fn is_started(&self) -> bool {
        !matches!(self.control.lock().link.status(), Status::Stopped)
    }

    /// See [`gldv3::Provider::set_property`].
    pub(super) fn set_property(&self, id: PropertyId<'_>, value: PropertyValue<'_>) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => match value.u32()? {
                DATAGRAM => Ok(()),
                // Connected mode is not there.
                CONNECTED => Err(Errno::ENOTSUP),
                _ => Err(Errno::EINVAL),
            },
            PropertyId::Private(name) => {
                let key = Key::named(name).ok_or(Errno::ENOTSUP)?;
                let started = self.is_started();
                let value = value.number();
                let mut settings = self.settings.lock();
                // A started link says that it is busy, whatever the value.
                settings.set(key, value.unwrap_or(-1), started)?;
                drop(settings);
                self.apply(key);
                Ok(())
            }
            PropertyId::Mtu | PropertyId::Other(_) => Err(Errno::ENOTSUP),
        }
    }

    /// Makes a value that was set tell, as far as that is not left to the next start. **May block**, for the adapter only.
    fn apply(&self, key: Key) {
        let settings = *self.settings.lock();
        match key {
            Key::CreateBroadcastGroup => self.tell(|control| control.link.set_create(settings.is_on(key))),
            Key::LsoEnable => self.mac.capabilities_update(),
            Key::NumAh => {
                let addresses = settings.get(key);
                if self.make_room(addresses as usize).is_err() {
                    // More room is made again when it is needed.
                    log!(note, self.name, "no memory to remember {addresses} addresses");
                }
            }
            Key::HashSize => self.transmitter.remember(settings.get(key)),
            Key::RxCompCount | Key::RxCompUsec | Key::TxCompCount | Key::TxCompUsec => {
                let channel =
                    self.control.lock().datapath.as_ref().map(|datapath| datapath.channel().clone());
                if let Some(channel) = channel {
                    let hca = channel.pd().hca();
                    moderate(hca, channel.receive_cq(), settings.receive_moderation());
                    moderate(hca, channel.send_cq(), settings.transmit_moderation());
                }
            }
            // Read when the queue pair is built.
            Key::CoalesceCompletions | Key::NumLsoBufs | Key::NumRwqe | Key::NumSwqe | Key::TxCopyThresh => {}
        }
    }

    /// See [`gldv3::Provider::get_property`].
    pub(super) fn get_property(
        &self,
        id: PropertyId<'_>,
        value: &mut PropertyBuffer<'_>,
    ) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => value.put_u32(DATAGRAM),
            PropertyId::Private(name) if name == BROADCAST_GROUP => {
                let joined = self.control.lock().link.broadcast_group().is_some();
                value.put_text(format_args!("{}", u8::from(joined)))
            }
            PropertyId::Private(name) => {
                let key = Key::named(name).ok_or(Errno::ENOTSUP)?;
                let number = self.settings.lock().get(key);
                value.put_text(format_args!("{number}"))
            }
            PropertyId::Mtu | PropertyId::Other(_) => Err(Errno::ENOTSUP),
        }
    }
}

/// See [`gldv3::Provider::property_info`].
pub(super) fn describe(id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
    match id {
        PropertyId::LinkMode => info.default_u32(DATAGRAM),
        PropertyId::Mtu => info.permission(Permission::Read),
        PropertyId::Private(name) if name == BROADCAST_GROUP => info.permission(Permission::Read),
        PropertyId::Private(name) => {
            if let Some(key) = Key::named(name) {
                info.default_text(format_args!("{}", key.default_value()));
            }
        }
        PropertyId::Other(_) => {}
    }
}
