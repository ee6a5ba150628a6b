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

/// Ends the capture and compares, host by host.
pub fn counts(world: &mut World) -> Result<Findings> {
    fakekernel::sleep(SETTLE);
    let recording = world.recording.as_mut().context("nothing was captured")?;
    let file = File::open(recording.end()?).context("opening the capture")?;
    let captured = count(BufReader::new(file))?;
    let mut findings = Findings::default();
    let mut lines = Vec::new();
    for host in &world.hosts {
        let port = format!("{}/1", host.name);
        let seen = captured.get(&port).with_context(|| format!("the capture has no interface {port}"))?;
        let statistics = host.statistics()?;
        for row in rows(&statistics, seen) {
            if row.driver != row.capture {
                bail!(
                    "{}: {} is {} in the driver's statistics and {} in the capture",
                    host.name,
                    row.name,
                    row.driver,
                    row.capture
                );
            }
            findings = findings.fact(format!("{}.{}", host.name, row.name), row.driver);
        }
        findings = findings.fact(format!("{}.ifspeed", host.name), statistics.ifspeed);
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
