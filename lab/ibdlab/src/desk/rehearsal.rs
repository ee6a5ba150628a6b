//! A desk in virtual time, for tests: hosts boot, a script runs, hosts halt. The seed decides every interleaving.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use admin::{Exit, Session};
use anyhow::{Context, Result, anyhow};
use fakekernel::{Config, Machine, Nanos};
use lab_ibtf::InfiniBand;

use super::host::{DeskHost, Words};
use super::ip::HostIp;
use super::system::Process;
use crate::objects::Objects;
use crate::report::SmKind;
use crate::scenario::Scenario;
use crate::setup;

/// The hosts, while the script runs.
pub struct Rehearsal {
    hosts: Vec<Arc<DeskHost>>,
    pub infiniband: InfiniBand,
}

/// Runs `script` on the machine's first thread between the boot of the scenario's hosts and their halt. Their files are below
/// `root`.
///
/// # Errors
///
/// What kept a host from booting, the script's own, what a host left behind, a halt of the machine.
pub fn rehearse<R: Send + Sync + 'static>(
    scenario: Scenario,
    proto: &Path,
    seed: u64,
    root: PathBuf,
    script: impl FnOnce(&Rehearsal) -> Result<R> + Send + 'static,
) -> Result<R> {
    let objects = Objects::find(&scenario, proto, &[])?;
    let machine = Machine::new(Config::seeded(seed));
    let on = machine.clone();
    let said = Arc::new(OnceLock::new());
    let answer = said.clone();
    let outcome = machine.run(move || -> Result<()> {
        let world = setup::hosts(&on, &scenario, &objects, seed)?;
        setup::start_sm(&world.infiniband, &scenario, SmKind::Embedded)?;
        let specs = scenario.host.iter().map(|spec| spec.get_ref());
        let hosts = specs.zip(world.hosts).map(|(spec, host)| {
            let root = root.join(&host.name);
            DeskHost::new(spec, host, &objects, root, seed).map(Arc::new)
        });
        let hosts: Vec<Arc<DeskHost>> = hosts.collect::<Result<_>>()?;
        for host in &hosts {
            host.boot().with_context(|| host.name.clone())?;
        }
        hosts.iter().for_each(|host| host.wait_for_ports(&|| false));
        hosts.iter().for_each(|host| host.wait_for_addresses(&|| false));
        let rehearsal = Rehearsal { hosts, infiniband: world.infiniband };
        let result = script(&rehearsal);
        let halted = rehearsal.hosts.iter().try_for_each(|host| host.halt().context(host.name.clone()));
        // The first one of its kind is the only one.
        let _ = answer.set(result?);
        halted
    });
    outcome.map_err(|halt| anyhow!("the machine has halted: {halt}"))??;
    let said = Arc::try_unwrap(said).map_err(|_| anyhow!("the machine still runs"))?;
    said.into_inner().ok_or_else(|| anyhow!("the script has no result"))
}

impl Rehearsal {
    /// A host.
    ///
    /// # Panics
    ///
    /// When the scenario has none of that name.
    pub fn host(&self, name: &str) -> &Arc<DeskHost> {
        self.hosts.iter().find(|host| host.name == name).expect("a host of the scenario")
    }

    pub fn ip(&self, host: &str) -> &HostIp {
        &self.host(host).ip
    }

    /// What a command line of a host's administrator says, to either stream, and its exit code.
    pub fn run(&self, host: &str, line: &str) -> (String, i32) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let process = Process::root(self.host(host).clone());
        let mut said = Words::default();
        let mut session = Session { system: &process, terminal: &mut said };
        let exit = words.split_first().and_then(|(name, rest)| admin::run(&mut session, name, rest));
        (said.0, exit.map_or(127, |Exit(code)| code))
    }

    /// Lets time pass until it holds; after how long, or `None` if it does not within `patience`.
    pub fn until(&self, patience: Nanos, mut holds: impl FnMut() -> bool) -> Option<Nanos> {
        let begun = fakekernel::now();
        loop {
            let passed = fakekernel::now().since(begun);
            if holds() {
                return Some(passed);
            }
            if passed > patience {
                return None;
            }
            fakekernel::sleep(Nanos::from_micros(100));
        }
    }
}
