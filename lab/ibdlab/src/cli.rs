//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

use crate::bench::traffic::{BURST, Way};
use crate::bench::{Bench, own, sa};
use crate::campaign::{Campaign, STARTER, Search, StrategyKind};
use crate::desk::client;
use crate::desk::fabric::Action;
use crate::desk::frame_files;
use crate::objects::{ATOMICS, COUNTING, RACES, SHIPPED};
use crate::report::{HcaKind, SmKind};
use crate::sa::{Question, What};
use crate::scenario::ModuleOverride;

/// illumos hosts with real kernel modules on a software InfiniBand fabric.
#[derive(Debug, Parser)]
#[command(name = "ibdlab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario to its end: exit 0 if every step went well, 1 if one did not.
    Run(RunArgs),
    /// Run a scenario under gdb, which knows the modules' functions.
    Debug(DebugArgs),
    /// Search schedules and faults for what breaks: exit 0 if nothing does. Failures are kept, made small, as scenarios.
    Campaign(CampaignArgs),
    /// Start a lab that stays up: hosts boot on one fabric and wait for commands.
    Up(UpArgs),
    /// Run a program with a host's commands on its path: `ibdlab exec alice -- dladm show-link`.
    Exec(ExecArgs),
    /// A shell with a host's commands on its path.
    Shell(ShellArgs),
    /// How a lab is: hosts, links, addresses, packets.
    Status(StatusArgs),
    /// Pull and plug cables, restart the subnet manager, list the groups.
    Fabric(FabricArgs),
    /// Ask the subnet administrator, by MADs from a host's port: groups, members, paths, ports, nodes, partitions.
    Sa(SaArgs),
    /// Capture the frames of the fabric, or the packets of a link, in a file that tshark and Wireshark read.
    Capture(CaptureArgs),
    /// Send frames from a file as they are: destination, IPoIB header, payload.
    Send(SendArgs),
    /// End a lab. What was configured for good is there when it comes up again.
    Down(LabArgs),
    /// Measure what a packet costs, counted at the receiver.
    Bench(BenchArgs),
    /// What a campaign has its runs started by.
    #[command(name = STARTER, hide = true)]
    StartRuns,
}

/// What OpenSM 3.3.23 on ibsim took on the machine this was written on.
const DEFAULT_SA_DELAY: Duration = Duration::from_micros(150);

/// The longest campaign: a year.
const MINUTES: u64 = 365 * 24 * 60;

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario, a TOML file.
    pub scenario: PathBuf,
    /// Run all threads at once, in real time, instead of one at a time in virtual time.
    #[arg(long)]
    pub live: bool,
    /// The subnet manager.
    #[arg(long, value_enum, default_value_t)]
    pub sm: SmKind,
    /// What the hosts' links are on.
    #[arg(long, value_enum, default_value_t)]
    pub hca: HcaKind,
    /// Another object for a module of one host.
    #[arg(long = "module", value_name = "HOST/NAME=PATH")]
    pub modules: Vec<ModuleOverride>,
    /// What foreign modules are known to do wrong, a TOML file: counted in the report instead of ending the run.
    #[arg(long, value_name = "FILE.toml")]
    pub suppress: Option<PathBuf>,
    /// Where the objects are; those of `make modules` if not said.
    #[arg(long, value_name = "DIR")]
    pub proto: Option<PathBuf>,
    /// Use the objects of `make coverage` and write which of the driver's lines were run.
    #[arg(long, value_name = "DIR")]
    pub coverage: Option<PathBuf>,
    /// Seed of schedule, faults and payload, instead of the scenario's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Write what was found as JSON.
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,
    /// Keep the capture of the fabric: a pcapng file that tshark and Wireshark read.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Print every DTrace probe of the modules that fires, with its arguments.
    #[arg(long)]
    pub probes: bool,
    /// Print every call between mac and the driver, those for packets left out.
    #[arg(long)]
    pub calls: bool,
    /// Add to the report how threads were interleaved in virtual time: what `replay` of a scenario's `[schedule]` repeats.
    #[arg(long, requires = "report")]
    pub decisions: bool,
    /// The report says what was reached: blocks, calls and where they came from, states of links.
    #[arg(long)]
    pub reached: bool,
}

