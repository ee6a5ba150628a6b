//! An adapter that the kernel does not find as it boots: each on a machine of its own.

use anyhow::{Result, ensure};

use super::{ip, link};
use crate::machine::{Options, Setup};
use crate::suite::bench::{Bench, Sizes};
use crate::suite::report::Findings;

/// Where the adapter's .conf is before it is added, and the directory of modules that it is added to.
const LATER: &str = "later/drv/swhca.conf";
const CONF: &str = "kernel/drv/swhca.conf";
const ENXIO: u32 = 6;

/// The .conf does not say that the driver is one of an IB adapter.
pub fn without_class(options: &Options, setup: &mut Setup) -> Result<()> {
    let shipped = options.adapter_conf()?;
    let lines = shipped.lines().filter(|line| !line.contains("ddi-vhci-class"));
    let changed: String = lines.flat_map(|line| [line, "\n"]).collect();
    ensure!(changed.len() < shipped.len(), "swhca.conf has no class");
    setup.files.push((CONF, changed));
    Ok(())
}

/// The IB nexus refuses, and so does the adapter's driver; nothing is attached, and the kernel goes on.
pub fn no_class(bench: &mut Bench) -> Result<Findings> {
    let mut refusals = Vec::new();
    for _ in 0..2 {
        let refusal = bench.refused("0", "load drv/swhca")?;
        ensure!(refusal.errno == ENXIO, "refused otherwise: {refusal}");
        refusals.push(refusal.to_string());
    }
    let devices = bench.must("0", "list /devices")?;
    ensure!(!devices.words().any(|name| name.ends_with(":ctl")), "an adapter is attached: {}", devices.text);
    ensure!(!bench.is_loaded("swhca")?, "the driver is loaded");
    let nexus = if bench.is_loaded("ib")? { "is loaded" } else { "is not" };
    Ok(Findings::new(format!("refused each time ({}); the nexus {nexus}", refusals.join(", "))))
}

/// The driver is there, its .conf is not yet.
pub fn not_yet(options: &Options, setup: &mut Setup) -> Result<()> {
    setup.without.push(CONF);
    setup.files.push((LATER, options.adapter_conf()?));
    setup.files.push(("added/nothing", String::new()));
    setup.system.push_str("moddir: /platform/i86pc/kernel /kernel /usr/kernel /added\n");
    Ok(())
}

/// Added, looked for, loaded: two zones reach each other.
pub fn in_order(bench: &mut Bench) -> Result<Findings> {
    add(bench)?;
    bench.must("0", "list /devices")?;
    bench.must("0", "load drv/swhca")?;
    two_zones(bench)?;
    Ok(Findings::new("its .conf comes, its node is looked for, its driver loads: two zones reach each other"))
}

/// Loaded before there is a node, the nexus keeps its refusal in mind, and a node that nobody attaches to does not stay. A nexus that is
/// loaded by its name is refused once more and thrown out; with the node made again the next one looks anew.
pub fn out_of_order(bench: &mut Bench) -> Result<Findings> {
    add(bench)?;
    let early = bench.refused("0", "load drv/swhca")?;
    bench.must("0", "list /devices")?;
    let kept = bench.refused("0", "load drv/swhca")?;
    let stale = bench.refused("0", "load drv/ib")?;
    bench.must("0", "read-conf")?;
    bench.must("0", "list /devices")?;
    bench.must("0", "load drv/swhca")?;
    two_zones(bench)?;
    Ok(Findings::new(format!("before there is a node: {early}; with it: {kept}"))
        .and(format!("the nexus by its name: {stale}; its .conf read again: two zones reach each other")))
}

fn add(bench: &mut Bench) -> Result<()> {
    let devices = bench.must("0", "list /devices")?;
    ensure!(!devices.words().any(|name| name.starts_with("swhca")), "it is there already: {}", devices.text);
    bench.must("0", "lay-over /later /added")?;
    bench.must("0", "read-conf").map(drop)
}

fn two_zones(bench: &mut Bench) -> Result<()> {
    link::attach(bench)?;
    link::make_links(bench)?;
    ip::setup(bench)?;
    for from in 0..2 {
        ip::answers(bench, from, 20_000)?;
        bench.all_answered(from, 4, Sizes::one(1000, 10))?;
        bench.all_answered(from, 6, Sizes::one(1000, 10))?;
    }
    Ok(())
}
