//! A lab of a test: `ibdlab` with directories of its own.
#![allow(dead_code)] // Each test file uses its part.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group};

const PATIENCE: Duration = Duration::from_secs(120);

fn process(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).expect("the number of a process")
}

/// To one process, which may have ended.
fn send(to: Pid, signal: Signal) {
    let sent = kill_process(to, signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{signal:?} to {to:?}: {sent:?}");
}

/// To a group of processes, all of which may have ended.
fn send_group(to: Pid, signal: Signal) {
    let sent = kill_process_group(to, signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{signal:?} to the group {to:?}: {sent:?}");
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Leaves the test that calls this out, if there is a reason why this machine cannot run it. `make test` names the test and the
/// reason in its last line.
///
/// # Panics
///
/// `REQUIRE` names `part`: then a machine that has it not is a failure.
pub fn left_out(part: &str, why: Option<String>) -> bool {
    let Some(why) = why else { return false };
    let required = std::env::var("REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name == part), "REQUIRE names {part}: {why}");
    println!("left out: {why}");
    if let Some(list) = std::env::var_os("LEFT_OUT") {
        let binary = std::env::current_exe().expect("this binary");
        let binary = binary.file_stem().unwrap_or_default().to_string_lossy();
        let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
        let test = std::thread::current().name().unwrap_or("?").to_owned();
        let line = format!("{binary}::{test}\t{why}\ttest\n");
        let mut list = OpenOptions::new().append(true).open(list).expect("the list of what is left out");
        list.write_all(line.as_bytes()).expect("written");
    }
    true
}

/// Leaves a test of Linux's programs out where they cannot take part: they need root and `/dev/net/tun`.
pub fn without_linux() -> bool {
    left_out("linux", ibdlab::linux::missing())
}

/// Its labs end with it.
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn runtime(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    /// Where a lab of that name has its socket and its log while it is up.
    pub fn directory_of(&self, lab: &str) -> PathBuf {
        self.runtime().join(lab)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args([&PATIENCE.as_secs().to_string(), env!("CARGO_BIN_EXE_ibdlab")]);
        self.here(command, arguments)
    }

    /// A command line of these labs.
    fn here(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(root());
        command
            .env("IBDLAB_RUNTIME", self.runtime())
            .env("IBDLAB_STATE", self.directory.path().join("state"));
        command.env_remove("IBDLAB_LAB").env_remove("IBDLAB_HOST").stdin(Stdio::null());
        command
    }

    /// What it writes, to either stream, and its exit code.
    pub fn ibdlab(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.command(arguments).output().expect("ibdlab starts");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (said.concat(), output.status.code().unwrap_or(-1))
    }

    /// Starts it and goes on; what it writes to standard error goes into a file.
    pub fn start(&self, arguments: &[&str], said: &str) -> Child {
        let said = File::create(said).expect("a file of the test");
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(said).spawn().expect("ibdlab starts")
    }

    /// As ^C does, to what was started.
    pub fn interrupt(&self, child: &Child) {
        send(process(child.id()), Signal::INT);
    }

    pub fn up(&self, scenario: &Path, more: &[&str]) {
        let scenario = scenario.to_str().expect("a path of this tree");
        let (said, code) = self.ibdlab(&[&["up", scenario], more].concat());
        assert!(code == 0 && said.contains(" is up: alice"), "{said}");
    }

    pub fn down(&self) {
        assert_eq!(self.ibdlab(&["down"]), (String::new(), 0));
    }

    pub fn exec(&self, host: &str, words: &[&str]) -> (String, i32) {
        self.ibdlab(&[&["exec", host, "--"], words].concat())
    }

    /// A program at a host that goes on until it is interrupted.
    pub fn start_at(&self, host: &str, words: &[&str]) -> Listener {
        let command = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
        let mut command = self.here(command, &[&["exec", host, "--"], words].concat());
        Listener(command.process_group(0).spawn().expect("ibdlab starts"))
    }

    /// Starts it as a terminal does, in a process group of its own, and goes on.
    pub fn talk(&self, arguments: &[&str]) -> Talk {
        self.talk_in(arguments, &[])
    }

    /// The same with something in its environment.
    pub fn talk_in(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Talk {
        let mut command = self.here(Command::new(env!("CARGO_BIN_EXE_ibdlab")), arguments);
        command.envs(environment.iter().copied());
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ibdlab starts");
        let said = child.stdout.take().map(BufReader::new).expect("a pipe");
        Talk { child, said }
    }

    /// A command line whose words are divided by blanks.
    pub fn run(&self, host: &str, line: &str) -> (String, i32) {
        self.exec(host, &line.split(' ').collect::<Vec<_>>())
    }

    fn file(&self, host: &str, file: &str) -> PathBuf {
        self.directory.path().join("state/lab").join(host).join(file)
    }

    /// What a process has in its environment that talks to these labs.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        [("IBDLAB_RUNTIME", self.runtime()), ("IBDLAB_STATE", self.directory.path().join("state"))]
    }

    /// A place for a file of the test.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path").to_owned()
    }

    /// A file of a host's root, before the lab comes up.
    pub fn write(&self, host: &str, file: &str, text: &str) {
        let file = self.file(host, file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }

    pub fn read(&self, host: &str, file: &str) -> String {
        fs::read_to_string(self.file(host, file)).unwrap_or_default()
    }

    /// Whether a host's root has a file or a directory of that name.
    pub fn has(&self, host: &str, file: &str) -> bool {
        self.file(host, file).exists()
    }

    pub fn socket(&self, lab: &str) -> PathBuf {
        self.runtime().join(lab).join("socket")
    }

    /// Another process in the place of a lab's daemon: its claim and its socket.
    pub fn stand_in(&self, lab: &str) -> (File, UnixListener) {
        let directory = self.runtime().join(lab);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).expect("made");
        let lock = File::create(directory.join("lock")).expect("made");
        lock.lock().expect("nobody else has it");
        let _ = fs::remove_file(self.socket(lab));
        (lock, UnixListener::bind(self.socket(lab)).expect("bound"))
    }

    pub fn log(&self, lab: &str) -> File {
        File::open(self.runtime().join(lab).join("log")).expect("the log")
    }

    /// Waits until it holds.
    #[expect(clippy::disallowed_methods, reason = "a lab that is up lives on the wall clock")]
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The daemon of a lab: its command line has the name, its environment this directory.
    pub fn daemon(&self, lab: &str) -> Option<Pid> {
        let mine = format!("IBDLAB_RUNTIME={}", self.runtime().display());
        fs::read_dir("/proc").expect("/proc").flatten().find_map(|process| {
            let text = |name: &str| fs::read_to_string(process.path().join(name)).unwrap_or_default();
            let serves = text("cmdline").contains("--foreground") && text("environ").contains(&mine);
            let named = lab == "lab" || text("cmdline").contains(&format!("\0{lab}\0"));
            let number = || Pid::from_raw(process.file_name().to_str()?.parse().ok()?);
            if serves && named { number() } else { None }
        })
    }

    fn signal(&self, lab: &str, signal: Signal) {
        send(self.daemon(lab).expect("the lab is up"), signal);
    }

    pub fn terminate(&self, lab: &str) {
        self.signal(lab, Signal::TERM);
    }

    pub fn kill(&self, lab: &str) {
        self.signal(lab, Signal::KILL);
        // A process that dies loses its command line first and its claim last.
        let claimed = File::open(self.runtime().join(lab).join("lock")).expect("the claim");
        self.until("it is dead", || claimed.try_lock().is_ok());
    }
}

/// See [`Lab::start`].
pub struct Listener(Child);

impl Listener {
    /// As a terminal does on ^C; waits for its end.
    pub fn interrupt(&mut self) {
        send_group(process(self.0.id()), Signal::INT);
        let _ = self.0.wait().expect("it was started");
    }
}

/// See [`Lab::talk`].
pub struct Talk {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Talk {
    /// The next line on its standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        line
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it was started").is_some()
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A signal to it alone.
    pub fn signal_alone(&self, signal: Signal) {
        send(process(self.id()), signal);
    }

    /// A signal to its group, as the terminal sends one.
    pub fn signal(&self, signal: Signal) {
        send_group(process(self.id()), signal);
    }

    /// Waits for its end: the rest of what it says, to either stream, and its exit code, -1 if a signal ended it.
    pub fn end(mut self) -> (String, i32) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        let output = self.child.wait_with_output().expect("it was started");
        (said + &String::from_utf8_lossy(&output.stderr), output.status.code().unwrap_or(-1))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for lab in fs::read_dir(self.runtime()).into_iter().flatten().flatten() {
            let name = lab.file_name().to_string_lossy().into_owned();
            if let Some(daemon) = self.daemon(&name) {
                send(daemon, Signal::KILL);
            }
        }
    }
}
