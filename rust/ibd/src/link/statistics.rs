//! The kstats of a link, beside those that GLDv3 has: `datagram` (all that is counted), `port` (where the link is and what it stands on),
//! `paths`, `groups`, and one for each ring.
//!
//! Whoever reads pays: what is not a counter is looked up under the machines' lock, or the ring's, when somebody asks. The longest time
//! that a reader holds one of them is a look at every place for a group. They live from attach to detach.

use core::ffi::CStr;
use core::fmt::Write;

use ibtf::Refills;
use ipoib::Mtu;
use kernel::counter::Gauge;
use kernel::kstat::{Kstat, Source};
use kernel::log::Line;
use kernel::{Errno, KArc, KBox, KVec, MayBlock};

use super::Shared;
use super::transmit::Transmitter;
use crate::counters::{Counters, HISTORY, RX_RING, Shown, TX_RING, names};

/// Class of all of them, as of every network interface's.
const CLASS: &CStr = c"net";

/// What is published; gone when it is dropped. **May block.**
pub(super) struct Statistics {
    _datagram: Kstat<Counters>,
    _port: Kstat<Port>,
    _paths: Kstat<Paths>,
    _groups: Kstat<Groups>,
    _receive: Kstat<ReceiveRing>,
    _transmit: KVec<Kstat<TransmitRing>>,
}

impl Statistics {
    /// Under the driver's name and the number of the link. **May block.**
    #[inline(never)]
    pub(super) fn publish(shared: &KArc<Shared>, may_block: &MayBlock) -> Result<KBox<Self>, Errno> {
        let paths = Paths { shared: shared.clone(), hits: Gauge::default() };
        let mut transmit = KVec::with_capacity_waiting(shared.transmitters.len(), may_block);
        for (ring, transmitter) in shared.transmitters.iter().enumerate() {
            let source = KArc::new_waiting(TransmitRing(transmitter.clone()), may_block);
            let kstat = publish(shared, name("tx_ring_", ring).as_c_str(), source)?;
            transmit.push_waiting(kstat, may_block);
        }
        let statistics = Self {
            _datagram: publish(shared, c"datagram", shared.counters.clone())?,
            _port: publish(shared, c"port", KArc::new_waiting(Port(shared.clone()), may_block))?,
            _paths: publish(shared, c"paths", KArc::new_waiting(paths, may_block))?,
            _groups: publish(shared, c"groups", KArc::new_waiting(Groups(shared.clone()), may_block))?,
            _receive: publish(
                shared,
                c"rx_ring_0",
                KArc::new_waiting(ReceiveRing(shared.clone()), may_block),
            )?,
            _transmit: transmit,
        };
        Ok(KBox::new_waiting(statistics, may_block))
    }
}

#[inline(never)]
fn publish<S: Source>(shared: &Shared, name: &CStr, source: KArc<S>) -> Result<Kstat<S>, Errno> {
    Kstat::new(shared.dip.driver_name(), shared.number, name, CLASS, source)
}

fn name(kind: &str, ring: usize) -> Line<16> {
    let mut name = Line::new();
    // Eight rings at most: it fits.
    let _ = write!(name, "{kind}{ring}");
    name
}

/// `tx_ring_N`: what one transmit ring sent and dropped, and how full it is.
struct TransmitRing(KArc<Transmitter>);

impl Source for TransmitRing {
    const NAMES: &'static [&'static CStr] =
        &names::<{ TX_RING.len() + 3 }>(&[&TX_RING, &[c"room", c"outstanding", c"qpn"]]);

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        self.0.show(&mut Shown::new(values));
    }
}

/// `rx_ring_0`: what the receive side took and dropped, and how many buffers the adapter has.
struct ReceiveRing(KArc<Shared>);

impl Source for ReceiveRing {
    const NAMES: &'static [&'static CStr] = &names::<{ RX_RING.len() + 1 }>(&[&RX_RING, &[c"posted"]]);

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let mut shown = Shown::new(values);
        let receiver = self.0.delivery.receiver();
        let rx = &self.0.counters.rx;
        let none = || (0, rx.refills(Refills::default()));
        let (posted, refills) = receiver.map_or_else(none, |receiver| receiver.posted());
        rx.show(&mut shown, refills);
        shown.put([posted.into()]);
    }
}

/// `port`: the port, the partition, the broadcast group and the queue pair, as they are known last. 0 is what is not known.
struct Port(KArc<Shared>);

