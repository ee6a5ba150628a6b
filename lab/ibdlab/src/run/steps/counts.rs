//! The drivers' statistics against the capture: two witnesses that know nothing of each other.

use std::fs::File;
use std::io::BufReader;

use anyhow::{Context, Result, bail};
use fakekernel::Nanos;
use lab_gldv3::MacStatistics;

use crate::capture::{PortCounts, count};
use crate::report::Findings;
use crate::run::world::World;

/// For frames on their way when the step begins.
const SETTLE: Nanos = Nanos::from_millis(100);

/// On the wall clock: what a busy machine needs for frames that were captured and have not come to their host.
const SETTLE_LIVE: Nanos = Nanos::from_secs(1);

/// Ends the capture and compares, host by host. Linux may send at any time: what it sends while the capture ends may be in it or not.
/// In virtual time nothing passes meanwhile, and the numbers are equal.
pub fn counts(world: &mut World) -> Result<Findings> {
    fakekernel::sleep(SETTLE);
    let before = statistics(world)?;
    let recording = world.recording.as_mut().context("nothing was captured")?;
    let file = recording.end()?.to_owned();
    if world.machine.is_live() {
        fakekernel::sleep(SETTLE_LIVE);
    }
    let after = statistics(world)?;
    let file = File::open(file).context("opening the capture")?;
    let captured = count(BufReader::new(file))?;
    let mut findings = Findings::default();
    let mut lines = Vec::new();
    for (host, (before, after)) in world.hosts.iter().zip(before.iter().zip(&after)) {
        let port = format!("{}/1", host.name);
        let seen = captured.get(&port).with_context(|| format!("the capture has no interface {port}"))?;
        for (row, later) in rows(before, seen).into_iter().zip(rows(after, seen)) {
            if !(row.driver..=later.driver).contains(&row.capture) {
                bail!(
                    "{}: {} is {} in the driver's statistics and {} in the capture",
                    host.name,
                    row.name,
                    row.driver,
                    row.capture
                );
            }
            findings = findings.fact(format!("{}.{}", host.name, row.name), row.capture);
        }
        findings = findings.fact(format!("{}.ifspeed", host.name), before.ifspeed);
        lines.push(format!(
            "{}: {} packets out, {} in, {} refused by the adapter",
            host.name, seen.out.packets, seen.into.packets, seen.refused
        ));
    }
    lines
        .push("drivers and capture agree on packets, bytes, broadcasts and multicasts, both ways".to_owned());
    findings.text = lines.join("\n");
    Ok(findings)
}

fn statistics(world: &World) -> Result<Vec<MacStatistics>> {
    world.hosts.iter().map(|host| host.statistics()).collect()
}

struct Row {
    name: &'static str,
    driver: u64,
    capture: u64,
}

fn rows(driver: &MacStatistics, seen: &PortCounts) -> [Row; 8] {
    let row = |name, driver, capture| Row { name, driver, capture };
    [
        row("opackets", driver.opackets, seen.out.packets),
        row("obytes", driver.obytes, seen.out.bytes),
        row("brdcstxmt", driver.brdcstxmt, seen.out.broadcasts),
        row("multixmt", driver.multixmt, seen.out.multicasts),
        row("ipackets", driver.ipackets, seen.into.packets),
        row("rbytes", driver.rbytes, seen.into.bytes),
        row("brdcstrcv", driver.brdcstrcv, seen.into.broadcasts),
        row("multircv", driver.multircv, seen.into.multicasts),
    ]
}