#[derive(Debug, Args)]
pub struct DebugArgs {
    /// The scenario, a TOML file.
    pub scenario: PathBuf,
    /// Only this host's modules; those of all if not said.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Stop at a function of a module: its path, or the end of its path. May be given more than once.
    #[arg(long = "break", value_name = "FUNCTION")]
    pub breaks: Vec<String>,
    /// Where the objects are.
    #[arg(long, value_name = "DIR", default_value = SHIPPED)]
    pub proto: PathBuf,
    /// Seed of schedule, faults and payload, instead of the scenario's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// More arguments of gdb.
    #[arg(last = true, value_name = "GDB-ARGUMENT")]
    pub gdb: Vec<OsString>,
}

impl RunArgs {
    /// A run of this scenario without any option.
    pub fn of(scenario: PathBuf) -> Self {
        Self {
            scenario,
            live: false,
            sm: SmKind::default(),
            hca: HcaKind::default(),
            modules: Vec::new(),
            suppress: None,
            proto: None,
            coverage: None,
            seed: None,
            report: None,
            capture: None,
            probes: false,
            calls: false,
            decisions: false,
            reached: false,
        }
    }

    /// Whether all threads run on the wall clock: asked for, or because a real subnet manager does.
    pub fn live(&self) -> bool {
        self.live || self.sm == SmKind::Opensm
    }

    /// Where the objects are.
    pub fn proto(&self) -> PathBuf {
        let default = if self.coverage.is_some() { COUNTING } else { SHIPPED };
        self.proto.clone().unwrap_or_else(|| default.into())
    }
}

/// Bytes of the headers of a packet that is driven, and of the longest one: a field of IPv4's has 16 bits.
const HEADERS: i64 = 28;
const LONGEST: i64 = 65_535;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Another driver to measure in turn with ours: a directory with `mac_ib` and `ibp`, or the driver's file beside its plugin.
    #[arg(long, value_name = "PATH")]
    pub peer: Option<PathBuf>,
    /// Where the objects of `make modules` are.
    #[arg(long, value_name = "DIR", default_value = SHIPPED)]
    pub proto: PathBuf,
    /// Chooses who runs when several could.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Packets of a measurement.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = value_parser!(u64).range(1..))]
    pub packets: u64,
    /// Measurements of each kind; their median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// MTU of the subnet.
    #[arg(long, value_name = "BYTES", default_value_t = 2048)]
    pub mtu: u32,
    /// Leave out loads with more link addresses.
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub addresses: usize,
    /// How long the subnet administrator takes in the rows where it takes its time; if not given, what a real OpenSM takes.
    #[arg(long, value_name = "N")]
    pub sa_delay_us: Option<u64>,
    /// Only count instructions and locks in the drivers' own text, by valgrind.
    #[arg(long, group = "parts")]
    pub count: bool,
    /// Only measure bulk TCP, so many MiB at a time: on connections, and in datagrams with large sends; and packets as long without TCP.
    #[arg(long, value_name = "MIB", group = "parts", value_parser = value_parser!(u64).range(1..=4096))]
    pub bulk: Option<u64>,
    /// Only measure what so many idle neighbours with a connection each way take of a host's memory.
    #[arg(long, value_name = "N", conflicts_with_all = ["count", "bulk"], value_parser = value_parser!(u64).range(2..=1000))]
    pub peers: Option<u64>,
    /// Only measure with a kernel and an adapter that do next to nothing: our transmit rings on one processor and on two; each way on one processor,
    /// the peer in turn with ours.
    #[arg(long, conflicts_with_all = ["count", "bulk", "peers"])]
    pub processors: bool,
    /// Of `--count` and `--bulk` only the lines with this in them.
    #[arg(long, value_name = "WORDS", default_value = "", requires = "parts")]
    pub only: String,
    /// Do nothing but have one driver, the peer if there is one, carry as many packets as are asked for one way: for a program that watches.
    #[arg(long, value_name = "WAY", conflicts_with = "count")]
    pub drive: Option<Way>,
    /// Bytes of an IP packet that is driven, the headers of IPv4 and UDP among them.
    #[arg(long, value_name = "N", default_value_t = 64, requires = "drive", value_parser = value_parser!(u32).range(HEADERS..=LONGEST))]
    pub bytes: u32,
    /// Packets to send in one call; `mac` hands them out one by one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..), conflicts_with_all = ["parts", "peers", "processors"])]
    pub chain: u16,
    /// Packets before everything that they set off is waited for.
    #[arg(long, value_name = "N", default_value_t = BURST as u32, requires = "drive", value_parser = value_parser!(u32).range(1..=65_536))]
    pub burst: u32,
    /// Make so many packets before the first is sent; those that are not sent are never freed.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "drive", value_parser = value_parser!(u64).range(..=1_000_000))]
    pub made: u64,
    /// Have the bare loop send them, in the driver's place.
    #[arg(long, requires = "drive")]
    pub bare: bool,
    /// Where to write, as JSON, which functions the driver has, and what it called.
    #[arg(long, value_name = "FILE", requires = "drive")]
    pub tell: Option<PathBuf>,
    /// Where the figures go.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
}

