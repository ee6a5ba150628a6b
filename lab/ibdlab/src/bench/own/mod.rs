//! What a packet costs in the driver's own text: instructions, and those of them that are locked, exact and the same on a busy machine.
//!
//! The program runs itself under callgrind, once with few packets and once with more. The difference of the two runs has no warm-up, no
//! beginning and no end in it. What callgrind tells is how often the instruction at each address was run; the run itself says where the
//! functions of the driver's modules lie, with their code. What is in none of them is the lab's, stubs of imports among it.
//!
//! The whole path of a packet that is sent (`path`) is counted in the same way over the whole process.

mod code;
mod path;
mod profile;
mod watched;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::calls::Calls;
use super::traffic::{BURST, Handing, Load, Way};
use super::{Bench, Driver};
use code::Code;
pub use path::{BARE, PATH_HEAD, WholePath, whole_path};
pub use watched::{Told, drive};

/// Packets before those that count.
const WARM_UP: u64 = 2048;
/// How many count, if nobody says otherwise.
pub const COUNTED: u64 = 10_240;
/// How often a foreign driver is tried, each time with the next seed: in some orders of its threads illumos's driver in C tells a link's
/// state before there is a link.
const TRIES: u64 = 6;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub what: &'static str,
    pub way: Way,
    /// Bytes of an IP packet.
    pub len: usize,
    pub handing: Handing,
}

/// All to one address, which the driver knows.
pub const KINDS: [Kind; 6] = [
    Kind { what: SENT, way: Way::Transmit, len: 64, handing: Handing { burst: BURST, chain: 1 } },
    Kind { what: SENT_IN_CHAINS, way: Way::Transmit, len: 64, handing: Handing { burst: BURST, chain: 16 } },
    Kind { what: SENT_LARGE, way: Way::Transmit, len: 2044, handing: Handing { burst: BURST, chain: 1 } },
    Kind { what: COPIED, way: Way::Receive, len: 64, handing: Handing { burst: BURST, chain: 1 } },
    Kind { what: LENT, way: Way::Receive, len: 2044, handing: Handing { burst: BURST, chain: 1 } },
    Kind { what: ALONE, way: Way::Receive, len: 64, handing: Handing { burst: 1, chain: 1 } },
];

/// As `mac` hands them out.
pub const SENT: &str = "64 bytes sent, one a call";
/// The same with as much as a datagram of an MTU of 2048 holds.
pub const SENT_LARGE: &str = "2044 bytes sent, one a call";
/// As the owner of a ring may.
pub const SENT_IN_CHAINS: &str = "64 bytes sent, 16 a call";
/// The driver copies these.
pub const COPIED: &str = "64 bytes received";
/// And lends these.
pub const LENT: &str = "2044 bytes received";
/// With an interrupt for each.
pub const ALONE: &str = "64 bytes received, each alone";

impl Kind {
    /// One address, one flow.
    pub const fn load(&self) -> Load {
        Load { way: self.way, addresses: 1, flows: 1, len: self.len }
    }

    /// Whether each packet is sent by a call of its own.
    pub const fn is_sent_alone(&self) -> bool {
        matches!(self.way, Way::Transmit) && self.handing.chain == 1
    }
}

/// What was counted, per packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Own {
    pub what: String,
    pub driver: String,
    /// Instructions in the text of the driver and its plugin.
    pub instructions: f64,
    /// Those of them that lock the bus: with the prefix, or exchanges with memory.
    pub locked: f64,
    /// `mutex_enter` and its kin.
    pub locks: f64,
    /// `atomic_*`, which are locked instructions of the kernel's.
    pub atomics: f64,
    /// Where the instructions are: functions with one or more per packet.
    pub functions: BTreeMap<String, f64>,
    /// The same for locked ones: functions with one in a hundred packets or more.
    pub locked_in: BTreeMap<String, f64>,
}

pub const HEAD: &str = "driver  per packet                       instructions    locked     locks   atomics";

impl Own {
    /// As a line below [`HEAD`].
    pub fn line(&self) -> String {
        let Self { driver, what, instructions, locked, locks, atomics, .. } = self;
        format!("{driver:<6}  {what:<32} {instructions:>12.1} {locked:>9.2} {locks:>9.2} {atomics:>9.2}")
    }
}

/// Why nothing can be counted, or `None` if it can be.
pub fn missing() -> Option<String> {
    let known =
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match known {
        Ok(status) if status.success() => None,
        _ => Some("not counted: valgrind is not installed".into()),
    }
}

