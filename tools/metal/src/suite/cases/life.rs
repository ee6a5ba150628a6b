//! From loading to unloading, and what is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::ip::{answers, answers_in, end_zone, make_zone, plumb, unplumb};
use super::link::{delete_links, make_links, walk};
use super::memory::{Memory, grown, held, leaks, named, owners, unexplained};
use crate::suite::bench::{Bench, Sizes};
use crate::suite::report::Findings;

/// Under traffic the driver does not unload and nothing is lost; with its links gone it unloads, loads, and carries traffic.
pub fn unload(bench: &mut Bench) -> Result<Findings> {
    let driver = bench.identity.name();
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    // Of what waits for a neighbour to be found, IP keeps the last four packets.
    answers(bench, 0, 20_000)?;
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
    let (begin, since) = held(bench)?;
    let mut thirds = [begin, Memory::new(), Memory::new(), Memory::new()];
    let mut slowest = [0, 0];
    for number in 1..=count {
        let first = cycle(bench, number).with_context(|| format!("cycle {number}"))?;
        slowest = [0, 1].map(|family: usize| slowest[family].max(first[family]));
        for (third, memory) in thirds.iter_mut().enumerate().skip(1) {
            if number == if third == 3 { count } else { count / 3 * third as u32 } {
                bench.pause(1000)?;
                *memory = held(bench)?.0;
            }
        }
    }
    let [before, .., after] = &thirds;
    let left = owners(bench, &unexplained(before, after, count.into()), since)?;
    let wrong = leaks(&thirds, count, &left).join("\n");
    ensure!(
        wrong.is_empty(),
        "after {count} cycles more is in use\n{wrong}\nof all that is left:\n{}",
        left.join("\n")
    );
    let text = format!("{count} cycles; of {} caches and arenas none grew with them", after.len());
    let text = format!("{text}, and nothing that the modules allocated is left in those that hold more");
    let [v4, v6] = slowest;
    build_up(bench)?;
    Ok(Findings::new(text)
        .and(format!("the first echo was answered after {v4} ms at most over IPv4, {v6} ms over IPv6"))
        .fact("slowest_first_echo_ms", vec![v4, v6])
        .fact("cycles", count)
        .fact("grew", named(&grown(before, after)))
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
