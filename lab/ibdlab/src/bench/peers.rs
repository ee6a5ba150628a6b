//! What neighbours with a connection each way take of a host's memory while nothing is sent: the driver's, and the work queues of the adapter as
//! the reference adapter's driver sizes them. What all neighbours share is taken with the first of them.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use fakekernel::{Config, Machine};

use super::report::{Fact, Report};
use super::{Bench, Driver, about_machine, targets};
use crate::mappings;
use crate::objects::Objects;
use crate::report::SmKind;
use crate::run::World;
use crate::scenario::{ModuleOverride, Scenario, parse};

/// The host whose memory is measured.
const HUB: &str = "hub";
/// Octets of an echo: more than a datagram carries.
const ECHO: usize = 20_000;
/// Mappings of memory that a host takes.
const MAPPINGS: usize = 70;

impl Bench {
    /// Measures the memory of neighbours alone: of so many, for each driver.
    ///
    /// # Errors
    ///
    /// What is missing, or what went wrong on the way.
    pub fn peers(&self, peers: usize, mut progress: impl FnMut(&str)) -> Result<Report> {
        mappings::check(peers + 1, MAPPINGS)?;
        let drivers = self.drivers()?;
        let mut report = Report { seed: self.seed, machine: about_machine(), ..Report::default() };
        for driver in &drivers {
            let value = self.of_each(driver, peers)? / 1024.0;
            let what = format!("{}, of {peers}", targets::PEERS);
            let fact = Fact { what, driver: driver.name.clone(), value, unit: "KiB".into() };
            progress(&fact.line());
            report.facts.push(fact);
        }
        report.targets = vec![targets::of_peers(&report, &drivers)];
        report.targets.iter().for_each(|target| progress(&target.line()));
        Ok(report)
    }

    /// Bytes for each neighbour but the first.
    fn of_each(&self, driver: &Driver, peers: usize) -> Result<f64> {
        let scenario = scenario(self.mtu, peers)?;
        let hosts = scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone());
        let overrides: Vec<_> = hosts
            .flat_map(|host| driver.objects.iter().map(move |object| (host.clone(), object)))
            .map(|(host, object)| ModuleOverride { host, ..object.clone() })
            .collect();
        let objects = Objects::find(&scenario, &self.proto, &overrides)?;
        let machine = Machine::new(Config::timed(self.seed));
        let (inner, seed) = (machine.clone(), self.seed);
        let outcome = machine.run(move || connect(&inner, &scenario, &objects, seed, peers));
        let (first, last) = outcome.map_err(|halt| anyhow!("{halt}"))??;
        Ok((last - first) as f64 / (peers - 1) as f64)
    }
}

/// What the hub has with one neighbour, and with all.
fn connect(
    machine: &Machine,
    scenario: &Scenario,
    objects: &Objects,
    seed: u64,
    peers: usize,
) -> Result<(i64, i64)> {
    let mut world = World::build(machine, scenario, objects, seed, None, SmKind::Embedded)?;
    let mut had = (0, 0);
    let steps = scenario.step.len();
    for (n, step) in scenario.step.iter().enumerate() {
        let report = world.step(step.get_ref());
        ensure!(report.ok, "{}: {}", report.step, report.text);
        // Attach and up are the first two, unload the last.
        if n == 2 {
            had.0 = memory(&world)?;
        }
        if n + 2 == steps {
            had.1 = memory(&world)?;
            let stand = hub(&world)?.connections();
            ensure!(stand >= 2 * peers, "of {} connections {stand} stand at the end", 2 * peers);
        }
    }
    ensure!(steps == peers + 3, "as many echoes as neighbours");
    Ok(had)
}

fn memory(world: &World) -> Result<i64> {
    // Whatever is under way.
    fakekernel::sleep(fakekernel::Nanos::from_millis(100));
    let bytes = world.host(HUB)?.kernel.genunix().heap_use().0;
    Ok(bytes as i64 + hub(world)?.queue_bytes() as i64)
}

/// The adapter of the host whose memory is measured.
fn hub(world: &World) -> Result<fabric::Hca> {
    let guid = world.host(HUB)?.adapter();
    world.infiniband.fabric().hca(guid).ok_or_else(|| anyhow!("{HUB} has no adapter"))
}

fn scenario(mtu: u32, peers: usize) -> Result<Scenario> {
    let mut text = format!(
        "name = \"peers\"\n[fabric]\nmtu = {mtu}\nsa_delay_ms = 0\n[[partition]]\npkey = 0xffff\nmtu = {mtu}\n"
    );
    let address = |n: usize| format!("10.0.{}.{}", n / 250, n % 250 + 1);
    for n in 0..=peers {
        let name = if n == 0 { HUB.to_owned() } else { format!("peer{n}") };
        text += &format!(
            "[[host]]\nname = \"{name}\"\ndriver = \"ibp\"\naddresses = [\"{}/16\"]\nproperties = {{ linkmode = \"cm\" }}\n",
            address(n)
        );
    }
    text += "[[step]]\nattach = {}\n[[step]]\nup = {}\n";
    for n in 1..=peers {
        text += &format!(
            "[[step]]\nping = {{ from = \"{HUB}\", to = \"{}\", count = 2, sizes = [{ECHO}] }}\n",
            address(n)
        );
    }
    text += "[[step]]\nunload = {}\n";
    Ok(parse(Path::new("peers"), &text)?)
}
