//! The subnet administrator: how long a real one takes to answer, and how the drivers fare with one that takes so long.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use fakekernel::{Config, Machine, Nanos};
use lab_gldv3::LinkAddress;
use opensm::{Adapter, OpenSm, Tools, Topology};
use sm::fault::FaultAction;
use sm::records::{PathRecord, path_mask};
use sm::{Attribute, Fault, Gid, Guid, Mad, Method, PKey, Partition, SaMad};

use super::bed::Bed;
use super::report::Fact;
use super::{Bench, Driver};

/// Ports on the measured subnet, and questions asked.
const PORTS: u64 = 2;
const QUESTIONS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(5);
/// Groups that are joined again.
const GROUPS: usize = 1_000;
/// Every answer is back by then.
const ANSWERED: Nanos = Nanos::from_millis(1);
/// How long a driver may take for all of them.
const LONGEST: Nanos = Nanos::from_secs(60);

/// The median time a real OpenSM on ibsim takes to answer a path query, over a private subnet that ends with this call.
///
/// # Errors
///
/// What is missing, or what did not come up.
#[expect(clippy::disallowed_methods, reason = "a real OpenSM is measured")]
pub fn measure_opensm() -> Result<Duration> {
    let port = |n: u64| Guid(0x0002_c903_0000_1001 + n * 0x10);
    let adapters = (0..PORTS).map(|n| Adapter {
        name: format!("host{n}"),
        node: Guid(port(n).0 - 1),
        port: port(n),
        link: opensm::Link::default(),
    });
    let sm = OpenSm::start(Tools::find()?, Topology::new(adapters)?, &[Partition::default_open()])?;
    let (sender, answers) = channel();
    let sender = Mutex::new(sender);
    sm.set_sink(Some(std::sync::Arc::new(move |_, arrival| {
        // Whoever asked may have given up.
        if let Ok(sender) = sender.lock() {
            let _ = sender.send(arrival.mad);
        }
    })));
    let manager = sm.snapshot()?.ports.get(&port(0)).context("the first port")?.info.master_sm_lid;
    let record = PathRecord {
        sgid: Gid::of_port(Gid::DEFAULT_PREFIX, port(0)),
        dgid: Gid::of_port(Gid::DEFAULT_PREFIX, port(1)),
        p_key: PKey::DEFAULT_FULL,
        numb_path: 1,
        reversible: true,
        ..PathRecord::default()
    };
    let mask =
        path_mask::SGID | path_mask::DGID | path_mask::P_KEY | path_mask::NUMB_PATH | path_mask::REVERSIBLE;
    let mut times = Vec::new();
    for transaction in 1..=QUESTIONS as u64 {
        let question = SaMad::request(Method::GET, Attribute::PATH_RECORD, 0, mask).with_record(&record);
        let begun = Instant::now();
        sm.send(port(0), manager, &SaMad { transaction, ..question }.emit())?;
        if answered(&answers, transaction) {
            times.push(begun.elapsed());
        }
    }
    times.sort();
    times
        .get(times.len() / 2)
        .copied()
        .ok_or_else(|| anyhow!("OpenSM answered none of {QUESTIONS} path queries"))
}

fn answered(answers: &Receiver<Mad>, transaction: u64) -> bool {
    while let Ok(mad) = answers.recv_timeout(PATIENCE) {
        if SaMad::parse(&mad).is_ok_and(|mad| mad.transaction == transaction) {
            return true;
        }
    }
    false
}

impl Bed {
    /// The subnet administrator takes so long from now on.
    pub fn delay_sa(&self, delay: Duration) -> Result<()> {
        let sm = self.world.infiniband.sm().context("the embedded subnet manager")?;
        sm.faults(|script| {
            script.clear();
            if !delay.is_zero() {
                script.push(Fault::always(FaultAction::Delay(sm::Nanos(delay.as_nanos() as u64))));
            }
        });
        Ok(())
    }
}

/// How long a link takes to be in all its groups again after a new subnet manager came, in round trips to the administrator.
///
/// On a machine of its own where work takes no time: what is left is waiting, for answers and for second attempts.
///
/// # Errors
///
/// The driver does not run, or is not in its groups in time.
pub fn rejoin(bench: &Bench, driver: &Driver, delay: Duration) -> Result<Fact> {
    let config = Config { checks: false, call_cost: Nanos(0), ..Config::seeded(bench.seed) };
    let machine = Machine::new(config);
    let (inner, bench, subject) = (machine.clone(), bench.clone(), driver.clone());
    let outcome = machine.run(move || -> Result<Nanos> {
        let bed = Bed::build(&inner, &[subject], &bench.proto, bench.seed, bench.mtu)?;
        rejoining(&bed, delay)
    });
    let taken = outcome.map_err(|halt| anyhow!("{halt}"))??;
    Ok(Fact {
        what: format!("waiting until {GROUPS} groups are joined again after a new subnet manager came"),
        driver: driver.name.clone(),
        value: taken.0 as f64 / (delay.as_nanos() as f64).max(1.0),
        unit: "SA round trips".into(),
    })
}

fn rejoining(bed: &Bed, delay: Duration) -> Result<Nanos> {
    let sm = bed.world.infiniband.sm().context("the embedded subnet manager")?;
    let subject = &bed.subjects[0];
    let port = subject.host.port;
    let joined = || sm.inspect(|sm| sm.sa().memberships().filter(|(_, member, _)| *member == port).count());
    let every = joined() + GROUPS;
    for n in 0..GROUPS {
        let enabled = subject.stream.enable_multicast(group(n as u32));
        enabled.map_err(|errno| anyhow!("enable group {n}: {errno}"))?;
    }
    let wait_for = |what: &str, holds: &dyn Fn() -> bool| -> Result<()> {
        let deadline = bed.machine.now() + LONGEST;
        while !holds() {
            let late = bed.machine.now() >= deadline;
            ensure!(!late, "not within {LONGEST}: {what}, {} of {every} are", joined());
            fakekernel::sleep(Nanos(delay.as_nanos() as u64 / 4).max(Nanos(1)));
        }
        Ok(())
    };
    wait_for("every group joined", &|| joined() == every)?;
    // An answer that went with the old manager would be waited for by IBTF, for seconds: that is another measurement.
    fakekernel::sleep(ANSWERED);
    bed.delay_sa(delay)?;
    sm.stop();
    sm.restart(sm::Lid(sm::Lid::FIRST_MULTICAST.0 + 7));
    // What the new manager does before it has clients register again is its own work.
    wait_for("the new subnet manager", &|| joined() == 0)?;
    let mut begun = bed.machine.now();
    wait_for("the first group joined again", &|| joined() > 0)?;
    begun = begun.max(Nanos(bed.machine.now().0.saturating_sub(delay.as_nanos() as u64)));
    wait_for("every group joined again", &|| joined() == every)?;
    Ok(bed.machine.now().since(begun))
}

/// An IPv4 group as IP gives it to the link.
fn group(n: u32) -> LinkAddress {
    let mut bytes = [0; 20];
    bytes[1..4].fill(0xff);
    bytes[4..8].copy_from_slice(&[0xff, 0x10, 0x40, 0x1b]);
    bytes[16..].copy_from_slice(&(0x0f01_0000 + n).to_be_bytes());
    LinkAddress(bytes)
}
