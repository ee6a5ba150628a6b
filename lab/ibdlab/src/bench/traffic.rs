//! One measurement: packets one way, counted where they arrive. Only the driver's share is timed: messages to send are made, and
//! datagrams to receive are placed by the adapter, while the clock stands.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clap::ValueEnum;
use fakekernel::{Machine, Nanos};
use lab_gldv3::{BareDriver, LinkAddress, Packets};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::Bench;
use super::bed::{Bed, Subject};
use super::calls::{self, Calls};
use super::report::Bare;
use super::rows::median;

const IPV4: u16 = 0x0800;
/// Packets of a burst, if nobody says otherwise.
pub const BURST: usize = 256;
/// A driver that says nothing for so long has forgotten the packets it gave back.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(5);

/// Which way, seen from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Transmit,
    Receive,
}

impl Way {
    /// As in the table and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transmit => "transmit",
            Self::Receive => "receive",
        }
    }
}

/// What goes over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    pub way: Way,
    /// Link addresses, in turn.
    pub addresses: usize,
    /// UDP flows, in turn.
    pub flows: usize,
    /// Bytes of an IP packet.
    pub len: usize,
}

/// How packets are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handing {
    /// Packets sent, or received, before everything they set off is waited for.
    pub burst: usize,
    /// Packets in one call of `mc_tx`.
    pub chain: usize,
}

impl Default for Handing {
    /// As `mac` does it.
    fn default() -> Self {
        Self { burst: BURST, chain: 1 }
    }
}

/// What a measurement found.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub sent: u64,
    /// At the far end, or at the MAC client.
    pub arrived: u64,
    /// Of the processor, in all threads.
    pub work: Duration,
    /// Waiting, on the lab's clock.
    pub waited: Duration,
    /// Kernel calls of the driver.
    pub calls: Calls,
    /// The same by name.
    pub named: BTreeMap<String, u64>,
}

impl Measured {
    /// Kernel calls per packet, by name.
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let per = |calls: u64| calls as f64 / self.arrived.max(1) as f64;
        let all = self.named.iter().map(|(name, calls)| (name.clone(), per(*calls)));
        all.filter(|(_, calls)| *calls >= 0.001).collect()
    }

    pub fn ns_per_packet(&self) -> f64 {
        (self.work + self.waited).as_nanos() as f64 / self.arrived.max(1) as f64
    }
}

/// Puts `packets` on the link, so many to send in a call.
pub fn measure(bed: &Bed, subject: &Subject, load: Load, packets: u64, chain: usize) -> Measured {
    let handing = Handing { chain, ..Handing::default() };
    measure_source(bed, subject, Source { handing, ..Source::new(bed, load) }, packets)
}

/// What a program watches.
pub struct Watched {
    pub load: Load,
    pub handing: Handing,
    /// Packets to send, or to receive.
    pub packets: u64,
    /// To send: packets that are made before the first is sent. Those that are left over stay until the process ends.
    pub made: u64,
    /// The bare loop sends them, in the driver's place.
    pub bare: Option<BareDriver>,
}

/// As [`measure`], with packets handed over in another way.
pub fn measure_watched(bed: &Bed, subject: &Subject, watched: &Watched) -> Measured {
    let (load, handing) = (watched.load, watched.handing);
    let mut source = Source { handing, bare: watched.bare.clone(), ..Source::new(bed, load) };
    source.make(subject, watched.made);
    measure_source(bed, subject, source, watched.packets)
}

/// As [`measure`], one packet a call, beginning with another address than the first.
pub fn measure_from(bed: &Bed, subject: &Subject, load: Load, packets: u64, first: usize) -> Measured {
    measure_source(bed, subject, Source { next: first, ..Source::new(bed, load) }, packets)
}

fn measure_source(bed: &Bed, subject: &Subject, mut source: Source, packets: u64) -> Measured {
    let load = source.load;
    fakekernel::idle();
    let mut clock = Clock::new(&bed.machine);
    let (calls, named) = (Calls::of(subject), calls::named(subject));
    let before = arrived(subject, load.way);
    let mut sent = 0;
    while sent < packets {
        match load.way {
            Way::Transmit => source.transmit(subject, &mut clock),
            Way::Receive => source.receive(bed, subject, &mut clock),
        }
        sent += source.handing.burst as u64;
    }
    clock.run(|| settle(sent, || arrived(subject, load.way) - before));
    source.made.into_iter().for_each(Packets::leave);
    Measured {
        sent,
        arrived: arrived(subject, load.way) - before,
        work: clock.work,
        waited: clock.waited,
        calls: Calls::of(subject).since(&calls),
        named: calls::named(subject)
            .into_iter()
            .map(|(name, n)| (name.clone(), n - named.get(&name).unwrap_or(&0)))
            .collect(),
    }
}

