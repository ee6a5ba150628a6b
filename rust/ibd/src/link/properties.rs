//! Link properties (`dladm show-linkprop`, `set-linkprop`).

use gldv3::{Permission, PropertyBuffer, PropertyId, PropertyInfo, PropertyValue};
use ipoib::link::{BroadcastState, Note};
use ipoib::paths::PathSlot;
use kernel::ddi::{DevInfo, Scope};
use kernel::{Errno, KVec, MayBlock, log};

use super::Shared;
use super::announce::{CONNECTED_SDU, UNBOUNDED};
use super::lifecycle::FIRST_SDU;
use super::queue_pairs::moderate;
use super::settings::{
    BROADCAST_GROUP, BROADCAST_STATE, Key, LINK_REASON, LINK_STATE, SA_STATUS, Settings, is_read_only,
};

/// `linkmode`: datagram.
const DATAGRAM: u32 = 0;
/// `linkmode`: connected.
const CONNECTED: u32 = 1;
/// The least payload that a link may be told to have: what IPv6 needs (RFC 8200 section 5).
const LEAST_SDU: u32 = 1280;

impl Shared {
    /// What the driver's configuration file says of every link. **May block.**
    pub(super) fn configure(&self, dip: DevInfo, may_block: &MayBlock) {
        let mut settings = Settings::default();
        settings.configure(
            |name| dip.prop_int(name, Scope::Node),
            |name, value, least, most| {
                let name = name.to_str().unwrap_or("a property");
                log!(
                    warn,
                    self.name,
                    "{name}={value} in the configuration file is not from {least} to {most}: not used"
                );
            },
        );
        *self.settings.lock() = settings;
        for key in Key::all() {
            self.apply(key, may_block);
        }
    }

    fn is_started(&self) -> bool {
        self.control.lock().wanted
    }

