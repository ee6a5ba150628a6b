//! From loading to unloading, and what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::ip::{answers_in, end_zone, make_zone, plumb, unplumb};
use super::link::{delete_links, make_links, walk};
use crate::suite::bench::{Bench, Sizes};
use crate::suite::report::Findings;

/// Under traffic the driver does not unload and nothing is lost; with its links gone it unloads, loads, and carries traffic.
pub fn unload(bench: &mut Bench) -> Result<Findings> {
    let driver = bench.identity.name();
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 50 20"))?;
    let refusal = bench.refused("0", &format!("unload {driver}"))?;
    let answer = bench.end(pinging, Duration::from_secs(60))?;
    ensure!(
        answer.get("answered") == answer.get("sent"),
        "echoes were lost while unloading was refused: {}",
        answer.text
    );
    take_down(bench)?;
    unload_modules(bench)?;
    build_up(bench)?;
    bench.all_answered(0, 4, Sizes::one(1000, 20))?;
    Ok(Findings::new(format!("under traffic refused ({refusal}); without links done, and done again")))
}

/// No interface, no zone, no link.
pub fn take_down(bench: &mut Bench) -> Result<()> {
    for side in 0..2 {
        unplumb(bench, side)?;
    }
    for side in 0..2 {
        end_zone(bench, side)?;
    }
    delete_links(bench)
}

/// From a module on disk to two zones that reach each other.
pub fn build_up(bench: &mut Bench) -> Result<[u64; 2]> {
    let driver = bench.identity.name();
    bench.must("0", &format!("load drv/{driver}"))?;
    walk(bench)?;
    make_links(bench)?;
    for side in 0..2 {
        make_zone(bench, side)?;
        plumb(bench, side)?;
    }
    // Milliseconds until the first echo of each family is answered.
    let first = [answers_in(bench, 0, 4, 20_000)?, answers_in(bench, 1, 6, 20_000)?];
    answers_in(bench, 1, 4, 20_000)?;
    Ok(first)
}

/// Driver and plugin are gone.
pub fn unload_modules(bench: &mut Bench) -> Result<()> {
    for module in [bench.identity.name(), "mac_ib"] {
        // Closed streams are taken down by a thread of the kernel's; a module is in use until then.
        let mut last = None;
        for _ in 0..50 {
            match bench.ask("0", &format!("unload {module}"))? {
                Ok(_) => break,
                Err(refusal) => last = Some(refusal),
            }
            bench.pause(100)?;
        }
        ensure!(!bench.is_loaded(module)?, "{module} does not unload: {last:?}");
    }
    Ok(())
}

/// What the kernel's allocators hold, by name.
type Memory = BTreeMap<String, i64>;

/// What they hold, and when that was, in nanoseconds since the start.
fn memory(bench: &mut Bench) -> Result<(Memory, u64)> {
    let answer = bench.must("0", "memory")?;
    let at = answer.number("at").context("the list of caches was cut")?;
    let held = answer.pairs().filter(|(name, _)| name.contains('/'));
    let held = held.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    Ok((held, at))
}

/// Who allocated what these caches and arenas hold more than at that time: a line for each stack.
fn owners(bench: &Bench, grown: &[(String, i64)], since: u64) -> Result<Vec<String>> {
    let names: BTreeSet<String> = grown.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(Vec::new()) } else { bench.debugger.owners(&names, since) }
}

/// Caches and arenas that hold more than before.
fn grown(before: &Memory, after: &Memory) -> Vec<(String, i64)> {
    let more = |(name, now): (&String, &i64)| {
        let difference = now - before.get(name).copied().unwrap_or(0);
        (difference > 0).then(|| (name.clone(), difference))
    };
    after.iter().filter_map(more).collect()
}

/// What the kernel keeps of each zone that was there, with the C driver as with ours: a statistic nobody deletes and its list.
const KEPT_OF_A_ZONE: [(&str, i64); 2] = [("arena/kstat", 3760), ("cache/kmem_alloc_320", 1)];

/// A line of the log is kept as a message of these two blocks.
const LOG_LINE: [&str; 2] = ["cache/streams_dblk_80", "cache/streams_dblk_208"];

/// What moves with the load and not with a driver: memory of the allocators for themselves, page tables, timers, cached files.
const OF_THE_KERNEL: [&str; 12] = [
    "arena/heap",
    "arena/kmem_",
    "arena/vmem_",
    "arena/hat_",
    "arena/segkp",
    "cache/kmem_bufctl",
    "cache/kmem_magazine_",
    "cache/kmem_slab_cache",
    "cache/kmem_va_",
    "cache/callout_",
    "cache/htable_t",
    "cache/vn_cache",
];

/// What has grown by as much as one of something for each of `cycles`, and is not the kernel's own affair.
fn leaks(before: &Memory, after: &Memory, cycles: i64) -> Vec<(String, i64)> {
    unexplained(before, after, cycles).into_iter().filter(|(_, difference)| *difference >= cycles).collect()
}