/// Counts one kind of packet, over `counted` of them. `program` is `ibdlab`.
///
/// # Errors
///
/// What valgrind says when it cannot run the lab, or that packets were lost.
pub fn count(bench: &Bench, program: &Path, driver: &Driver, kind: &Kind, counted: u64) -> Result<Own> {
    let directory = tempfile::tempdir()?;
    let run =
        |packets| Drive { driver, kind, packets, made: 0, bare: false }.run(bench, program, directory.path());
    let (few, more) = (run(WARM_UP)?, run(WARM_UP + counted)?);
    let packets = more.arrived - few.arrived;
    ensure!(packets == counted, "{}: {packets} of {counted} packets arrived", kind.what);
    let per = |count: u64| count as f64 / counted as f64;
    let of_function = |count: fn(&code::Count) -> u64, least: f64| {
        let name = |name: &str| format!("{:#}", rustc_demangle::demangle(name));
        let mut functions: BTreeMap<String, f64> = BTreeMap::new();
        for (symbol, counted) in &more.functions {
            let before = few.functions.get(symbol).map_or(0, count);
            *functions.entry(name(symbol)).or_default() += per(count(counted).saturating_sub(before));
        }
        functions.retain(|_, count| *count >= least);
        functions
    };
    let calls = Calls::of_named(&more.calls).since(&Calls::of_named(&few.calls)).per(counted);
    Ok(Own {
        what: kind.what.into(),
        driver: driver.name.clone(),
        instructions: per(more.total(|count| count.instructions) - few.total(|count| count.instructions)),
        locked: per(more.total(|count| count.locked) - few.total(|count| count.locked)),
        locks: calls.locks,
        atomics: calls.atomics,
        functions: of_function(|count| count.instructions, 1.0),
        locked_in: of_function(|count| count.locked, 0.01),
    })
}

/// One run, whole.
struct Run {
    functions: BTreeMap<String, code::Count>,
    /// Instructions of the process.
    process: u64,
    calls: BTreeMap<String, u64>,
    arrived: u64,
}

impl Run {
    fn total(&self, count: fn(&code::Count) -> u64) -> u64 {
        self.functions.values().map(count).sum()
    }
}

/// What a run is to do.
struct Drive<'a> {
    driver: &'a Driver,
    kind: &'a Kind,
    packets: u64,
    /// See [`Watched::made`](super::traffic::Watched::made).
    made: u64,
    /// The bare loop sends, in the driver's place.
    bare: bool,
}

impl Drive<'_> {
    fn run(&self, bench: &Bench, program: &Path, directory: &Path) -> Result<Run> {
        let one = |seed| self.under_valgrind(bench, program, seed, directory);
        let again = if self.driver.foreign { 1..TRIES } else { 1..1 };
        again.fold(one(bench.seed), |before, n| before.or_else(|_| one(bench.seed + n)))
    }

    fn under_valgrind(&self, bench: &Bench, program: &Path, seed: u64, directory: &Path) -> Result<Run> {
        let (costs, told) = (directory.join("costs"), directory.join("told"));
        let mut command = Command::new("valgrind");
        command
            .args([
                "--tool=callgrind",
                "--quiet",
                "--dump-instr=yes",
                "--compress-strings=no",
                "--compress-pos=no",
            ])
            .arg(format!("--callgrind-out-file={}", costs.display()))
            .arg(program)
            .args(self.arguments(bench, seed))
            .arg("--tell")
            .arg(&told)
            .arg("--proto")
            .arg(&bench.proto);
        if self.driver.foreign {
            command.arg("--peer").arg(bench.peer.as_deref().unwrap_or(Path::new("")));
        }
        let output = command.stdin(Stdio::null()).output().context("valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "valgrind cannot run the lab: {}",
            said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no word")
        );
        let told = Told::read(&told)?;
        let costs = std::fs::read_to_string(&costs).with_context(|| costs.display().to_string())?;
        let runs = profile::by_address(&costs);
        Ok(Run {
            functions: Code::new(&told.functions).count(&runs),
            process: runs.values().sum(),
            calls: told.calls,
            arrived: told.arrived,
        })
    }

    fn arguments(&self, bench: &Bench, seed: u64) -> Vec<String> {
        let Self { kind, packets, made, bare, .. } = self;
        let Handing { burst, chain } = kind.handing;
        let mut words = vec!["bench".to_owned(), "--drive".to_owned(), kind.way.name().to_owned()];
        let numbers = [
            ("--bytes", kind.len as u64),
            ("--chain", chain as u64),
            ("--burst", burst as u64),
            ("--packets", *packets),
            ("--made", *made),
            ("--seed", seed),
            ("--mtu", u64::from(bench.mtu)),
        ];
        words.extend(numbers.iter().flat_map(|(name, number)| [(*name).to_owned(), number.to_string()]));
        words.extend(bare.then(|| "--bare".to_owned()));
        words
    }
}
