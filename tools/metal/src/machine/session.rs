//! Questions to the agent and its answers, with an eye on the console.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::console::{Console, Panic, is_over, panic_in};

/// Why a run cannot go on.
#[derive(Debug, Error)]
pub enum Trouble {
    /// The kernel has panicked.
    #[error("the kernel panicked: {}", .0.message)]
    Panic(Panic),
    /// Neither an answer nor a word on the console for so long. `alive`: the agent still reads, one of its processes hangs.
    #[error("{process} {words}: no answer and nothing on the console for {seconds} s; {}", if *.alive { "the agent answers, the call does not return" } else { "the agent does not answer either" })]
    Silence {
        /// The process that was asked.
        process: String,
        /// What it was asked.
        words: String,
        /// How long.
        seconds: u64,
        /// Whether the agent itself still answers.
        alive: bool,
    },
    /// QEMU has ended.
    #[error("the machine is gone ({0})")]
    Gone(String),
    /// The agent says what is none of its answers.
    #[error("the agent says '{0}'")]
    Nonsense(String),
}

/// A command that the kernel or the agent refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}: errno {errno}")]
pub struct Refusal {
    /// 0 if it is not the kernel that refused.
    pub errno: u32,
    /// Which call, or why.
    pub what: String,
}

/// The answer to a command: words, and `name=value` pairs among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// As it came, without number and `ok`.
    pub text: String,
}

impl Fields {
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The value of `name` as a number, decimal or hexadecimal after `0x`.
    pub fn number(&self, name: &str) -> Option<u64> {
        let value = self.get(name)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }

    /// All pairs, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words().filter_map(|word| word.split_once('='))
    }

    /// All words, in order.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ').filter(|word| !word.is_empty())
    }
}

/// What a command gave.
pub type Outcome = Result<Fields, Refusal>;

/// A command that is being done.
#[derive(Debug)]
#[must_use = "the answer has to be waited for"]
pub struct Ticket {
    id: u32,
    process: String,
    words: String,
}

/// A line to the agent.
pub struct Session {
    to: UnixStream,
    lines: Receiver<String>,
    answers: BTreeMap<u32, Outcome>,
    last: u32,
    console: Console,
    machine: Option<Child>,
    /// The greeting has come.
    greeted: bool,
    /// What was asked and answered, with the time, for whoever has to find out what happened.
    transcript: Option<File>,
    began: Instant,
}

impl Session {
    /// Speaks over `stream` to the agent of the machine whose console is logged in `console`.
    ///
    /// # Errors
    ///
    /// The stream cannot be shared with the thread that reads it.
    #[expect(clippy::disallowed_methods, reason = "a machine in QEMU lives in real time")]
    pub fn new(stream: UnixStream, console: Console, machine: Option<Child>) -> std::io::Result<Self> {
        let from = stream.try_clone()?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let transcript = File::create(console.file().with_extension("transcript")).ok();
        let (answers, began) = (BTreeMap::new(), Instant::now());
        Ok(Self { to: stream, lines, answers, last: 0, console, machine, greeted: false, transcript, began })
    }

    /// The console.
    pub fn console(&self) -> &Console {
        &self.console
    }

    /// Waits for the agent's greeting.
    ///
    /// # Errors
    ///
    /// The kernel panicked, or nothing happened on the console for `quiet`.
    pub fn greeting(&mut self, quiet: Duration) -> Result<(), Trouble> {
        self.wait_for("the kernel", "boot", quiet, |session| session.greeted.then_some(()))
    }

