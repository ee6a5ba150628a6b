//! Rings a driver offers (`MAC_CAPAB_RINGS`, `M/mac.c`): asked for while it registers, started and stopped with the device.
//!
//! One receive group, static, with any number of rings; transmit rings without a group. That is what network drivers without
//! shares have; the other shapes are refused. A driver with rings has no `mc_unicst`: its receive group is told of addresses.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use fakekernel::{Ctx, Cx, EntryKind, Errno, HostMutex, Rule, cx};
use illumos_sys_hdrs::{
    MAC_GROUP_TYPE_STATIC, MAC_RING_TYPE_RX, MAC_RING_TYPE_TX, mac_add_mac_addr_t, mac_capab_rings_t,
    mac_group_info_t, mac_intr_disable_t, mac_intr_enable_t, mac_rem_mac_addr_t, mac_ring_handle_t,
    mac_ring_info_t, mac_ring_poll_t, mac_ring_send_t, mac_ring_start_t, mac_ring_stat_t, mac_ring_stop_t,
    mac_ring_type_t, mblk_t,
};

use super::Mac;
use crate::address::LinkAddress;
use crate::entry::SendEntry;
use crate::mac::Macs;
use crate::message::{Message, Messages};

const RINGS: u32 = 0x10;
/// As many as a driver may have of one kind.
const MOST: usize = 64;
/// A PIL below the scheduler's, at which nobody may block.
const QUIET: Ctx = Ctx::Soft { pil: 1 };

/// Which way a ring goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Receive,
    Transmit,
}

impl Kind {
    fn raw(self) -> mac_ring_type_t {
        match self {
            Self::Receive => MAC_RING_TYPE_RX,
            Self::Transmit => MAC_RING_TYPE_TX,
        }
    }
}

/// The rings of a mac; none of a kind the driver does not offer.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub(crate) receive: Vec<Arc<Ring>>,
    pub(crate) transmit: Vec<Arc<Ring>>,
    group: Option<Group>,
}

/// The receive group.
#[derive(Debug, Clone, Copy)]
struct Group {
    driver: usize,
    start: illumos_sys_hdrs::mac_group_start_t,
    stop: illumos_sys_hdrs::mac_group_stop_t,
    add: mac_add_mac_addr_t,
    remove: mac_rem_mac_addr_t,
}

/// One ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) kind: Kind,
    pub(crate) index: usize,
    calls: HostMutex<Calls>,
    state: HostMutex<State>,
}

/// What the driver said about it.
#[derive(Debug, Clone, Copy, Default)]
struct Calls {
    handle: usize,
    driver: usize,
    start: mac_ring_start_t,
    stop: mac_ring_stop_t,
    interrupt: usize,
    enable: mac_intr_enable_t,
    disable: mac_intr_disable_t,
    poll: mac_ring_poll_t,
    send: mac_ring_send_t,
    stat: mac_ring_stat_t,
}

#[derive(Debug, Default)]
struct State {
    in_use: bool,
    generation: u64,
    /// Its interrupt is off.
    quiet: bool,
    /// Threads that brought, since it is off, what they may have taken before.
    late: BTreeSet<u64>,
}

impl Ring {
    fn new(kind: Kind, index: usize) -> Arc<Self> {
        let (calls, state) = (HostMutex::new(Calls::default()), HostMutex::new(State::default()));
        Arc::new(Self { kind, index, calls, state })
    }

    fn calls(&self) -> Calls {
        *self.calls.lock()
    }

    /// The pointer the driver knows it by.
    pub(crate) fn handle(&self) -> mac_ring_handle_t {
        std::ptr::without_provenance_mut(self.calls().handle)
    }

    /// The interrupt can be switched and packets can be fetched.
    pub(crate) fn polls(&self) -> bool {
        let calls = self.calls();
        calls.poll.is_some() && calls.enable.is_some() && calls.disable.is_some()
    }