impl BenchArgs {
    /// What they ask for.
    pub fn bench(self) -> Bench {
        let (sa_delay, sa_delay_source) = match self.sa_delay_us {
            _ if self.drive.is_some() || self.count => (Duration::ZERO, "nobody asks".into()),
            Some(micros) => (Duration::from_micros(micros), "as asked for".to_owned()),
            None => measured_sa_delay(),
        };
        Bench {
            seed: self.seed,
            proto: self.proto,
            peer: self.peer,
            packets: self.packets,
            rounds: self.rounds,
            mtu: self.mtu,
            chain: usize::from(self.chain),
            most_addresses: self.addresses,
            instructions: Some(own::COUNTED),
            sa_delay,
            sa_delay_source,
        }
    }
}

fn measured_sa_delay() -> (Duration, String) {
    match sa::measure_opensm() {
        Ok(time) => {
            (time, "the median answer of a real OpenSM on ibsim to a path query, measured now".into())
        }
        Err(error) => (DEFAULT_SA_DELAY, format!("assumed, since OpenSM could not be asked: {error:#}")),
    }
}

#[derive(Debug, Args)]
pub struct CampaignArgs {
    /// Chooses the scenarios.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Random fabrics and what is done on them, instead of schedules.
    #[arg(long)]
    pub fabrics: bool,
    /// Every event in the middle of every call that another one makes the driver do, instead of what is drawn: until all are done.
    #[arg(long, conflicts_with = "fabrics")]
    pub pairs: bool,
    /// What the links of schedules are on; if not said, those of one schedule in eight are on the software adapter.
    #[arg(long, value_enum, default_value_t, conflicts_with = "fabrics")]
    pub hca: HcaKind,
    /// In which schedules links open connections (`linkmode` at `cm`).
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["fabrics", "hca"], value_name = "WHICH")]
    pub connections: Connections,
    /// The subnet manager of random fabrics.
    #[arg(long, value_enum, default_value_t, requires = "fabrics")]
    pub sm: SmKind,
    /// Interleave threads by strategies of this kind alone.
    #[arg(long, value_enum, value_name = "KIND")]
    pub strategy: Option<StrategyKind>,
    /// How long to go on; without it and `--schedules`, ten minutes.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(..=MINUTES))]
    pub minutes: Option<u64>,
    /// The number of the first scenario. Those that are made of others depend on what was run before.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first: u64,
    /// How many scenarios to run.
    #[arg(long, value_name = "N")]
    pub schedules: Option<u64>,
    /// Stop at the first failure.
    #[arg(long)]
    pub until_found: bool,
    /// Runs that making one failure small may take.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub shrink_runs: usize,
    /// Processes at a time; as many as there are processors if not said.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Findings and summary.
    #[arg(long, value_name = "DIR", default_value = "target/campaign")]
    pub out: PathBuf,
    /// Where the objects are: `proto/kernel` if not given, where `make modules` puts them. With it, only those of the next three that are
    /// given are used.
    #[arg(long, value_name = "DIR")]
    pub proto: Option<PathBuf>,
    /// Where those of `kmod build --coverage` are, `proto/coverage` if not given; left out if they are not there.
    #[arg(long, value_name = "DIR")]
    pub counting: Option<PathBuf>,
    /// Where those of `kmod build --atomics` are, `proto/atomics` if not given; left out if they are not there.
    #[arg(long, value_name = "DIR")]
    pub atomics: Option<PathBuf>,
    /// Where those of `kmod build --races` are, `proto/races` if not given; left out if they are not there.
    #[arg(long, value_name = "DIR")]
    pub races: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct UpArgs {
    /// The scenario, a TOML file; its steps are for `run` alone.
    pub scenario: PathBuf,
    /// What the lab is called.
    #[arg(long, value_name = "NAME", default_value = client::DEFAULT)]
    pub lab: String,
    /// The subnet manager.
    #[arg(long, value_enum, default_value_t)]
    pub sm: SmKind,
    /// Another object for a module of one host.
    #[arg(long = "module", value_name = "HOST/NAME=PATH")]
    pub modules: Vec<ModuleOverride>,
    /// Where the objects of `make modules` are.
    #[arg(long, value_name = "DIR", default_value = SHIPPED)]
    pub proto: PathBuf,
    /// Have the hosts begin without the files that they keep from labs of this name.
    #[arg(long)]
    pub fresh: bool,
    /// Serve the lab in this process, until it is told to end or interrupted.
    #[arg(long)]
    pub foreground: bool,
}

