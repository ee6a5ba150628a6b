//! A process that makes copies of itself for runs: what every run would do before its first step (find its libraries, see that the
//! objects are those of the sources) is done once, and a copy has one thread, which takes locks for nothing ([`lab_lock::settle`]).
//! A copy does some runs, one after the other, until one fails.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lab_lock::Copy;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
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
            // Its copies give no memory back between runs: they would fetch it again, page by page.
            .env("MIMALLOC_PURGE_DELAY", "-1")
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
    let mut runner = None;
    for line in io::stdin().lines() {
        let line = line?;
        let answer = carry_out(&mut runner, &line, &run).map_err(|why| format!("{why:#}"));
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

/// Has a copy do what the order says; false if it had to be killed.
fn carry_out(runner: &mut Option<Runner>, order: &str, run: &impl Fn(Order) -> u8) -> Result<bool> {
    let mut own = match runner.take() {
        Some(runner) => runner,
        None => {
            read_objects(&serde_json::from_str::<Order>(order).context("an order")?.proto);
            Runner::new(run)?
        }
    };
    writeln!(own.orders, "{order}").context("a copy of this process has died")?;
    let end = own.wait()?;
    match end {
        End::MoreToCome => *runner = Some(own),
        End::Last | End::Killed => drop(own.copy.wait().context("waiting for a run")?),
    }
    Ok(end != End::Killed)
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

/// Runs that one copy does: it keeps its memory, which a new one gets from the system page by page.
const RUNS: u32 = 128;
/// What a copy says after a run that was not its last.
const MORE_TO_COME: u8 = b'+';

/// A copy of the starter, seen from there.
struct Runner {
    copy: Copy,
    orders: PipeWriter,
    answers: PipeReader,
}

/// How a run ended for the copy that did it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    MoreToCome,
    /// It has ended, by itself.
    Last,
    /// It used too much time, and was killed.
    Killed,
}

impl Runner {
    fn new(run: &impl Fn(Order) -> u8) -> Result<Self> {
        let (orders, to_copy) = io::pipe().context("a pipe")?;
        let (answers, from_copy) = io::pipe().context("a pipe")?;
        let ours = RefCell::new(Some((to_copy, answers)));
        let copy = lab_lock::copy(|| {
            // The copy sees the end of its orders when the starter dies only if it cannot write them itself.
            ours.take();
            obey(BufReader::new(orders), from_copy, run)
        })
        .context("cannot copy this process")?;
        let (orders, answers) = ours.take().context("the copy has the pipes")?;
        Ok(Self { copy, orders, answers })
    }

    fn wait(&mut self) -> Result<End> {
        let patience = Patience::with(self.copy.id());
        let pid = i32::try_from(self.copy.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        let a_while = Timespec::try_from(Duration::from_millis(200)).context("a fifth of a second")?;
        let events = PollFlags::IN;
        while poll(&mut [PollFd::new(&self.answers, events)], Some(&a_while)).context("waiting for a run")?
            == 0
        {
            if patience.is_over() {
                // It may have ended by itself meanwhile.
                let _ = kill_process(pid, Signal::KILL);
                return Ok(End::Killed);
            }
        }
        let mut said = [0];
        let more = self.answers.read(&mut said).context("waiting for a run")? == 1 && said == [MORE_TO_COME];
        Ok(if more { End::MoreToCome } else { End::Last })
    }
}

/// The life of a copy: runs until one fails, or there have been enough; 0 if all was well.
fn obey(mut orders: impl BufRead, mut answers: PipeWriter, run: &impl Fn(Order) -> u8) -> u8 {
    for left in (0..RUNS).rev() {
        let mut line = String::new();
        if !orders.read_line(&mut line).is_ok_and(|len| len > 0) {
            return 0;
        }
        let Ok(order) = serde_json::from_str::<Order>(&line) else { return 1 };
        if redirect(&order.errors).is_err() || !lab_lock::settle() {
            return 1;
        }
        let code = run(order);
        // What a failed run leaves behind is not for the next one.
        if code != 0 || left == 0 {
            return code;
        }
        if answers.write_all(&[MORE_TO_COME]).is_err() {
            return 0;
        }
    }
    0
}

/// What is said from now on goes to a file, and what is printed nowhere.
fn redirect(errors: &Path) -> Result<()> {
    let errors = File::create(errors).with_context(|| errors.display().to_string())?;
    let nowhere = File::options().write(true).open("/dev/null").context("/dev/null")?;
    dup2_stdout(&nowhere).context("standard output")?;
    dup2_stderr(&errors).context("standard error")
}
