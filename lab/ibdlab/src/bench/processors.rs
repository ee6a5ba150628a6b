//! One processor and two: how many packets our driver sends on its transmit rings, with a kernel and an adapter that do next to nothing
//! (`lab-native`).
//!
//! Beside two rings of one link stand two links, of two hosts, which have nothing in common but the driver's text: what those carry
//! is what the machine lets two processors do.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use fakekernel::{Config, Machine};
use lab_gldv3::Packets;
use lab_native::{Done, Lines, Queue, Task, Touched};

use super::bed::{Bed, Subject};
use super::report::{Fact, Report};
use super::rows::median;
use super::traffic::{BURST, PATIENCE, udp};
use super::{Bench, Driver, about_machine, targets};

/// Bytes of an IP packet.
const LEN: usize = 64;
const IPV4: u16 = 0x0800;
/// How often each is measured, at least.
const ROUNDS: u32 = 10;
/// The links, a host each.
const LINKS: [&str; 2] = ["ours", "other"];
const RINGS: u32 = 2;
/// As many packets as a queue holds, or more.
const QUEUE: usize = 4096;
/// Messages of a ring, at least: those of two lie apart.
const MESSAGES: usize = 256;

/// Who sends at the same time: link and ring of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders {
    OneRing,
    TwoRings,
    TwoLinks,
}

impl Senders {
    const ALL: [Self; 3] = [Self::OneRing, Self::TwoRings, Self::TwoLinks];

    const fn places(self) -> &'static [(usize, usize)] {
        match self {
            Self::OneRing => &[(0, 0)],
            Self::TwoRings => &[(0, 0), (0, 1)],
            Self::TwoLinks => &[(0, 0), (1, 0)],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OneRing => "one ring",
            Self::TwoRings => "two rings",
            Self::TwoLinks => "two links",
        }
    }

    /// What the figure is called.
    pub fn what(self, addresses: usize) -> String {
        format!("{LEN} bytes sent by {}, to {addresses} addresses", self.name())
    }
}

/// To how many addresses each ring sends.
pub const ADDRESSES: [usize; 2] = [1, 1000];

impl Bench {
    /// Measures one processor and two alone.
    ///
    /// # Errors
    ///
    /// What is missing, or what went wrong on the way.
    pub fn processors(&self, mut progress: impl FnMut(&str)) -> Result<Report> {
        let mut report = self.on_bed(Self::on_processors)?;
        report.targets = targets::of_processors(&report);
        let others = self.bare_kernel()?;
        report.facts.extend(others.facts);
        report.targets.extend(others.targets);
        report.facts.iter().for_each(|fact| progress(&fact.line()));
        report.targets.iter().for_each(|target| progress(&target.line()));
        Ok(report)
    }

    fn on_processors(&self, bed: &Bed) -> Result<Report> {
        let mut report = Report { seed: self.seed, machine: about_machine(), ..Report::default() };
        for addresses in ADDRESSES {
            let mut queues = queues_of_all(bed, addresses);
            let mut rates = Senders::ALL.map(|_| Vec::new());
            for _ in 0..self.rounds.max(ROUNDS) {
                for (senders, rates) in Senders::ALL.into_iter().zip(&mut rates) {
                    rates.push(self.send_rate(bed, senders, &mut queues)?);
                }
            }
            for (senders, rates) in Senders::ALL.into_iter().zip(&rates) {
                let (what, driver) = (senders.what(addresses), LINKS[0].to_owned());
                let unit = "million packets a second".into();
                report.facts.push(Fact { what, driver, value: median(rates), unit });
            }
        }
        Ok(report)
    }

    /// Millions of packets a second, of all senders together.
    fn send_rate(&self, bed: &Bed, senders: Senders, queues: &mut [Vec<Queue>]) -> Result<f64> {
        let places = senders.places();
        let mut tasks = Vec::new();
        for (link, rings) in queues.iter_mut().enumerate() {
            for (ring, queue) in rings.iter_mut().enumerate() {
                if let Some(processor) = places.iter().position(|place| *place == (link, ring)) {
                    tasks.push(Task { link: &bed.subjects[link].link, ring: Some(ring), queue, processor });
                }
            }
        }
        let done = lab_native::run(&mut tasks, self.packets)?;
        for done in &done {
            ensure!(done.sent.packets == self.packets, "{} of {} arrived", done.sent.packets, self.packets);
        }
        let longest = done.iter().map(|done: &Done| done.took).max().unwrap_or(Duration::MAX);
        Ok(self.packets as f64 * done.len() as f64 / longest.as_secs_f64() / 1e6)
    }
}