    /// Begins a command.
    ///
    /// # Errors
    ///
    /// The line is gone.
    pub fn begin(&mut self, process: &str, words: &str) -> Result<Ticket, Trouble> {
        self.last += 1;
        let line = format!("{} {process} {words}\n", self.last);
        self.note(">", line.trim());
        self.to.write_all(line.as_bytes()).map_err(|e| self.gone(&e.to_string()))?;
        Ok(Ticket { id: self.last, process: process.to_owned(), words: words.to_owned() })
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// The kernel panicked, or nothing happened for `quiet`.
    pub fn finish(&mut self, ticket: Ticket, quiet: Duration) -> Result<Outcome, Trouble> {
        let Ticket { id, process, words } = ticket;
        self.wait_for(&process, &words, quiet, |session| session.answers.remove(&id))
    }

    /// Does a command.
    ///
    /// # Errors
    ///
    /// As [`Session::finish`].
    pub fn ask(&mut self, process: &str, words: &str, quiet: Duration) -> Result<Outcome, Trouble> {
        let ticket = self.begin(process, words)?;
        self.finish(ticket, quiet)
    }

    #[expect(clippy::disallowed_methods, reason = "a machine in QEMU lives in real time")]
    fn wait_for<T>(
        &mut self,
        process: &str,
        words: &str,
        quiet: Duration,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Trouble> {
        let (mut heard, mut length) = (Instant::now(), self.console.length());
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            match self.lines.recv_timeout(Duration::from_millis(100).min(quiet)) {
                Ok(line) => {
                    self.take(&line)?;
                    heard = Instant::now();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.at_the_end()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let grown = self.console.length();
            if grown != length {
                (heard, length) = (Instant::now(), grown);
                if self.has_panicked() {
                    return Err(self.at_the_end());
                }
            }
            if heard.elapsed() > quiet {
                return Err(self.silence(process, words, quiet));
            }
        }
    }

    fn take(&mut self, line: &str) -> Result<(), Trouble> {
        let nonsense = || Trouble::Nonsense(line.to_owned());
        if line.is_empty() {
            return Ok(());
        }
        self.note("<", line);
        let (id, rest) = line.split_once(' ').ok_or_else(nonsense)?;
        let id: u32 = id.parse().map_err(|_| nonsense())?;
        if id == 0 {
            self.greeted = true;
            return Ok(());
        }
        let (verdict, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let outcome = match verdict {
            "ok" => Ok(Fields { text: rest.to_owned() }),
            "no" => {
                let (errno, what) = rest.split_once(' ').unwrap_or((rest, ""));
                Err(Refusal { errno: errno.parse().map_err(|_| nonsense())?, what: what.to_owned() })
            }
            _ => return Err(nonsense()),
        };
        self.answers.insert(id, outcome);
        Ok(())
    }

    /// A line of the transcript; a run does not end because it cannot be written.
    fn note(&mut self, way: &str, line: &str) {
        let passed = self.began.elapsed().as_millis();
        if let Some(file) = &mut self.transcript {
            let _ = writeln!(file, "{passed:>8} {way} {line}");
        }
    }

    fn has_panicked(&self) -> bool {
        self.console.text().is_ok_and(|text| panic_in(&text).is_some() || is_over(&text))
    }

    /// The console has said that it is over, or the line was cut: what was it? The kernel is given time to print its stack.
    fn at_the_end(&mut self) -> Trouble {
        let mut length = 0;
        for _ in 0..50 {
            let text = self.console.text().unwrap_or_default();
            if is_over(&text) && self.console.length() == length {
                break;
            }
            length = self.console.length();
            thread::sleep(Duration::from_millis(100));
        }
        match panic_in(&self.console.text().unwrap_or_default()) {
            Some(panic) => Trouble::Panic(panic),
            None => self.gone("the line is cut"),
        }
    }

    fn gone(&mut self, why: &str) -> Trouble {
        let ended = self.machine.as_mut().and_then(|machine| machine.try_wait().ok().flatten());
        Trouble::Gone(ended.map_or_else(|| why.to_owned(), |status| format!("QEMU: {status}")))
    }

    /// Nothing for so long: does the agent itself answer?
    fn silence(&mut self, process: &str, words: &str, quiet: Duration) -> Trouble {
        let mut alive = false;
        if process != "router" && self.greeted {
            let short = quiet.min(Duration::from_secs(10));
            alive = self.ask("router", "hello", short).is_ok();
        }
        if self.has_panicked() {
            return self.at_the_end();
        }
        Trouble::Silence {
            process: process.to_owned(),
            words: words.to_owned(),
            seconds: quiet.as_secs(),
            alive,
        }
    }

    /// Switches the machine off, and kills it if it does not go by itself.
    pub fn end(mut self) {
        let quiet = Duration::from_secs(10);
        let orderly = self.machine.is_some() && self.ask("router", "off", quiet).is_ok();
        let Some(mut machine) = self.machine.take() else { return };
        for _ in 0..if orderly { 50 } else { 0 } {
            if matches!(machine.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        kill(&mut machine);
    }
}

/// A machine does not outlive its session, whatever ends that.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(machine) = &mut self.machine {
            kill(machine);
        }
    }
}

fn kill(machine: &mut Child) {
    // It may be gone already.
    let _ = machine.kill();
    let _ = machine.wait();
}
