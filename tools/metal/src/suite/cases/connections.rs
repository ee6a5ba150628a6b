//! Links in connected mode: the real communication manager makes connections over the adapter's reliable queue pairs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::adapter::objects_at_last;
use super::ip::{
    CONNECTED_MTU, NEIGHBOUR, answers, answers_in, interface_mtu, plumb, set_linkmode, streams, unplumb,
};
use crate::suite::bench::{Bench, Event, Sizes};
use crate::suite::report::Findings;
use crate::suite::{Linkmode, Suite};

/// Octets of the largest echo in one packet.
const LARGE: u32 = 65_492;

/// Two links in connected mode carry packets of 64 KB on connections, through a cable that is pulled, other LIDs, and a neighbour that
/// goes and comes; then they are as before, and once more leaves nothing in the adapter.
pub fn connected(bench: &mut Bench) -> Result<Findings> {
    let usual = bench.linkmode;
    if usual == Linkmode::Cm {
        set_linkmode(bench, Linkmode::Ud)?;
    }
    let before = interface_mtu(bench)?;
    let mut findings = for_a_while(bench, in_that_mode)?;
    let after = interface_mtu(bench)?;
    ensure!(after == before, "the interface's MTU was {before} and is {after}");
    // `ibcm` has made itself a queue pair for each port and P_Key, which stays.
    let had = objects_at_last(bench, None)?;
    for_a_while(bench, |bench| connect(bench).map(drop))?;
    let has = objects_at_last(bench, Some(had))?;
    ensure!(has == had, "the adapter had {had:?} and has {has:?}");
    if usual == Linkmode::Cm {
        set_linkmode(bench, usual)?;
    }
    findings = findings.and(format!("then datagrams again, MTU {after}; and once more, which left nothing"));
    Ok(findings)
}

/// Does something in connected mode, and uses datagrams again.
fn for_a_while<T>(bench: &mut Bench, act: impl FnOnce(&mut Bench) -> Result<T>) -> Result<T> {
    set_linkmode(bench, Linkmode::Cm)?;
    let done = act(bench);
    set_linkmode(bench, Linkmode::Ud)?;
    for from in 0..2 {
        answers_in(bench, from, 4, NEIGHBOUR)?;
        bench.all_answered(from, 4, Sizes::one(2016, 4))?;
    }
    done
}

fn in_that_mode(bench: &mut Bench) -> Result<Findings> {
    let mtu = interface_mtu(bench)?;
    ensure!(mtu == u64::from(CONNECTED_MTU), "in connected mode the interface's MTU is {mtu}");
    let first = connect(bench)?;
    let mib = 1 << 20;
    let octets = if bench.suite == Suite::Full { 64 * mib } else { 4 * mib };
    let before = messages(bench)?;
    let mut findings = streams(bench, &[(0, octets, 65_536), (1, octets, 65_536)], 5101)?;
    let carried = messages(bench)? - before;
    findings = findings.and(format!(
        "MTU {mtu}; connections {first} ms after the first packet; {carried} messages for {} bytes",
        2 * octets
    ));
    for (what, event) in [
        ("a cable was pulled", cable as fn(&mut Bench) -> Result<()>),
        ("another LID", other_lid),
        ("the neighbour went and came", neighbour),
    ] {
        event(bench).context(what)?;
        for from in 0..2 {
            answers(bench, from, 60_000).context(what)?;
        }
        let ms = connect(bench).context(what)?;
        findings = findings.and(format!("{what}: connections again {ms} ms after both answered"));
    }
    let shown = bench.must("0", "kstat swhca 0 statistics")?;
    let said = ["messages", "messages-again", "receiver-waits", "failed-connections"]
        .map(|name| format!("{name} {}", shown.number(name).unwrap_or_default()));
    Ok(findings.and(said.join(", ")).fact("ms", first))
}

fn messages(bench: &mut Bench) -> Result<u64> {
    Bench::number(&bench.must("0", "kstat swhca 0 statistics")?, "messages-received")
}

/// Echoes of 64 KB until they are messages, both ways; how long that took, in milliseconds. Then each is, of either family.
fn connect(bench: &mut Bench) -> Result<u64> {
    const PATIENCE: u64 = 90_000;
    let mut waited = 0;
    for from in 0..2 {
        answers_in(bench, from, 4, NEIGHBOUR)?;
        loop {
            let before = messages(bench)?;
            let words = format!("{} {LARGE} {LARGE} 1 1 1000", bench.echo_to(from, 4)?);
            let answer = bench.must_within(bench.sides[from].name, &words, Duration::from_secs(60))?;
            if messages(bench)? >= before + 2 && answer.number("answered") == Some(1) {
                break;
            }
            ensure!(waited < PATIENCE, "no connections after {waited} ms: {}", answer.text);
            bench.pause(250)?;
            waited += 250;
        }
    }
    for (from, family, size) in [(0, 4, LARGE), (1, 4, LARGE), (0, 4, 30_000), (0, 6, 60_000), (1, 6, 60_000)]
    {
        answers_in(bench, from, family, NEIGHBOUR)?;
        let before = messages(bench)?;
        let count = bench.all_answered(from, family, Sizes::one(size, 10))?;
        let came = messages(bench)? - before;
        ensure!(came >= 2 * count, "{count} echoes of {size} bytes and their answers were {came} messages");
    }
    Ok(waited)
}

/// For longer than connections bear.
fn cable(bench: &mut Bench) -> Result<()> {
    let name = bench.sides[0].name;
    bench.event(Event::PortDown, &[1])?;
    bench.until(name, "interface ib0", 10_000, |fields| fields.number("running") == Some(0))?;
    bench.pause(if bench.suite == Suite::Full { 15_000 } else { 3_000 })?;
    bench.event(Event::PortUp, &[1])?;
    bench.until(name, "interface ib0", 20_000, |fields| fields.number("running") == Some(1)).map(drop)
}

fn other_lid(bench: &mut Bench) -> Result<()> {
    for (port, lid) in [(1_u64, 0x51_u64), (2, 0x52), (1, 1), (2, 2)] {
        bench.event(Event::SetLid, &[port, lid])?;
        bench.pause(500)?;
    }
    Ok(())
}

/// Its interface is unplumbed: the driver closes its connections, and the other side hears of it.
fn neighbour(bench: &mut Bench) -> Result<()> {
    unplumb(bench, 1)?;
    bench.pause(1000)?;
    plumb(bench, 1)
}
