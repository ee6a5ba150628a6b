//! OpenSM on ibsim, from its start to its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sm::records::{ClassPortInfo, McMemberRecord, PortInfo, Record, SmInfo, mc_member_mask, parse_table};
use sm::{
    Arrival, Attribute, Gid, Guid, Lid, Mad, Method, PKey, Partition, PortState, Qpn, SaMad, Sl, SmAddress,
    Status,
};

use crate::client::Client;
use crate::dump::{self, Group};
use crate::process::{Keeper, Process, Workplace};
use crate::protocol::{self, Packet};
use crate::sa::{Incoming, SaChannel, whole_table};
use crate::smp::{Route, SmpError, attribute};
use crate::snapshot::{Snapshot, unicast, via_linked};
use crate::topology::MANAGER;
use crate::watch::Poll;
use crate::{Error, Tools, Topology, config};

/// Takes the MADs of subnet administration for a port. Called on a thread of the connection; records and returns.
pub type Sink = Arc<dyn Fn(Guid, Arrival) + Send + Sync>;

/// How long a program may take until it does what it is for. Generous: a busy machine is no reason to fail.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long OpenSM may take to answer a question of ours before it is asked again.
const SA_PATIENCE: Duration = Duration::from_secs(2);
const SA_ATTEMPTS: u32 = 5;
/// OpenSM's `sa_key`: who knows it is shown who is in a group.
const SA_KEY: u64 = 1;

const PARTITIONS: &str = "partitions.conf";
const DUMP: &str = "opensm-sa.dump";

/// A real OpenSM and the ibsim under it. Dropping it ends both and removes their directory; so does the end of this process,
/// whatever it dies of.
pub struct OpenSm {
    // Dropped in this order: the clients say good-bye before ibsim goes, and processes write until they end.
    clients: Vec<Client>,
    programs: Mutex<Programs>,
    keeper: Keeper,
    workplace: Workplace,
    tools: Tools,
    socket: String,
    topology: Topology,
    shared: Arc<Shared>,
}

struct Programs {
    opensm: Option<Process>,
    ibsim: Process,
}

/// What the connections' threads use.
#[derive(Default)]
struct Shared {
    sink: Mutex<Option<Sink>>,
    channels: Mutex<BTreeMap<Guid, SaChannel>>,
    cut: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn receive(&self, port: Guid, packet: &Packet) {
        let incoming = locked(&self.channels).entry(port).or_default().incoming(&packet.mad, packet.len);
        let (mads, cut) = match incoming {
            Incoming::Deliver(mads) => (mads, false),
            Incoming::Cut(mad) => {
                self.cut.fetch_add(1, Ordering::Relaxed);
                (vec![*mad], true)
            }
            Incoming::Nothing => return,
        };
        // ibsim tells neither service level nor P_Key.
        let from =
            SmAddress { lid: packet.slid, sl: Sl::default(), qpn: packet.qp, p_key: PKey::DEFAULT_FULL };
        let sink = locked(&self.sink).clone();
        for mad in mads {
            if let Some(sink) = &sink {
                sink(port, Arrival { from, mad, cut });
            }
        }
    }
}

impl OpenSm {
    /// Starts ibsim with `topology`, connects its adapters, starts OpenSM with `partitions`, and waits until it has brought
    /// every port up and answers. Blocks for some tenths of a second.
    ///
    /// # Errors
    /// Which program did not come up, with the end of its log; nothing is left of either.
    pub fn start(tools: Tools, topology: Topology, partitions: &[Partition]) -> Result<Self, Error> {
        let workplace = Workplace::new()?;
        let keeper = Keeper::new()?;
        let socket = private_name();
        workplace.write("net", &topology.netfile())?;
        workplace.write(PARTITIONS, &config::partitions_conf(partitions)?)?;
        workplace.write(
            "opensm.conf",
            &config::options(&workplace.path().display().to_string(), partitions, topology.lmc()),
        )?;
        let ibsim = start_ibsim(&tools, &keeper, &workplace, &socket)?;
        let shared = Arc::new(Shared::default());
        let clients = connect(&topology, &socket, &shared)?;
        let programs = Mutex::new(Programs { opensm: None, ibsim });
        let this = Self { clients, programs, keeper, workplace, tools, socket, topology, shared };
        this.start_manager()?;
        this.wait_until_up()?;
        Ok(this)
    }