impl Source for Port {
    const NAMES: &'static [&'static CStr] = &names::<{ 14 + HISTORY.len() }>(&[
        &[
            c"port",
            c"port_active",
            c"port_mtu",
            c"lid",
            c"sm_lid",
            c"pkey",
            c"pkey_index",
            c"group_joined",
            c"group_mlid",
            c"group_mtu",
            c"group_rate",
            c"group_sl",
            c"qpn",
        ],
        &HISTORY,
        &[c"frees_refused"],
    ]);

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let Self(shared) = self;
        let control = shared.control.lock();
        let port = control.link.port().copied();
        let group = control.link.broadcast_group().copied();
        let qpn = control.link.address().map_or(0, |address| address.qpn().get());
        drop(control);
        let mut shown = Shown::new(values);
        let bytes = |mtu: Mtu| u64::from(mtu.bytes());
        shown.put([shared.node.port.into(), port.is_some_and(|port| port.active).into()]);
        shown.put([port.map_or(0, |port| bytes(port.mtu))]);
        shown.put(
            [port.map_or(0, |port| port.lid), port.map_or(0, |port| port.sm_lid), shared.pkey.get()]
                .map(u64::from),
        );
        shown.put([port.and_then(|port| port.pkey_index).unwrap_or(0).into(), group.is_some().into()]);
        shown.put([
            group.map_or(0, |group| group.mlid.get().into()),
            group.map_or(0, |group| bytes(group.mtu)),
        ]);
        shown.put([group.and_then(|group| group.rate).map_or(0, |rate| rate.bits_per_second())]);
        shown.put([group.map_or(0, |group| group.sl.into()), qpn.into()]);
        shared.counters.history.show(&mut shown);
        // Of the module: whose object it was is not known.
        shown.put([ibtf::refused_frees()]);
    }
}

/// `paths`: the table of addresses.
struct Paths {
    shared: KArc<Shared>,
    /// The most hits that were ever read. A packet that was asked for and then not sent makes them fewer, and a count must not go back.
    hits: Gauge,
}

impl Source for Paths {
    const NAMES: &'static [&'static CStr] = &[
        c"entries",
        c"capacity",
        c"hits",
        c"misses",
        c"ready",
        c"denied",
        c"waited",
        c"waiting",
        c"evicted",
        c"lookups_out",
        c"found",
        c"failed",
        c"no_handle",
        c"answers",
    ];

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let Self { shared, hits } = self;
        let sends = shared.counters.sends();
        let control = shared.control.lock();
        let paths = &control.paths;
        let (entries, capacity) = (paths.len() as u64, paths.capacity() as u64);
        let (waiting, out) = (paths.packets_held() as u64, paths.lookups_in_flight() as u64);
        let answers = paths.answers_held() as u64;
        let counts = *paths.counts();
        drop(control);
        // What was sent and had not to be asked for.
        let sent = sends.saturating_sub(counts.ready + counts.waited);
        let hits = hits.raise(sent);
        let mut shown = Shown::new(values);
        shown.put([
            entries,
            capacity,
            hits,
            counts.asked,
            counts.ready,
            counts.denied,
            counts.waited,
            waiting,
        ]);
        shown.put([counts.evicted, out, counts.found, counts.failed, counts.no_handle, answers]);
    }
}

/// `groups`: memberships, but for the broadcast group's, which is in `port`.
struct Groups(KArc<Shared>);

impl Source for Groups {
    const NAMES: &'static [&'static CStr] = &[
        c"entries",
        c"capacity",
        c"wanted",
        c"joined",
        c"send_only",
        c"stale",
        c"out",
        c"retrying",
        c"gave_way",
        c"no_room",
        c"missed",
    ];

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let control = self.0.control.lock();
        let (counts, capacity) = (control.groups.counts(), control.groups.capacity() as u64);
        drop(control);
        let mut shown = Shown::new(values);
        shown.put([counts.known, capacity, counts.wanted, counts.heard]);
        shown.put([counts.send_only, counts.stale, counts.out, counts.retrying]);
        shown.put([counts.gave_way, counts.no_room, counts.missed]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kstat_create(9F)` keeps 30 characters of a name, and a name that is there twice cannot be asked for.
    #[test]
    fn every_name_fits_and_is_there_once() {
        for names in [
            Counters::NAMES,
            Port::NAMES,
            Paths::NAMES,
            Groups::NAMES,
            ReceiveRing::NAMES,
            TransmitRing::NAMES,
        ] {
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(different.len(), names.len());
            assert!(names.iter().all(|name| name.count_bytes() <= 30));
        }
        assert_eq!(name("tx_ring_", 7).as_c_str(), c"tx_ring_7");
    }
}