    /// Whether packets that came up with this generation are to be taken; if not they are stale, which breaks a rule.
    pub(super) fn takes(&self, cx: &Cx, generation: Option<u64>) -> bool {
        let (in_use, current, quiet) = {
            let state = self.state.lock();
            (state.in_use, state.generation, state.quiet)
        };
        let stale = !in_use || generation.is_some_and(|generation| generation != current);
        cx.check(!stale, Rule::StaleRing, || {
            let what = generation.map_or_else(|| "no generation".to_owned(), |g| format!("generation {g}"));
            let now = if in_use { "is running" } else { "is stopped" };
            format!("packets of {what} on receive ring {}, which {now} in generation {current}", self.index)
        });
        if quiet {
            // A thread that was on its way when the interrupt was switched off arrives once.
            let first = self.state.lock().late.insert(cx.thread().did());
            cx.check(first, Rule::QuietRing, || {
                format!(
                    "the thread's second packets on receive ring {} since its interrupt is off",
                    self.index
                )
            });
        }
        !stale
    }
}

/// Where a ring's handle and the driver's arguments come from.
fn pointer<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}

impl Mac {
    /// Asks for the rings of each kind and what each is (`mac_init_rings`). Before the mac is known to anybody.
    pub(super) fn init_rings(&self) -> Result<(), Errno> {
        let mut rings = Rings::default();
        let result = self.ask_for_rings(&mut rings);
        // Kept whatever came of it, for their handles to be given back.
        let rings = self.rings.get_or_init(|| rings);
        result?;
        // At this level of virtualisation there must be receive rings.
        if rings.receive.is_empty() { Err(Errno::EINVAL) } else { Ok(()) }
    }

    fn ask_for_rings(&self, rings: &mut Rings) -> Result<(), Errno> {
        for kind in [Kind::Receive, Kind::Transmit] {
            let Some(offer) = self.rings_offered(kind) else { continue };
            let count = offer.mr_rnum as usize;
            let groups = if kind == Kind::Receive { 1 } else { 0 };
            let imitated =
                count <= MOST && offer.mr_gnum == groups && offer.mr_group_type == MAC_GROUP_TYPE_STATIC;
            if !imitated {
                return Err(Errno::EINVAL);
            }
            if kind == Kind::Receive {
                rings.group = Some(self.group_offered(&offer, count)?);
            }
            let asked: Vec<Arc<Ring>> = (0..count).map(|index| Ring::new(kind, index)).collect();
            // The last one first, as the C framework does.
            for ring in asked.iter().rev() {
                self.ask_for_ring(&offer, ring)?;
            }
            if kind == Kind::Receive { rings.receive = asked } else { rings.transmit = asked }
        }
        Ok(())
    }

    fn rings_offered(&self, kind: Kind) -> Option<mac_capab_rings_t> {
        let mut offer = mac_capab_rings_t { mr_type: kind.raw(), ..mac_capab_rings_t::default() };
        self.call_getcapab(RINGS, (&raw mut offer).cast::<c_void>()).then_some(offer)
    }

    fn group_offered(&self, offer: &mac_capab_rings_t, rings: usize) -> Result<Group, Errno> {
        let f = offer.mr_gget.ok_or(Errno::EINVAL)?;
        let mut info = mac_group_info_t::default();
        // Nobody is given the group's handle back: any pointer but null will do.
        let handle = pointer(self.callbacks);
        let args = (self.cookie(), Kind::Receive.raw(), 0, &raw mut info, handle);
        // SAFETY: mac(9E): the driver's function, for a place to fill in.
        unsafe { self.module.enter(f, args, self.control("mr_gget")) };
        // Without these the framework could not tell the group of addresses.
        let complete = info.mgi_addmac.is_some() && info.mgi_remmac.is_some();
        if !complete || info.mgi_count as usize != rings {
            return Err(Errno::EINVAL);
        }
        Ok(Group {
            driver: info.mgi_driver.expose_provenance(),
            start: info.mgi_start,
            stop: info.mgi_stop,
            add: info.mgi_addmac,
            remove: info.mgi_remmac,
        })
    }