    /// The subnet as it was asked for.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What a program has in its environment that reaches this subnet through umad2sim, as another client of an adapter: libibumad
    /// then finds one adapter, `ibsim0`. Its working directory has to be writable.
    ///
    /// # Errors
    /// [`Error::UnknownPort`].
    pub fn client_environment(&self, port: Guid) -> Result<[(&'static str, OsString); 3], Error> {
        let adapters = self.topology.adapters();
        let adapter = adapters.iter().find(|adapter| adapter.port == port).ok_or(Error::UnknownPort(port))?;
        Ok([
            ("LD_PRELOAD", self.tools.umad2sim.clone().into()),
            ("IBSIM_SOCKNAME", self.socket.clone().into()),
            ("SIM_HOST", adapter.name.clone().into()),
        ])
    }

    /// Where subnet administration's MADs go from now on.
    pub fn set_sink(&self, sink: Option<Sink>) {
        *locked(&self.shared.sink) = sink;
    }

    /// Sends a client's MAD from QP 1 of `port` to QP 1 at `dlid`. Does not wait: the answer, if there is one, goes to the
    /// sink.
    ///
    /// # Errors
    /// [`Error::UnknownPort`].
    pub fn send(&self, port: Guid, dlid: Lid, mad: &Mad) -> Result<(), Error> {
        let client = self.client(port)?;
        let outgoing = locked(&self.shared.channels).entry(port).or_default().outgoing(mad);
        if let Some(mad) = outgoing {
            // A MAD that is lost is asked for again by whoever sent it.
            let _ = client.send_mad(dlid, &mad);
        }
        Ok(())
    }

    /// Answers that ibsim may have cut, and that were passed on as such.
    pub fn answers_cut(&self) -> u64 {
        self.shared.cut.load(Ordering::Relaxed)
    }

    /// What OpenSM has decided.
    ///
    /// # Errors
    /// Why an adapter or the switch did not answer.
    pub fn snapshot(&self) -> Result<Snapshot, SmpError> {
        Snapshot::read(&self.clients, &self.topology)
    }

    /// Where the switch sends unicast packets: which LID to which adapter's port, up to `last`.
    ///
    /// # Errors
    /// Why the switch did not answer; [`SmpError::Undeliverable`] if no adapter has a link to it.
    pub fn unicast_routes(&self, last: Lid) -> Result<BTreeMap<Lid, Guid>, SmpError> {
        via_linked(&self.clients, |client| unicast(client, &self.topology, last))?
            .ok_or(SmpError::Undeliverable)
    }

    /// Asks the master for its SMInfo, at the LID that the first active port has for it.
    pub fn poll_manager(&self) -> Poll {
        let asked = via_linked(&self.clients, |client| {
            let data = client.get(Route::Own, attribute::PORT_INFO, 1)?;
            let info = PortInfo::parse(&data).unwrap_or_default();
            if info.port_state != PortState::Active.to_wire() {
                return Err(SmpError::Undeliverable);
            }
            if !info.master_sm_lid.is_unicast() {
                return Ok(Poll::Nobody);
            }
            Ok(match client.get(Route::Lid(info.master_sm_lid), attribute::SM_INFO, 0) {
                Ok(data) => SmInfo::parse(&data).map_or(Poll::Silence, Poll::Answer),
                Err(SmpError::Undeliverable) => Poll::Nobody,
                Err(_) => Poll::Silence,
            })
        });
        asked.map_or(Poll::Silence, |poll| poll.unwrap_or(Poll::NoPort))
    }

    /// Whether subnet administration answers the ports now.
    pub fn answers(&self) -> bool {
        let request = |transaction| {
            SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, transaction, 0)
                .with_record(&ClassPortInfo::default())
        };
        via_linked(&self.clients, |client| ask(client, &request(client.next_transaction()), SA_PATIENCE))
            .is_ok_and(|answer| answer.is_some_and(|(answer, _)| answer.status == Status::SUCCESS))
    }

