//! What a packet costs: drivers side by side on a machine without checks, counted at the receiver.

mod bare;
pub mod bare_kernel;
mod bed;
pub mod bulk;
mod calls;
mod messages;
mod no_driver;
pub mod own;
pub mod peers;
mod plot;
pub mod processors;
pub mod report;
mod rows;
pub mod sa;
mod targets;
pub mod traffic;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use fakekernel::{Config, Machine};

use crate::scenario::ModuleOverride;
use bed::Bed;
use report::{Fact, Primitive, Report};

/// A driver to be measured.
#[derive(Clone, Debug)]
pub struct Driver {
    /// What it is called in the table; also its host's name.
    pub name: String,
    /// `ibd` or `ibp`.
    pub module: &'static str,
    /// Not ours: its objects are somewhere else, and it is told to use datagrams.
    pub foreign: bool,
    pub objects: Vec<ModuleOverride>,
    /// Transmit rings of its link; with any it has a receive ring, too.
    pub rings: u32,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Bench {
    pub seed: u64,
    pub proto: PathBuf,
    pub peer: Option<PathBuf>,
    /// Packets of a measurement.
    pub packets: u64,
    /// How often each is repeated, the drivers in turn.
    pub rounds: u32,
    /// Of the subnet, in bytes.
    pub mtu: u32,
    /// Packets to send in one call, in the rows of the table.
    pub chain: usize,
    /// Loads with more addresses are left out.
    pub most_addresses: usize,
    /// Count instructions, where valgrind is there: those of so many packets.
    pub instructions: Option<u64>,
    /// Of the rows with a subnet administrator that takes its time.
    pub sa_delay: Duration,
    /// Who says that it takes so long.
    pub sa_delay_source: String,
}

impl Driver {
    fn ours() -> Self {
        Self { name: "ours".into(), module: "ibd", foreign: false, objects: Vec::new(), rings: 0 }
    }

    /// A directory with `mac_ib` and `ibp` (or `ibd`), as a gate builds them, or the driver's own file beside its plugin.
    ///
    /// # Errors
    ///
    /// What is not there.
    pub fn at(path: &Path) -> Result<Self> {
        let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
        let named = ["ibp", "ibd"]
            .into_iter()
            .find(|name| if path.is_dir() { path.join(name).is_file() } else { path.ends_with(name) });
        let Some(module) = named else { bail!("{}: neither `ibp` nor `ibd` is there", path.display()) };
        let objects = ["mac_ib", module].map(|name| {
            let file = directory.join(name);
            if file.is_file() { Ok((name, file)) } else { Err(anyhow!("{}: no such object", file.display())) }
        });
        let mut found = Vec::new();
        for object in objects {
            let (name, path) = object?;
            found.push(ModuleOverride { host: "peer".into(), name: name.into(), path });
        }
        Ok(Self { name: "peer".into(), module, foreign: true, objects: found, rings: 0 })
    }
}

impl Bench {
    /// Counts what a packet costs in each driver's own text, where valgrind is there: of the kinds of packet with `only` in their names.
    /// `program` is `ibdlab`.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn count(&self, program: &Path, only: &str, mut progress: impl FnMut(&str)) -> Result<Report> {
        let drivers = self.drivers()?;
        let mut report = Report { seed: self.seed, machine: about_machine(), ..Report::default() };
        self.count_own(program, only, &drivers, &mut report, &mut progress);
        report.targets = targets::of_own(&report, &drivers);
        report.targets.iter().for_each(|target| progress(&target.line()));
        Ok(report)
    }

    fn drivers(&self) -> Result<Vec<Driver>> {
        let peer = self.peer.as_deref().map(Driver::at).transpose()?;
        Ok([Driver::ours()].into_iter().chain(peer).collect())
    }

    fn count_own(
        &self,
        program: &Path,
        only: &str,
        drivers: &[Driver],
        report: &mut Report,
        progress: &mut impl FnMut(&str),
    ) {
        report.instructions = match own::missing() {
            Some(why) => why,
            None if self.instructions.is_none() => "not counted: not asked for".into(),
            None => "counted by callgrind, of the driver's own text".into(),
        };
        progress(&format!("instructions: {}", report.instructions));
        let Some(counted) = self.instructions.filter(|_| own::missing().is_none()) else { return };
        progress(own::HEAD);
        let kinds = own::KINDS.iter().filter(|kind| kind.what.contains(only));
        for (kind, driver) in kinds.flat_map(|kind| drivers.iter().map(move |driver| (kind, driver))) {
            match own::count(self, program, driver, kind, counted) {
                Ok(own) => {
                    progress(&own.line());
                    report.own.push(own);
                }
                Err(error) => progress(&format!("{}: {}: not counted: {error:#}", driver.name, kind.what)),
            }
        }
        self.count_paths(program, only, drivers, counted, report, progress);
    }

    /// The whole path of what is sent one a call, by each driver and by the bare loop.
    fn count_paths(
        &self,
        program: &Path,
        only: &str,
        drivers: &[Driver],
        counted: u64,
        report: &mut Report,
        progress: &mut impl FnMut(&str),
    ) {
        let kinds = own::KINDS.iter().filter(|kind| kind.what.contains(only) && kind.is_sent_alone());
        let senders = || drivers.iter().map(|driver| (driver, false)).chain([(&drivers[0], true)]);
        progress(own::PATH_HEAD);
        for (kind, (driver, bare)) in kinds.flat_map(|kind| senders().map(move |sender| (kind, sender))) {
            match own::whole_path(self, program, driver, bare, kind, counted) {
                Ok(path) => {
                    progress(&path.line());
                    report.paths.push(path);
                }
                Err(error) => progress(&format!("{}: {}: not counted: {error:#}", driver.name, kind.what)),
            }
        }
    }