/// What each ring of each link sends, once the driver knows the way to all of them and has filled the ring's queue.
fn queues_of_all(bed: &Bed, addresses: usize) -> Vec<Vec<Queue>> {
    let of_ring = |subject: &Subject, ring: u32| {
        let send = |packets| _ = subject.link.send_on(Some(ring as usize), packets, PATIENCE);
        for first in (0..addresses).step_by(BURST) {
            send(packets(bed, subject, addresses, first..addresses.min(first + BURST)));
            fakekernel::idle();
        }
        for _ in 0..QUEUE.div_ceil(addresses) {
            send(packets(bed, subject, addresses, 0..addresses));
        }
        fakekernel::idle();
        Queue::new(packets(bed, subject, addresses, 0..addresses.max(MESSAGES)))
    };
    let of_link = |subject| (0..RINGS).map(|ring| of_ring(subject, ring)).collect();
    bed.subjects.iter().map(of_link).collect()
}

fn packets(bed: &Bed, subject: &Subject, all: usize, which: std::ops::Range<usize>) -> Packets {
    let mut packets = subject.link.packets();
    which.for_each(|n| packets.push(bed.address(n % all), IPV4, &udp(LEN)));
    packets
}
/// A cache line that one ring writes and another one touches, for each of them how often.
pub type Shared = (usize, Touched, Touched);

impl Bench {
    /// The lines that one ring writes for at least one packet in sixteen and another ring of the link touches as often: an interrupt that finds
    /// all sends done, one in 32 packets here, has the next packet count its neighbour's handle anew, which is not meant. With the objects of
    /// `kmod build --races`, which tell; the driver's stack, what it copies into and the adapter's memory are left out.
    ///
    /// # Errors
    ///
    /// What is missing, or that the objects do not tell.
    pub fn lines_of_two_rings(&self) -> Result<Vec<Shared>> {
        self.on_bed(|bench, bed| {
            let mut queues = queues_of_all(bed, 1);
            let link = &bed.subjects[0].link;
            let task = |(ring, queue)| Task { link, ring: Some(ring), queue, processor: ring };
            // Both at once: what the first has to itself would be the second's if that began when it is over.
            let mut tasks: Vec<_> = queues[0].iter_mut().enumerate().map(task).collect();
            let done = lab_native::run(&mut tasks, bench.packets)?;
            let lines: Vec<_> = done.into_iter().map(|done| done.lines).collect();
            let often = bench.packets / 16;
            ensure!(lines.iter().all(|lines| lines.len() > 5), "the objects do not tell what they touch");
            let written = |one: &Lines, other: &Lines| -> Vec<Shared> {
                let often_written = one.iter().filter(|(_, touched)| touched.written >= often);
                let both =
                    often_written.filter_map(|(line, touched)| Some((*line, *touched, *other.get(line)?)));
                both.filter(|(.., other)| other.read + other.written >= often).collect()
            };
            Ok([written(&lines[0], &lines[1]), written(&lines[1], &lines[0])].concat())
        })
    }

    /// With two links of ours, which have rings, on a thread of their machine.
    fn on_bed<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Self, &Bed) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let machine = Machine::new(Config::timed(self.seed));
        let (inner, bench) = (machine.clone(), self.clone());
        let outcome = machine.run(move || {
            let drivers = LINKS.map(|name| Driver { name: name.into(), rings: RINGS, ..Driver::ours() });
            let bed = Bed::build(&inner, &drivers, &bench.proto, bench.seed, bench.mtu)?;
            f(&bench, &bed)
        });
        outcome.map_err(|halt| anyhow!("{halt}"))?
    }
}