    /// Whether `port` is in the group, by one query narrow enough for ibsim.
    ///
    /// # Errors
    /// [`Error::Unanswered`].
    pub fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, Error> {
        let record = McMemberRecord {
            mgid,
            port_gid: Gid::of_port(Gid::DEFAULT_PREFIX, port),
            ..McMemberRecord::default()
        };
        let mask = mc_member_mask::MGID | mc_member_mask::PORT_GID;
        let members: Vec<McMemberRecord> = self.query(mask, &record)?;
        Ok(members.iter().any(|member| member.port_gid.guid == port.0))
    }

    /// A trusted GetTable from the first port with a link.
    fn query<R: Record>(&self, mask: u64, record: &R) -> Result<Vec<R>, Error> {
        let mut last = SmpError::Undeliverable;
        for _ in 0..SA_ATTEMPTS {
            let asked = via_linked(&self.clients, |client| {
                let request =
                    SaMad::request(Method::GET_TABLE, R::ATTRIBUTE, client.next_transaction(), mask);
                ask(client, &SaMad { sm_key: SA_KEY, ..request }.with_record(record), SA_PATIENCE)
            });
            match asked {
                Ok(Some((answer, len))) => return table(&answer, len),
                Ok(None) => {}
                Err(error) => last = error,
            }
        }
        Err(Error::Unanswered(format!("a query of {:?}: {last}", R::ATTRIBUTE)))
    }

    /// Pulls or plugs the cable of `port`, and waits until that is done. OpenSM is told by the switch's trap.
    ///
    /// # Errors
    /// [`Error::UnknownPort`]; [`Error::Io`], [`Error::Ended`] and [`Error::NotReady`] when ibsim does not do it.
    pub fn set_link(&self, port: Guid, plugged: bool) -> Result<(), Error> {
        let adapters = self.topology.adapters();
        let adapter = adapters.iter().find(|adapter| adapter.port == port).ok_or(Error::UnknownPort(port))?;
        let verb = if plugged { "ReLink" } else { "Unlink" };
        let client = self.client(port)?;
        let is_done = || {
            let data = client.get(Route::Own, attribute::PORT_INFO, 1).ok()?;
            let info = PortInfo::parse(&data)?;
            ((info.port_physical_state == LINK_UP) == plugged).then_some(())
        };
        let ibsim = &mut locked(&self.programs).ibsim;
        ibsim.type_line(&format!("{verb} \"{}\"[1]", adapter.name))?;
        ibsim.wait_ready(PATIENCE, is_done)
    }

    /// Other partitions from now on: OpenSM reads the file again.
    ///
    /// # Errors
    /// [`Error::Partition`], [`Error::Ended`].
    pub fn set_partitions(&self, partitions: &[Partition]) -> Result<(), Error> {
        self.workplace.write(PARTITIONS, &config::partitions_conf(partitions)?)?;
        // One that was stopped reads the file when it starts.
        let runs = locked(&self.programs).opensm.is_some();
        if runs { self.hang_up() } else { Ok(()) }
    }

    /// Kills OpenSM. The subnet goes on as it is.
    pub fn stop_manager(&self) {
        locked(&self.programs).opensm = None;
        // ibsim notices that a client is gone when it writes to it, and only then has its place back.
        self.poll_manager();
    }

