//! The processes and their directory: started by one thread that lives as long as they do, and gone with this process
//! however it ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Tools;
use crate::error::{Error, tail};

/// Starts processes. The kernel ends them when the thread that started them ends (`PR_SET_PDEATHSIG` knows threads, not
/// processes), so that thread is this one and not the caller's.
pub(crate) struct Keeper {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

type Order = (Command, Sender<io::Result<Child>>);

impl Keeper {
    pub fn new() -> Result<Self, Error> {
        let (orders, inbox) = channel();
        let keep = move || Self::keep(&inbox);
        let thread = std::thread::Builder::new().name("opensm keeper".to_owned()).spawn(keep);
        Ok(Self { orders: Some(orders), thread: Some(thread.map_err(Error::io("a thread"))?) })
    }

    fn keep(inbox: &Receiver<Order>) {
        while let Ok((mut command, answer)) = inbox.recv() {
            // Whoever asked waits for the answer.
            let _ = answer.send(command.spawn());
        }
    }

    /// Runs `command`, which is killed with this keeper.
    fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts processes is gone");
        let (answer, outcome) = channel();
        self.orders.as_ref().ok_or_else(gone)?.send((command, answer)).map_err(|_| gone())?;
        outcome.recv().map_err(|_| gone())?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A running program with its log.
pub(crate) struct Process {
    pub name: &'static str,
    child: Child,
    /// Where it says what it does.
    logs: [PathBuf; 2],
}

impl Process {
    /// Starts `program`, which will be killed by the kernel when the keeper ends. Output goes to `output`; what `log` holds is
    /// shown when it fails.
    pub fn start(
        keeper: &Keeper,
        tools: &Tools,
        name: &'static str,
        log: &Path,
        output: &Path,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, Error> {
        let file = || File::create(output).map_err(Error::io(output.display().to_string()));
        let file = file()?;
        let errors = file.try_clone().map_err(Error::io(name))?;
        let mut command = Command::new(&tools.setpriv);
        command.args(["--pdeathsig", "KILL", "env"]);
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        configure(&mut command);
        let child = keeper.spawn(command).map_err(Error::io(name))?;
        Ok(Self { name, child, logs: [log.to_owned(), output.to_owned()] })
    }

    /// Types a line into its console.
    pub fn type_line(&mut self, line: &str) -> Result<(), Error> {
        let stdin = self.child.stdin.as_mut().ok_or_else(|| io::Error::other("it has no console"));
        let written = stdin
            .and_then(|stdin| stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()));
        written.map_err(Error::io(format!("the console of {}", self.name)))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error if the program has ended.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(Error::io(self.name))? {
            None => Ok(()),
            Some(status) => {
                Err(Error::Ended { program: self.name, status: status.to_string(), tail: tail(&self.logs) })
            }
        }
    }

    /// Waits until `ready` has an answer, for `patience` at most and as long as the program lives.
    #[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
    pub fn wait_ready<T>(
        &mut self,
        patience: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T, Error> {
        const LOOK_AGAIN: Duration = Duration::from_millis(5);
        let end = Instant::now() + patience;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            self.check()?;
            if Instant::now() >= end {
                return Err(Error::NotReady { program: self.name, after: patience, tail: tail(&self.logs) });
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A private directory that goes with this process even if that is killed: a shell waits for the end of its input and removes
/// what is left.
pub(crate) struct Workplace {
    directory: Option<TempDir>,
    janitor: Child,
}

/// Programs that were killed may still be writing, so once is not always enough.
const JANITOR: &str = r#"trap "" INT TERM HUP
read -r line
tries=0
while [ -d "$1" ] && [ "$tries" -lt 100 ]; do
	rm -rf "$1" 2>/dev/null
	tries=$((tries + 1))
	[ -d "$1" ] && sleep 0.1
done"#;

impl Workplace {
    pub fn new() -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("ibdlab-opensm-").tempdir();
        let directory = directory.map_err(Error::io("a temporary directory"))?;
        let mut janitor = Command::new("sh");
        janitor.args(["-c", JANITOR, "janitor"]).arg(directory.path());
        // Not in what it removes, nor in what somebody else may want to.
        janitor
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let janitor = janitor.spawn().map_err(Error::io("sh"))?;
        Ok(Self { directory: Some(directory), janitor })
    }

    pub fn path(&self) -> &Path {
        // It is taken when this is dropped.
        self.directory.as_ref().map_or(Path::new("/nonexistent"), TempDir::path)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let file = self.path().join(name);
        std::fs::write(&file, text).map_err(Error::io(file.display().to_string()))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // The janitor sees to whatever remains.
        drop(self.directory.take());
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}
