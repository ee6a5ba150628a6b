//! Drivers side by side on one processor, with a kernel and an adapter that do next to nothing (`lab-native`): what is left is their own.

use anyhow::{Result, anyhow, ensure};
use fakekernel::{Config, Machine};
use lab_native::{Incoming, Queue, Task};

use super::bed::{Bed, Subject};
use super::report::{Fact, Report};
use super::rows::median;
use super::traffic::{BURST, PATIENCE, udp};
use super::{Bench, about_machine, targets};

const IPV4: u16 = 0x0800;
/// How often each is measured, at least.
const ROUNDS: u32 = 10;
/// Messages to send, in turn.
const MESSAGES: usize = 256;
/// Packets that a link sends before it is measured: more than a queue holds.
const BEFORE: usize = 4096;
/// Datagrams of an interrupt.
const AT_ONCE: usize = 64;
/// Messages, and blocks for what is lent: more than are up at once.
const UP: usize = 512;

/// Addresses, of which illumos's C driver knows 256.
const IN_TURN: usize = 10_000;
/// The thread of that driver that asks for paths.
const ASKS_FOR_PATHS: &str = "ibd_async_work";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Packets of so many bytes, to one address, one a call.
    Sent(usize),
    /// Packets of so many bytes, `AT_ONCE` an interrupt.
    Received(usize),
    /// Packets of 64 bytes to `IN_TURN` addresses in turn, one a call; who asks for a path has it at once.
    InTurn,
}

impl Path {
    pub const ALL: [Self; 5] =
        [Self::Sent(64), Self::Sent(2044), Self::Received(64), Self::Received(2044), Self::InTurn];

    /// What the figure is called.
    pub fn what(self) -> String {
        match self {
            Self::Sent(len) => format!("{len} bytes sent, bare kernel"),
            Self::Received(len) => format!("{len} bytes received, bare kernel"),
            Self::InTurn => format!("64 bytes sent to {IN_TURN} addresses in turn, bare kernel"),
        }
    }
}

/// One driver's link, with what it sends.
struct Side<'a> {
    subject: &'a Subject,
    queues: Vec<(Path, Queue)>,
}

impl Bench {
    /// Measures our driver, and the peer if there is one, on one processor, with a kernel and an adapter that do next to nothing.
    ///
    /// # Errors
    ///
    /// What is missing, or what went wrong on the way: a packet that does not arrive is such a thing.
    pub fn bare_kernel(&self) -> Result<Report> {
        let drivers = self.drivers()?;
        let machine = Machine::new(Config::timed(self.seed));
        let (inner, bench, subjects) = (machine.clone(), self.clone(), drivers.clone());
        let outcome = machine.run(move || {
            let bed = Bed::build(&inner, &subjects, &bench.proto, bench.seed, bench.mtu)?;
            bench.paths_of_all(&bed)
        });
        let facts = outcome.map_err(|halt| anyhow!("{halt}"))??;
        let mut report = Report { seed: self.seed, machine: about_machine(), facts, ..Report::default() };
        report.targets = targets::on_bare_kernel(&report, &drivers);
        Ok(report)
    }

    fn paths_of_all(&self, bed: &Bed) -> Result<Vec<Fact>> {
        let mut sides: Vec<_> = bed.subjects.iter().map(|subject| side(bed, subject)).collect();
        let mut facts = Vec::new();
        for path in Path::ALL {
            let mut rates = vec![Vec::new(); sides.len()];
            // The first round fills caches.
            for _ in 0..=self.rounds.max(ROUNDS) {
                for (side, rates) in sides.iter_mut().zip(&mut rates) {
                    rates.push(self.rate_of(bed, side, path)?);
                }
            }
            for (side, rates) in sides.iter().zip(&rates) {
                let (what, driver) = (path.what(), side.subject.driver.name.clone());
                let unit = "million packets a second".into();
                facts.push(Fact { what, driver, value: median(&rates[1..]), unit });
            }
        }
        Ok(facts)
    }

    /// Millions of packets for each second of the processor.
    fn rate_of(&self, bed: &Bed, side: &mut Side<'_>, path: Path) -> Result<f64> {
        let link = &side.subject.link;
        match path {
            Path::Sent(_) | Path::InTurn => {
                let queue = side.queues.iter_mut().find(|(of, _)| *of == path).map(|(_, queue)| queue);
                let queue = queue.ok_or_else(|| anyhow!("nothing for {}", path.what()))?;
                let packets = self.packets.min(path.most(side.subject));
                let done = lab_native::run(&mut [Task { link, ring: None, queue, processor: 0 }], packets)?;
                let worked: f64 = done.iter().map(|done| done.worked.as_secs_f64()).sum();
                Ok(packets as f64 / worked / 1e6)
            }
            Path::Received(len) => {
                let mut load = incoming(bed, side.subject, len);
                let (received, worked) = lab_native::receive(link, &mut load, self.packets, 0)?;
                let octets = received.packets * (len + 44) as u64;
                ensure!(received.octets == octets, "{} octets came up, not {octets}", received.octets);
                Ok(received.packets as f64 / worked.as_secs_f64() / 1e6)
            }
        }
    }
}

impl Path {
    /// Packets of a round, at most: a question for each takes its time.
    fn most(self, subject: &Subject) -> u64 {
        if self == Self::InTurn && subject.driver.foreign { 100_000 } else { u64::MAX }
    }
}

/// The link knows the way, and has sent so many packets that whatever it makes for the first ones is made.
fn side<'a>(bed: &Bed, subject: &'a Subject) -> Side<'a> {
    let queue = |path| {
        let (len, addresses) = match path {
            Path::Sent(len) => (len, 1),
            Path::InTurn => (64, IN_TURN),
            Path::Received(_) => return None,
        };
        // Who asks for each anew learns nothing.
        let learns = if subject.driver.foreign { 1 } else { addresses };
        for first in (0..learns.max(BEFORE)).step_by(BURST) {
            let mut packets = subject.link.packets();
            (0..BURST).for_each(|n| packets.push(bed.address((first + n) % learns), IPV4, &udp(len)));
            subject.link.send_on(None, packets, PATIENCE);
            fakekernel::idle();
        }
        let queue = Queue::new(packets(bed, subject, len, MESSAGES));
        let thread = subject.driver.foreign.then_some(ASKS_FOR_PATHS);
        let to: Vec<_> = (0..addresses).map(|n| bed.address(n)).collect();
        Some((path, if addresses > 1 { queue.to(&to, thread) } else { queue }))
    };
    Side { subject, queues: Path::ALL.into_iter().filter_map(queue).collect() }
}

fn packets(bed: &Bed, subject: &Subject, len: usize, count: usize) -> lab_gldv3::Packets {
    let mut packets = subject.link.packets();
    (0..count).for_each(|_| packets.push(bed.address(0), IPV4, &udp(len)));
    packets
}

fn incoming(bed: &Bed, subject: &Subject, len: usize) -> Incoming {
    let mut datagram = vec![(IPV4 >> 8) as u8, IPV4 as u8, 0, 0];
    datagram.extend(udp(len));
    let mut shells = subject.link.packets();
    (0..UP).for_each(|_| shells.push(bed.address(0), IPV4, &[]));
    Incoming { datagram, at_once: AT_ONCE, packets: packets(bed, subject, len, UP), shells }
}