    /// OpenSM hangs, or goes on: it is there and does nothing. When this returns none of its threads runs any more.
    ///
    /// # Errors
    /// [`Error::Unanswered`] if it was stopped.
    pub fn hang_manager(&self, hung: bool) -> Result<(), Error> {
        if !hung {
            return self.signal(Signal::CONT).map(drop);
        }
        let pid = self.signal(Signal::STOP)?;
        // The signal reaches a thread that runs on another processor a moment later.
        for _ in 0..LOOKS {
            if is_stopped(pid) {
                return Ok(());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(Error::Unanswered("it does not stop".to_owned()))
    }

    /// Starts OpenSM, in the place of the one that may run. Does not wait for it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn start_manager(&self) -> Result<(), Error> {
        self.stop_manager();
        let directory = self.workplace.path();
        let log = directory.join("opensm.log");
        let output = directory.join("opensm.out");
        let opensm = Process::start(&self.keeper, &self.tools, "opensm", &log, &output, |command| {
            // Not before `env`: every program that has it connects to ibsim.
            let mut preload = std::ffi::OsString::from("LD_PRELOAD=");
            preload.push(&self.tools.umad2sim);
            command.arg(preload).arg(&self.tools.opensm);
            command.args([
                "-F",
                "opensm.conf",
                "-e",
                "-f",
                "opensm.log",
                "-P",
                PARTITIONS,
                "-D",
                "0x07",
                "-d",
                "2",
            ]);
            // Its console, for the one thing that has no signal: a light sweep, which ends with a dump.
            command.args(["-q", "local"]).stdin(Stdio::piped());
            command.env("OSM_CACHE_DIR", directory).env("OSM_TMP_DIR", directory);
            command.env("IBSIM_SOCKNAME", &self.socket).env("SIM_HOST", MANAGER);
            command.current_dir(directory);
        })?;
        locked(&self.programs).opensm = Some(opensm);
        Ok(())
    }

    /// Waits until OpenSM has brought up every port that has a link, and answers.
    ///
    /// # Errors
    /// What it did instead, with the end of its log.
    pub fn wait_until_up(&self) -> Result<(), Error> {
        let is_up = || {
            let snapshot = self.snapshot().ok()?;
            let is_linked = |info: &PortInfo| info.port_physical_state == LINK_UP;
            let mut linked = snapshot.ports.values().filter(|port| is_linked(&port.info));
            let active = linked.all(|port| port.info.port_state == PortState::Active.to_wire());
            (active && self.answers()).then_some(())
        };
        let mut programs = locked(&self.programs);
        programs.ibsim.check()?;
        programs.opensm.as_mut().map_or(Ok(()), |opensm| opensm.wait_ready(PATIENCE, is_up))
    }

    /// An error if a program has ended that should not have.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn check(&self) -> Result<(), Error> {
        let mut programs = locked(&self.programs);
        programs.ibsim.check()?;
        programs.opensm.as_mut().map_or(Ok(()), Process::check)
    }

