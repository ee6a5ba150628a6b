//! The process behind a lab that is up.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use fakekernel::{Config, Machine};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::client;
use super::host::DeskHost;
use super::jobs::Jobs;
use super::kept;
use super::place::Place;
use super::server::{self, Lab};
use crate::linux;
use crate::mappings;
use crate::objects::Objects;
use crate::report::SmKind;
use crate::scenario::{ModuleOverride, Scenario};
use crate::setup;

/// What a lab is made of.
pub struct Plan {
    pub place: Place,
    pub scenario: Scenario,
    /// That the scenario was read from.
    pub file: PathBuf,
    /// Hosts forget the files that they have kept.
    pub fresh: bool,
    pub sm: SmKind,
    pub proto: PathBuf,
    pub modules: Vec<ModuleOverride>,
}

/// Serves a lab until it is told to end; `ready` is called once its hosts have booted.
///
/// # Errors
///
/// What kept it from coming up, `ready` included; a halt of the machine, in its words; what hosts left behind when they halted.
pub fn run(plan: Plan, ready: impl FnOnce(&Lab) -> Result<()> + Send + 'static) -> Result<()> {
    let _claim = plan.place.claim()?;
    let place = plan.place.clone();
    let hosts: Vec<&str> =
        plan.scenario.host.iter().map(|host| host.get_ref().name.get_ref().as_str()).collect();
    if plan.fresh {
        kept::forget(&place, &hosts)?;
    }
    kept::remember(&place, &plan.file, &hosts);
    let result = serve(plan, ready);
    // One that did not end well is left behind: its log says why.
    if result.is_ok() {
        place.remove();
    }
    result
}

fn serve(plan: Plan, ready: impl FnOnce(&Lab) -> Result<()> + Send + 'static) -> Result<()> {
    let Plan { place, scenario, sm, proto, modules, .. } = plan;
    if let Some(why) = scenario.uses_linux().then(linux::missing).flatten() {
        bail!("hosts with a TUN device cannot come up: {why}");
    }
    mappings::check(scenario.host.len(), mappings::OF_A_HOST)?;
    let seed = scenario.seed;
    let objects = Objects::find(&scenario, &proto, &modules)?;
    place.make_commands(&std::env::current_exe()?, admin::names().chain(client::CLIENTS))?;
    // SIGTERM and its like are kept from here on; the lab ends in its own time.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("signals")?;
    let machine = Machine::new(Config::live());
    // Commands come from outside, so everybody waiting is no hang.
    let _waker = machine.outside_waker();
    let (on, shown): (_, Arc<OnceLock<Arc<Lab>>>) = (machine.clone(), Arc::default());
    let lab = shown.clone();
    let outcome = machine.run(move || -> Result<()> {
        let world = setup::hosts(&on, &scenario, &objects, seed)?;
        setup::start_sm(&world.infiniband, &scenario, sm)?;
        let specs = scenario.host.iter().map(|spec| spec.get_ref());
        let hosts = specs.zip(world.hosts).map(|(spec, host)| {
            let root = place.state(&host.name);
            DeskHost::new(spec, host, &objects, root, seed).map(Arc::new)
        });
        let hosts: Vec<Arc<DeskHost>> = hosts.collect::<Result<_>>()?;
        let lab_now = Arc::new(Lab {
            name: place.name().to_owned(),
            hosts,
            jobs: Jobs::new(),
            infiniband: world.infiniband,
            sm: if sm == SmKind::Opensm { "OpenSM" } else { "embedded" },
            captured: false.into(),
            halted: OnceLock::new(),
        });
        let _ = lab.set(lab_now.clone());
        let handle = signals.handle();
        let ended = lab_now.clone();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                ended.jobs.close();
            }
        });
        let booted = boot(&lab_now, &place, ready);
        if booted.is_ok() {
            lab_now.jobs.serve();
        }
        handle.close();
        let halted = lab_now.hosts.iter().try_for_each(|host| {
            place.ends(&host.name);
            host.halt().with_context(|| host.name.clone())
        });
        booted.and(halted)
    });
    // Threads that serve clients keep the hosts until the process ends.
    for host in shown.get().iter().flat_map(|lab| &lab.hosts) {
        host.namespace.iter().for_each(|namespace| namespace.remove());
    }
    match outcome {
        Ok(result) => result,
        Err(halt) => {
            let why = halt.to_string();
            if let Some(lab) = shown.get() {
                let _ = lab.halted.set(why.clone());
                // Clients whose command was under way are told.
                std::thread::sleep(std::time::Duration::from_millis(500));
            }
            bail!("the machine has halted: {why}")
        }
    }
}

fn boot(lab: &Arc<Lab>, place: &Place, ready: impl FnOnce(&Lab) -> Result<()>) -> Result<()> {
    for host in &lab.hosts {
        host.boot().with_context(|| host.name.clone())?;
    }
    let given_up = || lab.jobs.are_closed();
    lab.hosts.iter().for_each(|host| host.wait_for_ports(&given_up));
    lab.hosts.iter().for_each(|host| host.wait_for_addresses(&given_up));
    let socket = place.socket();
    let listener = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
    server::serve(listener, lab.clone());
    ready(lab)
}