    fn ask_for_ring(&self, offer: &mac_capab_rings_t, ring: &Arc<Ring>) -> Result<(), Errno> {
        let f = offer.mr_rget.ok_or(Errno::EINVAL)?;
        let handle = Macs::of(&self.kernel).rings.insert_arc(ring.clone());
        ring.calls.lock().handle = handle.addr();
        let group = if ring.kind == Kind::Receive { 0 } else { -1 };
        let mut info = mac_ring_info_t::default();
        let args = (self.cookie(), ring.kind.raw(), group, ring.index as c_int, &raw mut info, ring.handle());
        // SAFETY: as above.
        unsafe { self.module.enter(f, args, self.control("mr_rget")) };
        // SAFETY: both members are pointers to functions or null, and which it is follows from the ring's kind.
        let poll = unsafe { info.mrfunion.poll };
        // SAFETY: as above.
        let send = unsafe { info.mrfunion.send };
        let calls = Calls {
            handle: handle.addr(),
            driver: info.mri_driver.expose_provenance(),
            start: info.mri_start,
            stop: info.mri_stop,
            interrupt: info.mri_intr.mi_handle.expose_provenance(),
            enable: info.mri_intr.mi_enable,
            disable: info.mri_intr.mi_disable,
            poll: if ring.kind == Kind::Receive { poll } else { None },
            send: if ring.kind == Kind::Transmit { send } else { None },
            stat: info.mri_stat,
        };
        let complete = ring.kind == Kind::Receive || calls.send.is_some();
        *ring.calls.lock() = calls;
        if complete { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The mac's rings; none if it was registered without.
    pub(crate) fn rings(&self) -> &Rings {
        self.rings.get_or_init(Rings::default)
    }

    /// The ring of a handle; a stale one, or another mac's, is a use of what the driver has no right to (rule 16).
    pub(crate) fn ring_of(&self, cx: &Cx, handle: mac_ring_handle_t) -> Option<Arc<Ring>> {
        let rings = self.rings();
        let own =
            |ring: &Arc<Ring>| rings.receive.iter().chain(&rings.transmit).any(|r| Arc::ptr_eq(r, ring));
        let found = Macs::of(&self.kernel).rings.get(handle).ok().filter(own);
        cx.check(found.is_some(), Rule::HeapCorruption, || format!("{handle:p} is no ring of {}", self.name));
        found
    }

    /// Gives the handles back.
    pub(super) fn forget_rings(&self) {
        let rings = self.rings();
        let known = &Macs::of(&self.kernel).rings;
        for ring in rings.receive.iter().chain(&rings.transmit) {
            drop(known.remove(ring.handle()));
        }
    }

    /// What follows `mc_start`: the first transmit ring, the group, its rings. Inside the perimeter.
    ///
    /// # Errors
    ///
    /// What the driver refused with. What was started before is stopped again, but for the device itself: the C framework
    /// forgets that.
    pub(super) fn start_rings(&self) -> Result<(), Errno> {
        let rings = self.rings();
        let first = rings.transmit.first();
        if let Some(ring) = first {
            self.start_ring(ring)?;
        }
        let started = self.start_group();
        if started.is_err()
            && let Some(ring) = first
        {
            self.stop_ring(ring);
        }
        started
    }

    fn start_group(&self) -> Result<(), Errno> {
        let Some(group) = self.rings().group else { return Ok(()) };
        if let Some(f) = group.start {
            let args = (pointer(group.driver),);
            // SAFETY: mac(9E): the driver's function for its group.
            Errno::check(unsafe { self.module.enter(f, args, self.control("mgi_start")) })?;
        }
        for ring in &self.rings().receive {
            if let Err(error) = self.start_ring(ring) {
                self.stop_group();
                return Err(error);
            }
        }
        Ok(())
    }

    fn stop_group(&self) {
        let Some(group) = self.rings().group else { return };
        self.rings().receive.iter().for_each(|ring| self.stop_ring(ring));
        if let Some(f) = group.stop {
            // SAFETY: as above.
            unsafe { self.module.enter(f, (pointer(group.driver),), self.control("mgi_stop")) };
        }
    }

    /// What precedes `mc_stop`. Inside the perimeter.
    pub(super) fn stop_rings(&self) {
        self.stop_group();
        if let Some(ring) = self.rings().transmit.first() {
            self.stop_ring(ring);
        }
    }

    /// The transmit rings beside the first, which start once somebody uses the link. A ring that does not start is left out, as the
    /// C framework forgets to look.
    pub(crate) fn start_other_transmit_rings(&self) {
        for ring in self.rings().transmit.iter().skip(1) {
            let _ = self.start_ring(ring);
        }
    }

    /// The way back.
    pub(crate) fn stop_other_transmit_rings(&self) {
        self.rings().transmit.iter().skip(1).for_each(|ring| self.stop_ring(ring));
    }

    /// `mac_start_ring`.
    fn start_ring(&self, ring: &Ring) -> Result<(), Errno> {
        let (calls, generation) = (ring.calls(), ring.state.lock().generation);
        // Packets may come up before the call returns.
        ring.state.lock().in_use = true;
        if let Some(f) = calls.start {
            let args = (pointer(calls.driver), generation);
            // SAFETY: mac(9E): the driver's function for its ring.
            let result = Errno::check(unsafe { self.module.enter(f, args, self.control("mri_start")) });
            if let Err(error) = result {
                ring.state.lock().in_use = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// `mac_stop_ring`: one that runs.
    fn stop_ring(&self, ring: &Ring) {
        let calls = ring.calls();
        if !ring.state.lock().in_use {
            return;
        }
        if let Some(f) = calls.stop {
            // SAFETY: as above.
            unsafe { self.module.enter(f, (pointer(calls.driver),), self.control("mri_stop")) };
        }
        let mut state = ring.state.lock();
        state.in_use = false;
        state.quiet = false;
        state.generation += 1;
    }

    /// The group takes an address, or lets it go (`mac_group_addmac`). No group: nothing to be told. Inside the perimeter.
    ///
    /// # Errors
    ///
    /// What the driver refused with.
    pub(crate) fn group_address(&self, add: bool, address: &LinkAddress) -> Result<(), Errno> {
        let Some(group) = self.rings().group else { return Ok(()) };
        let (f, name) = if add { (group.add, "mgi_addmac") } else { (group.remove, "mgi_remmac") };
        let f = f.ok_or(Errno::EINVAL)?;
        let mut place = [0u8; 24];
        place[1..21].copy_from_slice(&address.0);
        let args = (pointer(group.driver), place[1..].as_ptr());
        // SAFETY: as above, with 20 readable bytes.
        let result = Errno::check(unsafe { self.module.enter(f, args, self.control(name)) });
        place.fill(0xef);
        result
    }

    /// Switches a receive ring's interrupt. The caller holds the soft ring set's lock, so the driver must not wait.
    pub(crate) fn switch_interrupt(&self, ring: &Ring, on: bool) {
        let calls = ring.calls();
        let (f, name) = if on { (calls.enable, "mi_enable") } else { (calls.disable, "mi_disable") };
        let Some(f) = f else { return };
        if on {
            // What comes up from inside the call on is legal again, though not from this thread.
            ring.state.lock().quiet = false;
        }
        let kind = match cx().ctx() {
            Ctx::Soft { .. } | Ctx::High { .. } => self.control(name),
            Ctx::User | Ctx::Kernel => EntryKind::callback_in(name, QUIET).in_turn(self.key()),
        };
        self.in_ring_call(|| {
            // SAFETY: mac(9E): the driver's function for its ring's interrupt.
            unsafe { self.module.enter(f, (pointer(calls.interrupt),), kind) }
        });
        if !on {
            let mut state = ring.state.lock();
            state.quiet = true;
            state.late.clear();
        }
    }

    /// Fetches at most so many bytes of packets (`mri_poll`).
    pub(crate) fn poll_ring(&self, messages: &Messages<'_>, ring: &Ring, bytes: usize) -> Vec<Message> {
        let calls = ring.calls();
        let Some(f) = calls.poll else { return Vec::new() };
        let args = (pointer(calls.driver), c_int::try_from(bytes).unwrap_or(c_int::MAX));
        let chain = self.in_ring_call(|| {
            // SAFETY: mac(9E): the driver's function for its ring.
            unsafe { self.module.enter(f, args, self.control("mri_poll").on_packet_path()) }
        });
        let packets = messages.take_back(chain, &self.module, "mri_poll");
        let fetched: usize = packets.iter().map(|packet| messages.size(*packet)).sum();
        Cx::of_entry(Some(&self.module), "mri_poll").check(fetched <= bytes, Rule::RingPoll, || {
            format!("{fetched} bytes came of a poll of receive ring {} for {bytes}", ring.index)
        });
        packets
    }

    /// `mri_tx` of one message.
    pub(super) fn call_ring_tx(&self, ring: &Ring, message: *mut mblk_t) -> *mut mblk_t {
        let calls = ring.calls();
        let Some(f) = calls.send else { return message };
        // SAFETY: as above; the message is the driver's, except for what it returns.
        unsafe { self.module.enter(f, (pointer(calls.driver), message), self.transmission("mri_tx")) }
    }

    /// What is called to send: on a transmit ring, or `mc_tx` where the driver has none.
    pub(crate) fn send_entry(&self, ring: Option<usize>) -> Option<SendEntry> {
        let module = self.module.clone();
        match ring {
            Some(ring) => {
                let calls = self.rings().transmit.get(ring)?.calls();
                Some(SendEntry { module, function: calls.send?, argument: calls.driver })
            }
            None => Some(SendEntry { module, function: self.callbacks().mc_tx?, argument: self.cookie }),
        }
    }

    /// A statistic of a ring (`MAC_STAT_*`), as its kstat has it; 0 for what the driver does not count.
    pub(super) fn call_ring_stat(&self, ring: &Ring, stat: u32) -> u64 {
        let calls = ring.calls();
        let Some(f) = calls.stat else { return 0 };
        let mut value = 0u64;
        let args = (pointer(calls.driver), stat, &raw mut value);
        // SAFETY: mac(9E): the driver's function for its ring, with a place for the value.
        let failed = unsafe { self.module.enter(f, args, self.control("mri_stat")) };
        if failed == 0 { value } else { 0 }
    }

    /// Runs a call from which nothing may come up.
    fn in_ring_call<R>(&self, call: impl FnOnce() -> R) -> R {
        let me = cx().thread().did();
        let outermost = self.ring_calls.lock().insert(me);
        let value = call();
        if outermost {
            self.ring_calls.lock().remove(&me);
        }
        value
    }

    /// An upcall from inside such a call is a deadlock, or would be one day (rule 49).
    pub(super) fn not_in_ring_call(&self, cx: &Cx) {
        let inside = self.ring_calls.lock().contains(&cx.thread().did());
        cx.check(!inside, Rule::RingUpcall, || {
            format!("called by {} from inside a call for one of its rings", self.name)
        });
    }
}

/// Whether a record of registration asks for rings, or for what goes beyond them.
pub(super) fn virtualisation(v12n: u32) -> Result<bool, Errno> {
    const LEVEL1: u32 = 1;
    match v12n {
        0 => Ok(false),
        LEVEL1 => Ok(true),
        // Shares are not imitated: what cannot be honoured is refused where the C framework would ask.
        _ => Err(Errno::EINVAL),
    }
}