    /// Measures everything there is; `progress` hears of each line of the table as it is found.
    ///
    /// # Errors
    ///
    /// What is missing, or what went wrong on the way.
    pub fn run(&self, mut progress: impl FnMut(&str)) -> Result<Report> {
        let drivers = self.drivers()?;
        if self.peer.is_none() {
            progress("PEER not given: our driver, the bare loop and the lab's own primitives");
        }
        progress(&format!("seed {}, {}, {} to send in a call", self.seed, about_machine(), self.chain));
        let machine = Machine::new(Config::timed(self.seed));
        let (inner, bench, subjects) = (machine.clone(), self.clone(), drivers.clone());
        let (sender, receiver) = mpsc::channel();
        let outcome = std::thread::scope(|scope| {
            let running =
                scope.spawn(move || machine.run(move || bench.on_machine(&inner, &subjects, &sender)));
            // Ends when the machine's first thread has dropped its end, or a halt has taken the thread away.
            while let Some(line) = next(&receiver, || running.is_finished()) {
                progress(&line);
            }
            running.join()
        });
        let outcome = outcome.map_err(|_| anyhow!("the bench panicked"))?;
        let mut report = outcome.map_err(|halt| anyhow!("{halt}"))??;
        self.rejoin_groups(&drivers, &mut report, &mut progress);
        self.count_own(&std::env::current_exe()?, "", &drivers, &mut report, &mut progress);
        report.targets = targets::judge(&report, &drivers, self.mtu, self.sa_delay.as_nanos() as u64);
        report.targets.iter().for_each(|target| progress(&target.line()));
        Ok(report)
    }

    fn rejoin_groups(&self, drivers: &[Driver], report: &mut Report, progress: &mut impl FnMut(&str)) {
        for driver in drivers {
            match sa::rejoin(self, driver, self.sa_delay) {
                Ok(fact) => {
                    progress(&fact.line());
                    report.facts.push(fact);
                }
                Err(error) => {
                    progress(&format!("groups joined again by {}: not measured: {error:#}", driver.name))
                }
            }
        }
    }

    /// The rows that depend on how long the subnet administrator takes.
    fn with_slow_sa(&self, bed: &Bed, report: &mut Report, say: &impl Fn(String)) -> Result<()> {
        let delay = self.sa_delay;
        say(format!("SA delay {} us: {}", delay.as_micros(), self.sa_delay_source));
        report.sa_delay = format!("{} us: {}", delay.as_micros(), self.sa_delay_source);
        bed.delay_sa(delay)?;
        if self.most_addresses >= 10_000 {
            let load = traffic::Load { way: traffic::Way::Transmit, addresses: 10_000, flows: 1, len: 64 };
            measure_row(bed, self, load, delay.as_nanos() as u64, report, say);
        }
        Ok(())
    }

    fn on_machine(&self, machine: &Machine, drivers: &[Driver], progress: &Sender<String>) -> Result<Report> {
        // Whoever listens does so until this ends.
        let say = |line: String| drop(progress.send(line));
        let bed = Bed::build(machine, drivers, &self.proto, self.seed, self.mtu)?;
        let mut report = Report { seed: self.seed, machine: about_machine(), ..Report::default() };
        for subject in &bed.subjects {
            let (before, after) = subject.memory;
            report.facts.push(Fact {
                what: "kernel memory of a link at rest".into(),
                driver: subject.driver.name.clone(),
                value: (after - before) as f64 / f64::from(1 << 20),
                unit: "MiB".into(),
            });
        }
        calibrate(&bed, self, &mut report, &say)?;
        say(report::HEAD.into());
        for load in rows::loads(self) {
            measure_row(&bed, self, load, 0, &mut report, &say);
        }
        self.with_slow_sa(&bed, &mut report, &say)?;
        for fact in &report.facts {
            say(fact.line());
        }
        Ok(report)
    }
}

/// Figures of the lab itself, which both drivers pay alike, and of a loop without a driver.
fn calibrate(bed: &Bed, bench: &Bench, report: &mut Report, say: &impl Fn(String)) -> Result<()> {
    let subject = &bed.subjects[0];
    for (name, ns) in subject.host.kernel.primitive_costs() {
        say(format!("calibration: {name}: {ns:.1} ns"));
        report.calibration.push(Primitive { name: name.into(), ns });
    }
    let driver = bare::load(bed, subject)?;
    for len in [64, bench.mtu as usize - 4] {
        let bare = traffic::bare(bed, subject, len, bench, &driver);
        say(format!(
            "bare loop, what any driver must do to send: {len} bytes: {:.1} ns, {} sent, {} lost",
            bare.ns_per_packet,
            bare.sent,
            bare.sent - bare.arrived
        ));
        report.bare.push(bare);
    }
    Ok(())
}

fn measure_row(
    bed: &Bed,
    bench: &Bench,
    load: traffic::Load,
    delay_ns: u64,
    report: &mut Report,
    say: &impl Fn(String),
) {
    for row in rows::row(bed, bench, load, delay_ns) {
        say(report::line(&row));
        report.rows.push(row);
    }
}

/// The next line, or `None` once the run is over and everything it said was heard.
fn next(lines: &Receiver<String>, over: impl Fn() -> bool) -> Option<String> {
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if over() => return lines.try_recv().ok(),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Processor and kernel this runs on, as far as they can be read.
fn about_machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{processors} x {}, Linux {}", model.unwrap_or("?"), kernel.trim())
}