    /// See [`gldv3::Provider::set_property`].
    pub(super) fn set_property(
        &self,
        id: PropertyId<'_>,
        value: PropertyValue<'_>,
        may_block: &MayBlock,
    ) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => match value.u32()? {
                mode @ (DATAGRAM | CONNECTED) => self.set_mode(mode == CONNECTED),
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
                self.apply(key, may_block);
                Ok(())
            }
            PropertyId::Mtu => self.set_mtu(value.u32()?),
            PropertyId::Other(_) => Err(Errno::ENOTSUP),
        }
    }

    /// `EBUSY` for another mode while the link is started.
    fn set_mode(&self, connected: bool) -> Result<(), Errno> {
        if self.settings.lock().connected == connected {
            return Ok(());
        }
        if self.is_started() {
            return Err(Errno::EBUSY);
        }
        self.settings.lock().connected = connected;
        self.announcer.set_connected(&self.mac, connected, FIRST_SDU);
        // Connections have no offloads.
        self.mac.capabilities_update();
        Ok(())
    }

    /// The largest payload that can be set, which a link has that nobody has bounded.
    fn largest_mtu(&self) -> u32 {
        if self.settings.lock().connected {
            return CONNECTED_SDU;
        }
        let group = self.control.lock().link.broadcast_group().map(|group| group.mtu.sdu());
        group.unwrap_or(FIRST_SDU)
    }

    /// Bounds the payload from now on. The MAC layer has asked for another one than it has, and has it when this succeeds; it does not look
    /// at bounds. Without a broadcast group the bound counts from the next one on.
    #[inline(never)]
    fn set_mtu(&self, mtu: u32) -> Result<(), Errno> {
        let largest = self.largest_mtu();
        if !(LEAST_SDU..=largest).contains(&mtu) {
            log!(note, self.name, "mtu {mtu} is not from {LEAST_SDU} to {largest}: not used");
            return Err(Errno::EINVAL);
        }
        self.announcer.bound(if mtu == largest { UNBOUNDED } else { mtu });
        Ok(())
    }

    /// Has every CQ of the link's that receives, and those that datagrams are sent over, interrupt as the settings say. **May block**, for the
    /// adapter only.
    #[inline(never)]
    pub(super) fn moderate_interrupts(&self) {
        let settings = *self.settings.lock();
        let channel = |n| self.control.lock().queue_pairs.as_ref()?.channels().nth(n).cloned();
        for channel in (0..self.transmitters.len()).map_while(channel) {
            let hca = channel.pd().hca();
            // All queue pairs have one receive CQ.
            moderate(hca, channel.receive_cq(), settings.receive_moderation());
            moderate(hca, channel.send_cq(), settings.transmit_moderation());
        }
        let control = self.control.lock();
        let of_connections = control.incoming.as_ref().and_then(|incoming| incoming.shared_receive());
        let both = of_connections.map(|shared_receive| (shared_receive.srq(), shared_receive.cq().clone()));
        drop(control);
        if let Some((srq, cq)) = both {
            moderate(srq.pd().hca(), &cq, settings.receive_moderation());
        }
    }

    /// The same, if the settings are not those any more with which queue pairs were made: who changed them did not find the queue pairs.
    pub(super) fn moderate_again(&self, made_with: &Settings) {
        let now = *self.settings.lock();
        let both = |settings: &Settings| (settings.receive_moderation(), settings.transmit_moderation());
        if both(&now) != both(made_with) {
            self.moderate_interrupts();
        }
    }

    /// Makes a value that was set tell, as far as that is not left to the next start. **May block**, for the adapter and for memory only.
    fn apply(&self, key: Key, may_block: &MayBlock) {
        let settings = *self.settings.lock();
        match key {
            Key::CreateBroadcastGroup => self.tell(|control| control.link.set_create(settings.is_on(key))),
            Key::LsoEnable => self.mac.capabilities_update(),
            Key::NumAh => {
                let addresses = settings.get(key) as usize;
                self.remember_in(KVec::from_fn_waiting(addresses, may_block, |_| PathSlot::default()));
            }
            Key::HashSize => {
                let units = settings.get(key);
                self.transmitters.iter().for_each(|transmitter| transmitter.remember(units, may_block));
            }
            Key::PathLookups | Key::PathPackets | Key::PathRefresh => {
                // Within the bounds of the table, they fit.
                let bound = |key| u16::try_from(settings.get(key)).unwrap_or(u16::MAX);
                let [lookups, packets] = [Key::PathLookups, Key::PathPackets].map(bound);
                self.tell(|control| control.paths.set_bounds(lookups, packets, settings.path_refresh()));
            }
            Key::RxCompCount | Key::RxCompUsec | Key::TxCompCount | Key::TxCompUsec => {
                self.moderate_interrupts();
            }
            Key::JoinRetries | Key::JoinTimeout => self.tell(|control| {
                let (timeout, retries) = (settings.join_timeout(), settings.get(Key::JoinRetries));
                control.link.set_patience(timeout, retries);
                control.groups.set_patience(timeout, retries);
            }),
            // The control thread looks at it.
            Key::TxTimeout => self.tell(|control| control.timeout_is_new = true),
            // Read where it matters.
            Key::Debug => {}
            // Nothing comes of these.
            Key::RcEnableSrq
            | Key::RcNumRwqe
            | Key::RcNumSrq
            | Key::RcNumSwqe
            | Key::RcRxCompCount
            | Key::RcRxCompUsec
            | Key::RcRxCopyThresh
            | Key::RcRxRwqeThresh
            | Key::RcTxCompCount
            | Key::RcTxCompUsec
            | Key::RcTxCopyThresh => {}
            // Read when the queue pair is built.
            Key::CoalesceCompletions
            | Key::NumLsoBufs
            | Key::NumRwqe
            | Key::NumSwqe
            | Key::RcAccept
            | Key::RxCopyThresh
            | Key::RxIntrLimit
            | Key::TxCopyThresh => {}
        }
    }

    /// See [`gldv3::Provider::get_property`].
    pub(super) fn get_property(
        &self,
        id: PropertyId<'_>,
        value: &mut PropertyBuffer<'_>,
    ) -> Result<(), Errno> {
        match id {
            PropertyId::LinkMode => {
                let connected = self.settings.lock().connected;
                value.put_u32(if connected { CONNECTED } else { DATAGRAM })
            }
            PropertyId::Private(name) if name == BROADCAST_GROUP => {
                let joined = self.control.lock().link.broadcast_group().is_some();
                value.put_text(format_args!("{}", u8::from(joined)))
            }
            PropertyId::Private(name) if name == LINK_STATE => {
                let state = self.control.lock().state();
                value.put_text(format_args!("{}", state.name().to_str().unwrap_or_default()))
            }
            PropertyId::Private(name) if name == BROADCAST_STATE => {
                let state = self.control.lock().link.broadcast_state();
                value.put_text(format_args!("{}", broadcast_state(state)))
            }
            PropertyId::Private(name) if name == LINK_REASON => {
                let reason = self.control.lock().reason;
                put_reason(reason, value)
            }
            PropertyId::Private(name) if name == SA_STATUS => {
                value.put_text(format_args!("{}", self.counters.sa.last_failure()))
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

/// Why a link is not up. The log has more.
#[inline(never)]
fn put_reason(reason: Option<Note>, value: &mut PropertyBuffer<'_>) -> Result<(), Errno> {
    let text = match reason {
        Some(Note::MtuTooLarge(group, port)) => {
            let (group, port) = (group.bytes(), port.bytes());
            return value.put_text(format_args!("group MTU {group} greater than port MTU {port}"));
        }
        None | Some(Note::Moved(..)) => "none",
        Some(Note::BroadcastAbsent) => "no broadcast group",
        Some(Note::CreateFailed(_)) => "broadcast group not made",
        Some(Note::JoinFailed(_)) => "broadcast group not joined",
        Some(Note::BuildFailed) => "no queue pair or buffers",
        Some(Note::Broken) => "queue pair failed",
        Some(Note::Stalled) => "queue pair stalled",
    };
    value.put_text(format_args!("{text}"))
}

/// How far the membership in the broadcast group has come, in a word.
fn broadcast_state(state: BroadcastState) -> &'static str {
    match state {
        BroadcastState::None => "none",
        BroadcastState::Searching => "searching",
        BroadcastState::Joining => "joining",
        BroadcastState::Joined => "joined",
        BroadcastState::Renewing => "renewing",
    }
}

impl Shared {
    /// See [`gldv3::Provider::property_info`].
    pub(super) fn describe(&self, id: PropertyId<'_>, info: &mut PropertyInfo<'_>) {
        match id {
            PropertyId::LinkMode => info.default_u32(DATAGRAM),
            PropertyId::Mtu => {
                let largest = self.largest_mtu();
                info.default_u32(largest);
                info.range_u32(LEAST_SDU.min(largest), largest);
            }
            PropertyId::Private(name) if is_read_only(name) => info.permission(Permission::Read),
            PropertyId::Private(name) => {
                if let Some(key) = Key::named(name) {
                    let default = key.configured_value(|name| self.dip.prop_int(name, Scope::Node));
                    info.default_text(format_args!("{default}"));
                }
            }
            PropertyId::Other(_) => {}
        }
    }
}