/// What has grown at all, and is not the kernel's own affair.
fn unexplained(before: &Memory, after: &Memory, cycles: i64) -> Vec<(String, i64)> {
    let more: Memory = grown(before, after).into_iter().collect();
    let of = |name: &str| more.get(name).copied().unwrap_or(0);
    let [first, second] = LOG_LINE.map(of);
    let lines = first.min(second);
    let explained = |name: &str| {
        let zones =
            KEPT_OF_A_ZONE.iter().find(|(kept, _)| *kept == name).map_or(0, |(_, each)| each * 2 * cycles);
        let log = if name == "cache/streams_mblk" {
            2 * lines
        } else if LOG_LINE.contains(&name) {
            lines
        } else {
            0
        };
        zones + log
    };
    more.iter()
        .filter(|(name, _)| !OF_THE_KERNEL.iter().any(|part| name.starts_with(part)))
        .map(|(name, difference)| (name.clone(), difference - explained(name)))
        .filter(|(_, difference)| *difference > 0)
        .collect()
}

/// Load, attach, plumb, traffic, unplumb, detach, unload, again and again: nothing is left behind.
pub fn cycles(bench: &mut Bench) -> Result<Findings> {
    // The first ones fill caches that the kernel keeps.
    let count = bench.cycles;
    let first = count.div_ceil(10);
    take_down(bench)?;
    unload_modules(bench)?;
    for number in 0..first {
        cycle(bench, number)?;
    }
    let (begin, since) = memory(bench)?;
    let mut thirds = vec![begin];
    let mut slowest = [0, 0];
    for number in 1..=count {
        let first = cycle(bench, number).with_context(|| format!("cycle {number}"))?;
        slowest = [0, 1].map(|family: usize| slowest[family].max(first[family]));
        if number % (count / 3) == 0 && thirds.len() < 3 || number == count {
            bench.pause(1000)?;
            thirds.push(memory(bench)?.0);
        }
    }
    let named = |grown: Vec<(String, i64)>| {
        let each = |(name, difference): (String, i64)| format!("{name} +{difference}");
        grown.into_iter().map(each).collect::<Vec<_>>().join(", ")
    };
    // What leaks does so in each third; what a thread of the kernel's holds for a while does not.
    let of_thirds: Vec<_> =
        thirds.windows(2).map(|pair| leaks(&pair[0], &pair[1], i64::from(count / 3))).collect();
    let always =
        |name: &String| of_thirds.iter().all(|third| third.iter().any(|(leaking, _)| leaking == name));
    let (before, after) = (&thirds[0], &thirds[3]);
    let leaks = leaks(before, after, count.into()).into_iter().filter(|(name, _)| always(name)).collect();
    let leaks = named(leaks);
    let more = unexplained(before, after, count.into());
    let left = owners(bench, &more, since)?.join("\n");
    ensure!(leaks.is_empty(), "after {count} cycles more is in use: {leaks}\n{left}");
    let text = format!("{count} cycles; of {} caches and arenas none grew with them", after.len());
    let [v4, v6] = slowest;
    build_up(bench)?;
    Ok(Findings::new(text)
        .and(format!("the first echo was answered after {v4} ms at most over IPv4, {v6} ms over IPv6"))
        .fact("slowest_first_echo_ms", vec![v4, v6])
        .fact("cycles", count)
        .fact("grew", named(grown(before, after)))
        .fact("left", left))
}

fn cycle(bench: &mut Bench, number: u32) -> Result<[u64; 2]> {
    let first = build_up(bench)?;
    bench.all_answered(0, 4, Sizes::one(100 + number * 30 % 1900, 4))?;
    bench.all_answered(1, 6, Sizes::one(100 + number * 30 % 1800, 4))?;
    take_down(bench)?;
    unload_modules(bench)?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_is_new_or_fuller_has_grown_and_others_have_not() {
        let memory = |pairs: &[(&str, i64)]| -> Memory {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let before = memory(&[("cache/a", 5), ("cache/b", 5), ("cache/c", 1)]);
        let after = memory(&[("cache/a", 7), ("cache/b", 4), ("cache/d", 2)]);
        assert_eq!(grown(&before, &after), [("cache/a".to_owned(), 2), ("cache/d".to_owned(), 2)]);
    }

    #[test]
    fn a_leak_is_what_grows_with_the_cycles_beyond_zones_and_log() {
        let memory = |pairs: &[(&str, i64)]| -> Memory {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let grown = [
            ("arena/kstat", 3 * 2 * 3760),
            ("arena/heap", 100_000),
            ("cache/kmem_alloc_320", 6),
            ("cache/streams_dblk_80", 164),
            ("cache/streams_dblk_208", 164),
            ("cache/streams_mblk", 328),
            ("cache/kmem_alloc_64", 2),
        ];
        assert_eq!(leaks(&Memory::new(), &memory(&grown), 3), []);
        let mut leaking = grown.to_vec();
        leaking.extend([
            ("cache/streams_dblk_2128", 3),
            ("cache/streams_mblk", 331),
            ("cache/kmem_alloc_64", 3),
        ]);
        let found: Vec<String> =
            leaks(&Memory::new(), &memory(&leaking), 3).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["cache/kmem_alloc_64", "cache/streams_dblk_2128", "cache/streams_mblk"]);
    }
}
