//! What is measured: each row for each driver, the drivers in turn.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::Bench;
use super::bed::{Bed, Subject};
use super::calls::Calls;
use super::traffic::{BURST, Load, Measured, Way, measure, measure_from};

/// Largest number of addresses measured.
const MOST: usize = 65_536;

/// A line of the table: one driver under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub driver: String,
    #[serde(flatten)]
    pub load: Load,
    /// How long the subnet administrator takes to answer, nanoseconds.
    pub sa_delay_ns: u64,
    pub sent: u64,
    /// Counted at the far end for transmit, at the MAC client for receive; all rounds.
    pub arrived: u64,
    pub lost: u64,
    /// The median of the rounds, waiting included.
    pub ns_per_packet: f64,
    /// The same of every round, without the first, a short one that tells how long the others may be.
    pub rounds_ns: Vec<f64>,
    pub packets_per_second: f64,
    /// Kernel calls per packet.
    pub calls: Calls,
    /// The same by name: those made for one packet in a thousand or more.
    pub calls_by_name: BTreeMap<String, f64>,
}

/// The loads, smallest first.
pub fn loads(bench: &Bench) -> Vec<Load> {
    let mut loads = Vec::new();
    for way in [Way::Transmit, Way::Receive] {
        for len in [64, bench.mtu as usize - 4] {
            for addresses in [1, 256, 10_000, MOST] {
                loads.push(Load { way, addresses, flows: 1, len });
            }
        }
        loads.push(Load { way, addresses: 1, flows: 10_000, len: 64 });
    }
    loads.retain(|load| load.addresses <= bench.most_addresses);
    loads
}

/// Every driver under one load.
pub fn row(bed: &Bed, bench: &Bench, load: Load, sa_delay_ns: u64) -> Vec<Row> {
    let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); bed.subjects.len()];
    for subject in &bed.subjects {
        warm_up(bed, subject, load);
    }
    for _ in 0..=bench.rounds {
        for (subject, measured) in bed.subjects.iter().zip(&mut rounds) {
            let packets = budget(bench, measured);
            measured.push(measure(bed, subject, load, packets, bench.chain));
        }
    }
    let named = bed.subjects.iter().zip(rounds);
    named.map(|(subject, rounds)| Row::new(subject.driver.name.clone(), load, sa_delay_ns, &rounds)).collect()
}

/// Paths are found and caches filled, as far as that is done in a few seconds. A driver holds only so many packets whose path it
/// looks for and drops the others, so what was lost is sent again.
fn warm_up(bed: &Bed, subject: &Subject, load: Load) {
    const LONGEST: Duration = Duration::from_secs(4);
    const STEP: usize = 1024;
    let mut spent = Duration::ZERO;
    let needed = if load.way == Way::Transmit { load.addresses } else { 1 };
    for first in (0..needed).step_by(STEP) {
        loop {
            let measured = measure_from(bed, subject, load, STEP as u64, first);
            spent += measured.work;
            if spent > LONGEST {
                return;
            }
            if measured.arrived == measured.sent {
                break;
            }
        }
    }
}

/// As many packets as asked for, unless the round before says that this takes too long.
fn budget(bench: &Bench, before: &[Measured]) -> u64 {
    const LONGEST_NS: f64 = 1e9;
    let Some(last) = before.last() else { return bench.packets.min(4 * BURST as u64) };
    let fits = LONGEST_NS * last.arrived.max(1) as f64 / (last.work.as_nanos() as f64).max(1.0);
    bench.packets.min(fits as u64).max(BURST as u64)
}

impl Row {
    fn new(driver: String, load: Load, sa_delay_ns: u64, rounds: &[Measured]) -> Self {
        let (sent, arrived) = rounds.iter().fold((0, 0), |(s, a), m| (s + m.sent, a + m.arrived));
        let rounds_ns: Vec<f64> = rounds.iter().skip(1).map(Measured::ns_per_packet).collect();
        let ns_per_packet = median(&rounds_ns);
        let last = rounds.last().cloned().unwrap_or_default();
        Self {
            driver,
            load,
            sa_delay_ns,
            sent,
            arrived,
            lost: sent.saturating_sub(arrived),
            ns_per_packet,
            rounds_ns,
            packets_per_second: 1e9 / ns_per_packet,
            calls: last.calls.per(last.arrived),
            calls_by_name: last.by_name(),
        }
    }
}

/// The middle one, or the mean of the two in the middle; not a number if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle.saturating_sub(1)..=middle) {
        Some([below, above]) if sorted.len().is_multiple_of(2) => f64::midpoint(*below, *above),
        Some([.., one]) => *one,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median(&[5.0]), 5.0);
        assert!(median(&[]).is_nan());
    }
}