fn arrived(subject: &Subject, way: Way) -> u64 {
    match way {
        Way::Transmit => subject.far.arrivals().packets,
        Way::Receive => subject.link.received().0,
    }
}

/// Where packets come from.
struct Source {
    load: Load,
    handing: Handing,
    to: Vec<LinkAddress>,
    payload: Vec<u8>,
    next: usize,
    /// Bursts that are ready.
    made: VecDeque<Packets>,
    bare: Option<BareDriver>,
}

impl Source {
    fn new(bed: &Bed, load: Load) -> Self {
        let to = match load.way {
            Way::Transmit => (0..load.addresses).map(|n| bed.address(n)).collect(),
            Way::Receive => Vec::new(),
        };
        let (handing, payload) = (Handing::default(), udp(load.len));
        Self { load, handing, to, payload, next: 0, made: VecDeque::new(), bare: None }
    }

    /// So many packets, in bursts.
    fn make(&mut self, subject: &Subject, packets: u64) {
        for _ in 0..packets.div_ceil(self.handing.burst as u64) {
            let burst = self.packets(subject);
            self.made.push_back(burst);
        }
    }

    /// One burst.
    fn transmit(&mut self, subject: &Subject, clock: &mut Clock) {
        let packets = self.made.pop_front().unwrap_or_else(|| self.packets(subject));
        clock.run(|| {
            subject.link.send_chains(packets, self.bare.as_ref(), self.handing.chain, PATIENCE);
            fakekernel::idle();
        });
    }

    fn packets(&mut self, subject: &Subject) -> Packets {
        let mut packets = subject.link.packets();
        for _ in 0..self.handing.burst {
            let flow = self.flow();
            self.payload[20..22].copy_from_slice(&flow.to_be_bytes());
            packets.push(self.to[self.next % self.to.len()], IPV4, &self.payload);
            self.next += 1;
        }
        packets
    }

    /// One burst.
    fn receive(&mut self, bed: &Bed, subject: &Subject, clock: &mut Clock) {
        let mut message = vec![(IPV4 >> 8) as u8, IPV4 as u8, 0, 0];
        message.extend(&self.payload);
        for _ in 0..self.handing.burst {
            let flow = self.flow();
            message[24..26].copy_from_slice(&flow.to_be_bytes());
            // What finds no buffer is missing at the client.
            let _ = subject.near.give(&bed.datagram(subject, self.next % self.load.addresses, &message));
            self.next += 1;
        }
        clock.run(fakekernel::idle);
    }

    /// Source port of the next packet.
    fn flow(&self) -> u16 {
        (1024 + self.next % self.load.flows) as u16
    }
}

/// The bare loop: the median of as many rounds as a row has, after one that does not count.
pub fn bare(bed: &Bed, subject: &Subject, len: usize, bench: &Bench, driver: &BareDriver) -> Bare {
    let load = Load { way: Way::Transmit, addresses: 1, flows: 1, len };
    let mut found = Bare { len, ns_per_packet: f64::NAN, sent: 0, arrived: 0 };
    let mut rounds_ns = Vec::new();
    for _ in 0..=bench.rounds {
        let source = Source { bare: Some(driver.clone()), ..Source::new(bed, load) };
        let round = measure_source(bed, subject, source, bench.packets);
        rounds_ns.push(round.ns_per_packet());
        found.sent += round.sent;
        found.arrived += round.arrived;
    }
    found.ns_per_packet = median(&rounds_ns[1..]);
    found
}

/// Waits for what is still under way.
fn settle(sent: u64, arrived: impl Fn() -> u64) {
    let mut last = arrived();
    while last < sent {
        fakekernel::sleep(PATIENCE);
        let now = arrived();
        if now == last {
            return;
        }
        last = now;
    }
}

/// An IPv4 header and UDP's, as far as anybody looks at them.
pub(super) fn udp(len: usize) -> Vec<u8> {
    let mut payload = vec![0; len];
    (payload[0], payload[8], payload[9]) = (0x45, 64, 17);
    payload[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    payload
}

/// Runs when told to.
pub struct Clock {
    machine: Machine,
    pub work: Duration,
    pub waited: Duration,
}

impl Clock {
    pub fn new(machine: &Machine) -> Self {
        Self { machine: machine.clone(), work: Duration::ZERO, waited: Duration::ZERO }
    }

    pub fn run<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let (work, skipped) = (processor_time(), self.machine.skipped());
        let value = f();
        self.work += processor_time() - work;
        self.waited += Duration::from_nanos(self.machine.skipped().since(skipped).0);
        value
    }
}

/// Of this process, all threads.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
