//! Bulk TCP between two hosts that have the same driver: on connections, and in datagrams with large sends.
//!
//! What the lab itself has to do for an octet, TCP and the check of what arrives among it, is in the figures, of all drivers alike.

use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use fakekernel::{Config, Machine};

use super::messages::{self, HOSTS};
use super::report::{Fact, Report};
use super::rows::median;
use super::traffic::Clock;
use super::{Bench, Driver, about_machine, no_driver, targets};
use crate::objects::Objects;
use crate::report::SmKind;
use crate::run::World;
use crate::scenario::{Scenario, Step, parse};

/// What is carried, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// TCP on connections.
    Connections,
    /// TCP in datagrams.
    Datagrams,
    /// Packets alone, as long as a connection carries them.
    Messages,
}

impl Carried {
    /// What the figure is called.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Connections => "bulk TCP on connections",
            Self::Datagrams => "bulk TCP in datagrams with large sends",
            Self::Messages => "packets of 65,520 octets on connections, without TCP",
        }
    }

    /// The value of `linkmode`.
    const fn mode(self) -> &'static str {
        match self {
            Self::Connections | Self::Messages => "cm",
            Self::Datagrams => "ud",
        }
    }
}

/// What the figure is called of two IP stacks that hand each other their packets.
pub const WITHOUT: &str = "bulk TCP without a driver and a fabric";
/// What is carried before what is measured.
const BEFORE: &str = "4MiB";

impl Bench {
    /// Measures bulk TCP alone, and packets as long: `mib` MiB at a time, each driver and mode in turn; of these what has `only` in its name.
    ///
    /// # Errors
    ///
    /// What is missing, or what went wrong on the way.
    pub fn bulk(&self, mib: u64, only: &str, mut progress: impl FnMut(&str)) -> Result<Report> {
        let drivers = self.drivers()?;
        if let Some(peer) = drivers.iter().find(|driver| driver.foreign && driver.module != "ibp") {
            bail!("{}: bulk TCP is measured with `ibp`", peer.name);
        }
        let kinds = [Carried::Connections, Carried::Datagrams, Carried::Messages];
        let kinds = kinds.iter().filter(|carried| carried.what().contains(only));
        let rows = kinds.flat_map(|carried| drivers.iter().map(move |driver| (*carried, driver)));
        let rows: Vec<_> =
            rows.filter(|(carried, driver)| *carried != Carried::Datagrams || !driver.foreign).collect();
        let mut rates = vec![Vec::new(); rows.len()];
        let mut without = Vec::new();
        for _ in 0..self.rounds {
            without.push(no_driver::rate(mib)?);
            for ((carried, driver), rates) in rows.iter().zip(&mut rates) {
                rates.push(self.rate(driver, *carried, mib)?);
            }
        }
        let mut report = Report { seed: self.seed, machine: about_machine(), ..Report::default() };
        let measured =
            rows.iter().map(|(carried, driver)| (carried.what(), driver.name.as_str())).zip(&rates);
        for ((what, driver), rates) in measured.chain([((WITHOUT, "none"), &without)]) {
            let (what, driver) = (what.to_owned(), driver.to_owned());
            let fact = Fact { what, driver, value: median(rates), unit: "MB of a processor's second".into() };
            progress(&fact.line());
            report.facts.push(fact);
        }
        report.targets = targets::of_bulk(&report, &drivers);
        report.targets.iter().for_each(|target| progress(&target.line()));
        Ok(report)
    }

    /// MB for each second of the processors, waiting included.
    fn rate(&self, driver: &Driver, carried: Carried, mib: u64) -> Result<f64> {
        if carried == Carried::Messages {
            return messages::rate(self, driver, mib);
        }
        let scenario = scenario(carried, self.mtu, mib)?;
        let objects = Objects::find(&scenario, &self.proto, &messages::overrides(driver))?;
        let machine = Machine::new(Config::timed(self.seed));
        let (inner, seed) = (machine.clone(), self.seed);
        let outcome = machine.run(move || transfer(&inner, &scenario, &objects, seed));
        let seconds = outcome.map_err(|halt| anyhow!("{halt}"))??;
        Ok((mib << 20) as f64 / 1e6 / seconds)
    }
}

/// How long the last step but one takes.
fn transfer(machine: &Machine, scenario: &Scenario, objects: &Objects, seed: u64) -> Result<f64> {
    let mut world = World::build(machine, scenario, objects, seed, None, SmKind::Embedded)?;
    let mut seconds = f64::NAN;
    for (n, step) in scenario.step.iter().enumerate() {
        let mut clock = Clock::new(machine);
        let step: &Step = step.get_ref();
        let report = clock.run(|| world.step(step));
        ensure!(report.ok, "{}: {}", report.step, report.text);
        if n + 2 == scenario.step.len() {
            seconds = (clock.work + clock.waited).as_secs_f64();
        }
    }
    Ok(seconds)
}

fn scenario(carried: Carried, mtu: u32, mib: u64) -> Result<Scenario> {
    let mut text = format!(
        "name = \"bulk\"\n[fabric]\nmtu = {mtu}\nsa_delay_ms = 0\n[[partition]]\npkey = 0xffff\nmtu = {mtu}\n"
    );
    for (n, host) in (1..).zip(HOSTS) {
        text += &format!(
            "[[host]]\nname = \"{host}\"\ndriver = \"ibp\"\naddresses = [\"192.168.76.{n}/24\"]\nproperties = {{ linkmode = \"{}\" }}\n",
            carried.mode()
        );
    }
    text += "[[step]]\nattach = {}\n[[step]]\nup = {}\n";
    for bytes in [BEFORE.to_owned(), format!("{mib}MiB")] {
        text += &format!(
            "[[step]]\ntcp = {{ from = \"{}\", to = \"192.168.76.2\", bytes = \"{bytes}\" }}\n",
            HOSTS[0]
        );
    }
    text += "[[step]]\nunload = {}\n";
    Ok(parse(Path::new("bulk"), &text)?)
}