    /// The groups and their members as OpenSM itself last wrote them down, and makes it write them again. It does so at the
    /// end of a light sweep if something changed, so what has just happened is found by asking again.
    ///
    /// # Errors
    /// [`Error::Unanswered`] if it has written nothing.
    #[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
    pub fn dump(&self) -> Result<Vec<Group>, Error> {
        self.check()?;
        if let Some(opensm) = &mut locked(&self.programs).opensm {
            opensm.type_line("resweep light")?;
        }
        let file = self.workplace.path().join(DUMP);
        let end = Instant::now() + PATIENCE;
        let mut before = None;
        loop {
            let text = std::fs::read_to_string(&file).ok();
            // Twice the same: it is not being written just now.
            if text.is_some()
                && text == before
                && let Some(groups) = text.as_deref().and_then(dump::parse)
            {
                return Ok(groups);
            }
            before = text;
            self.check()?;
            if Instant::now() >= end {
                return Err(Error::Unanswered(format!("no {DUMP} after {PATIENCE:?}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes OpenSM read its files again and sweep.
    fn hang_up(&self) -> Result<(), Error> {
        self.signal(Signal::HUP).map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<Pid, Error> {
        self.check()?;
        let id = locked(&self.programs).opensm.as_ref().map(Process::id);
        let pid = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| Error::Unanswered("it was stopped".to_owned()))?;
        kill_process(pid, signal).map_err(|errno| Error::io("opensm")(errno.into()))?;
        Ok(pid)
    }

    fn client(&self, port: Guid) -> Result<&Client, Error> {
        self.clients.iter().find(|client| client.port == port).ok_or(Error::UnknownPort(port))
    }
}

/// Whether a stopped program is stopped is looked at so often.
const LOOKS: u32 = 10_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Whether all threads of a program are stopped, or gone (proc(5): the state follows the name in parentheses).
fn is_stopped(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    states.all(|stat| stat.rsplit_once(") ").is_none_or(|(_, rest)| !rest.starts_with(['R', 'S', 'D'])))
}

/// PortInfo's physical state of a port with a link.
const LINK_UP: u8 = 5;

/// A name for ibsim's sockets that nobody else on the machine has.
fn private_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("ibdlab-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn start_ibsim(
    tools: &Tools,
    keeper: &Keeper,
    workplace: &Workplace,
    socket: &str,
) -> Result<Process, Error> {
    let log = workplace.path().join("ibsim.log");
    let mut ibsim = Process::start(keeper, tools, "ibsim", &log, &log, |command| {
        command.arg(&tools.ibsim).args(["-s", "net"]).env("IBSIM_SOCKNAME", socket);
        // Not /dev/null: at the end of its input ibsim spins.
        command.current_dir(workplace.path()).stdin(Stdio::piped());
    })?;
    let listens = || {
        let probe = std::os::unix::net::UnixDatagram::unbound().ok()?;
        probe.connect_addr(&protocol::address(socket, "ctl", None).ok()?).ok()
    };
    ibsim.wait_ready(PATIENCE, listens)?;
    Ok(ibsim)
}

fn connect(topology: &Topology, socket: &str, shared: &Arc<Shared>) -> Result<Vec<Client>, Error> {
    // The numbers ibsim's library takes are process IDs; these are above all of them.
    const FIRST_ID: u32 = 1 << 30;
    let adapters = topology.adapters().iter().zip(FIRST_ID..);
    let connect = |(adapter, id): (&crate::Adapter, u32)| {
        let (shared, port) = (shared.clone(), adapter.port);
        Client::connect(socket, id, adapter, Arc::new(move |packet| shared.receive(port, packet)))
    };
    adapters.map(connect).collect()
}

/// Asks the administrator that `client`'s port has; the answer and how much of it means something.
fn ask(client: &Client, request: &SaMad, patience: Duration) -> Result<(SaMad, usize), SmpError> {
    let info = client.get(Route::Own, attribute::PORT_INFO, 1)?;
    let info = PortInfo::parse(&info).unwrap_or_default();
    if !info.master_sm_lid.is_unicast() {
        return Err(SmpError::Undeliverable);
    }
    let packet = client.exchange(&Packet::to(info.master_sm_lid, Qpn::GSI, request.emit()), patience)?;
    let answer = SaMad::parse(&packet.mad).map_err(|_| SmpError::Timeout)?;
    Ok((answer, packet.len))
}

/// The records of a table; one that may have been cut is an error.
fn table<R: Record>(answer: &SaMad, len: usize) -> Result<Vec<R>, Error> {
    if answer.status != Status::SUCCESS {
        return Err(Error::Unanswered(format!("a query of {:?}: {:?}", R::ATTRIBUTE, answer.status)));
    }
    let data = whole_table(answer, len)
        .ok_or_else(|| Error::Unanswered(format!("more {:?}s than ibsim carries", R::ATTRIBUTE)))?;
    Ok(parse_table(data, answer.attribute_offset))
}
