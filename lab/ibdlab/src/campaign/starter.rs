//! A process that makes a copy of itself for each run: what every run would do before its first step (find its libraries, see that the
//! objects are those of the sources) is done once, and a copy has one thread, which takes locks for nothing ([`lab_lock::settle`]).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use serde::{Deserialize, Serialize};

use super::trial::Patience;

/// The hidden command of `ibdlab` that is one.
pub const COMMAND: &str = "start-runs";

/// What a run is to do: `ibdlab run`'s arguments, and the file for what it says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub scenario: PathBuf,
    pub proto: PathBuf,
    pub report: PathBuf,
    pub errors: PathBuf,
    pub decisions: bool,
}

/// The starter of one worker.
#[derive(Debug)]
pub struct Starter {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Starter {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// What keeps the process from being started.
    pub fn new(program: &Path) -> Result<Self> {
        let mut process = Command::new(program)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let missing = || anyhow!("a process without pipes");
        let orders = process.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(process.stdout.take().ok_or_else(missing)?);
        Ok(Self { process, orders, answers })
    }

    /// Has a copy do one run and waits for its end; false if it had to be killed.
    ///
    /// # Errors
    ///
    /// The starter has died, or could not copy itself.
    pub fn run(&mut self, order: &Order) -> Result<bool> {
        let line = serde_json::to_string(order).context("an order in JSON")?;
        writeln!(self.orders, "{line}").context("the process that starts runs has died")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("the process that starts runs has died")?;
        serde_json::from_str::<Result<bool, String>>(&answer)
            .context("the process that starts runs has died")?
            .map_err(|why| anyhow!("a run could not be started: {why}"))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // It waits for orders only.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The life of a starter: an order a line on standard input, an answer a line on standard output, until there are no more. `run` does
/// what an order says, in a copy, and gives its exit code.
///
/// # Errors
///
/// An order or an answer cannot be read or written.
pub fn serve(run: impl Fn(Order) -> u8) -> Result<()> {
    for line in io::stdin().lines() {
        let order: Order = serde_json::from_str(&line?).context("an order")?;
        read_objects(&order.proto);
        let answer = start(order, &run).map_err(|why| format!("{why:#}"));
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

/// The copies know what is found now: whether the objects are those of the sources, and what is in them.
fn read_objects(proto: &Path) {
    for class in ["mac", "drv"] {
        let files = proto.join(class).join("amd64").read_dir().into_iter().flatten().flatten();
        files.map(|file| file.path()).filter(|path| path.extension().is_none()).for_each(|object| {
            let _ = sources::check(&object);
            fakekernel::preload(&object);
        });
    }
}

fn start(order: Order, run: &impl Fn(Order) -> u8) -> Result<bool> {
    let errors = File::create(&order.errors).with_context(|| order.errors.display().to_string())?;
    let nowhere = File::options().write(true).open("/dev/null").context("/dev/null")?;
    let copy = lab_lock::copy(|| {
        if dup2_stdout(&nowhere).is_err() || dup2_stderr(&errors).is_err() || !lab_lock::settle() {
            return 1;
        }
        run(order)
    })
    .context("cannot copy this process")?;
    let ended = wait_for(copy.id())?;
    copy.wait().context("waiting for a run")?;
    Ok(ended)
}

/// False for a process that had to be killed. It is not reaped.
#[expect(clippy::disallowed_methods, reason = "the patience with a process")]
fn wait_for(id: u32) -> Result<bool> {
    let begun = Instant::now();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(|| anyhow!("process {id}"))?;
    let ended = pidfd_open(pid, PidfdFlags::empty()).context("waiting for a run")?;
    let a_while = Timespec::try_from(Duration::from_millis(200)).context("a fifth of a second")?;
    while poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&a_while)).context("waiting for a run")? == 0 {
        if Patience::is_over(id, begun.elapsed()) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::KILL);
            return Ok(false);
        }
    }
    Ok(true)
}