#[derive(Debug, Args)]
pub struct LabArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// As JSON.
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Once a second, with rates, until the lab ends.
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Args)]
pub struct FabricArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// What to do.
    #[arg(value_enum)]
    pub action: Action,
    /// The host whose cable it is.
    pub host: Option<String>,
    /// The port, 1 if not said.
    pub port: Option<u8>,
}

#[derive(Debug, Args)]
pub struct SaArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// The host that asks; the first one if not said.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Its port, or that of the adapter.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub port: u8,
    /// Ask through this adapter of this machine (libibumad) instead of a lab's host.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["lab", "host"])]
    pub adapter: Option<String>,
    /// The administrator's key, 1 if not said: needed to be told members and P_Keys.
    #[arg(long, value_name = "KEY")]
    pub sm_key: Option<u64>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// What to ask for.
    #[arg(value_enum)]
    pub what: What,
    /// members: a group. paths: from where and to where. Names of hosts and ports, or GIDs.
    pub about: Vec<String>,
}

impl SaArgs {
    /// What they ask.
    pub fn question(&self) -> Question {
        Question { what: self.what, about: self.about.clone(), sm_key: self.sm_key }
    }
}

#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// End after so many packets instead of at an interrupt.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// The capture: pcapng of the fabric, pcap of a link.
    pub file: PathBuf,
    /// The host whose link it is; the fabric if not said.
    #[arg(requires = "link")]
    pub host: Option<String>,
    /// Its link.
    pub link: Option<String>,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// The destination of every frame, 20 octets; for captures that do not have it.
    #[arg(long, value_name = "ADDRESS", value_parser = frame_files::address)]
    pub to: Option<[u8; 20]>,
    /// The host that sends.
    pub host: String,
    /// Its link.
    pub link: String,
    /// Frames: a line of hexadecimal digits each, or a capture of a link.
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// The host.
    pub host: String,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ShellArgs {
    /// The lab, if several are up and IBDLAB_LAB does not name it.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// The host.
    pub host: String,
}

/// Schedules of a campaign in which links open connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Connections {
    /// One in three.
    #[default]
    Some,
    All,
    None,
}

impl CampaignArgs {
    /// What they ask for.
    pub fn campaign(self) -> Campaign {
        let minutes = self.minutes.or((self.schedules.is_none() && !self.pairs).then_some(10));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // Those of this tree are of other sources than objects that somebody names.
        let of_this_tree = self.proto.is_none();
        let found = |named: Option<PathBuf>, usual: &str| {
            let directory = named.or_else(|| of_this_tree.then(|| usual.into()));
            directory.filter(|directory| directory.is_dir())
        };
        Campaign {
            search: match self.hca {
                _ if self.fabrics => Search::Fabrics(self.sm),
                HcaKind::Swhca => Search::Software,
                HcaKind::Model => match self.connections {
                    Connections::Some => Search::Mixed,
                    Connections::All => Search::Connections,
                    Connections::None => Search::Schedules,
                },
            },
            pairs: self.pairs,
            seed: self.seed,
            strategy: self.strategy,
            time: minutes.map(|minutes| Duration::from_secs(minutes * 60)),
            first: self.first,
            scenarios: self.schedules,
            until_found: self.until_found,
            workers: self.workers.unwrap_or(processors),
            shrink_runs: self.shrink_runs,
            out: self.out,
            counting: found(self.counting, COUNTING),
            atomics: found(self.atomics, ATOMICS),
            races: found(self.races, RACES),
            proto: self.proto.unwrap_or_else(|| SHIPPED.into()),
            program: None,
        }
    }
}
