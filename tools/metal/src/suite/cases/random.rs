//! Trouble at random, for as long as is wished, under echoes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::adapter::{as_many_objects, objects};
use super::ip::answers;
use crate::suite::bench::{Bench, Event, Sizes};
use crate::suite::report::Findings;

/// Echoes of a round: one every 20 ms, for ten seconds.
const ECHOES: u32 = 500;
/// A P_Key that no link has, and its place in the tables.
const SPARE: [u64; 2] = [5, 0x8005];
/// Begins every run in the same way.
const SEED: u64 = 0x5eed_0001;

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Cables, P_Keys, LIDs, managers and queues, whatever comes: when it is over everything is as before.
#[expect(clippy::disallowed_methods, reason = "a machine in QEMU lives in real time")]
pub fn trouble(bench: &mut Bench) -> Result<Findings> {
    let before = objects(bench)?;
    let (mut random, mut counts) = (Random(SEED), BTreeMap::new());
    let (mut sent, mut answered) = (0, 0);
    let end = Instant::now() + Duration::from_secs(bench.trouble);
    while Instant::now() < end {
        let from = random.below(2) as usize;
        let (name, to) = (bench.sides[from].name, bench.sides[1 - from].address);
        let pinging = bench.begin(name, &format!("ping-paced {to} 56 {ECHOES} 20"))?;
        for _ in 0..4 + random.below(8) {
            let what = one(bench, &mut random)?;
            *counts.entry(what).or_insert(0_u64) += 1;
            bench.pause(random.below(1200))?;
        }
        let told = bench.end(pinging, Duration::from_secs(120))?;
        sent += Bench::number(&told, "sent")?;
        answered += Bench::number(&told, "answered")?;
    }
    calm(bench)?;
    for from in 0..2 {
        answers(bench, from, 60_000).context("when it was over")?;
        bench.all_answered(from, 4, Sizes::one(1000, 20))?;
        bench.all_answered(from, 6, Sizes::one(1000, 20))?;
    }
    as_many_objects(bench, before)?;
    let events: u64 = counts.values().sum();
    let said: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let text =
        format!("{events} events in {} s; {answered} of {sent} echoes answered meanwhile", bench.trouble);
    Ok(Findings::new(text).and(said.join(", ")).fact("events", events).fact("answered", answered))
}

/// Something happens to a port; what lasts is over when this returns.
fn one(bench: &mut Bench, random: &mut Random) -> Result<&'static str> {
    let port = 1 + random.below(2);
    let [index, spare] = SPARE;
    let what = random.below(8);
    match what {
        0 => {
            bench.event(Event::PortDown, &[port])?;
            bench.pause(random.below(800))?;
            bench.event(Event::PortUp, &[port])?;
        }
        1 => drop(bench.event(Event::SetPkey, &[port, index, if random.below(2) == 0 { 0 } else { spare }])?),
        2 => drop(bench.event(Event::MoveManager, &[port, 0x60 + random.below(0x40)])?),
        3 => {
            bench.event(Event::SilenceSa, &[port, 1])?;
            bench.pause(random.below(1500))?;
            bench.event(Event::SilenceSa, &[port, 0])?;
        }
        // Those of one port are even, so that nobody has it.
        4 => drop(bench.event(Event::SetLid, &[port, 0x200 + 2 * random.below(0x80) + port])?),
        5 => drop(bench.event(Event::FailQps, &[port])?),
        6 => drop(bench.event(Event::FailCqs, &[port])?),
        _ => drop(
            bench.event(Event::Notice, &[64 + random.below(4), 0xfe80 << 48, 0x9900 + random.below(9)])?,
        ),
    }
    Ok(["flaps", "P_Keys", "managers", "silences", "LIDs", "failed queue pairs", "failed CQs", "notices"]
        .get(what as usize)
        .copied()
        .unwrap_or_default())
}

/// As it was.
fn calm(bench: &mut Bench) -> Result<()> {
    for port in 1..=2 {
        bench.event(Event::SilenceSa, &[port, 0])?;
        bench.event(Event::PortUp, &[port])?;
        bench.event(Event::SetPkey, &[port, SPARE[0], 0])?;
        bench.event(Event::SetLid, &[port, 0x300 + port])?;
    }
    Ok(())
}
