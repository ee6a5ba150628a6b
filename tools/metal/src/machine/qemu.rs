//! QEMU with a kernel in it.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::archive::{Contents, Identity, pack};
use super::console::Console;
use super::debugger::Debugger;
use super::session::{Session, Trouble};

/// How long a kernel may say nothing while it boots.
const BOOT: Duration = Duration::from_secs(90);

/// The console is the first serial port, the root is the archive.
const BOOT_PROPERTIES: &str = "-B console=ttya,fstype=hsfs";

/// The socket at which a debugger may attach.
const DEBUGGER: &str = "debugger";

/// The kernel below a root, as multiboot wants it.
const KERNEL: &str = "platform/i86pc/kernel/amd64/unix";

/// What is booted.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The kernel's root file system; nothing in it is changed.
    pub root: PathBuf,
    /// Laid over it in this order.
    pub overlays: Vec<PathBuf>,
    /// Paths that are left out, below the root.
    pub without: Vec<&'static str>,
    /// The agent, as a program.
    pub agent: PathBuf,
    /// Which driver attaches.
    pub identity: Identity,
    /// Processors.
    pub cpus: u32,
    /// Lines of `/etc/system`.
    pub system: String,
    /// Files that this run has, by their paths.
    pub files: Vec<(&'static str, String)>,
    /// Where the archive, the console's log and the rest of this run go.
    pub work: PathBuf,
    /// Has the instructions counted: by which plugin, into which file.
    pub counts: Option<(PathBuf, PathBuf)>,
}

/// A kernel that runs, with an agent that listens.
pub struct Machine {
    /// The line to the agent.
    pub session: Session,
    /// Sockets of QEMU; removed at the end.
    sockets: tempfile::TempDir,
    /// Where the files of the modules are, the last ones first.
    trees: Vec<PathBuf>,
}

impl Machine {
    /// Boots.
    ///
    /// # Errors
    ///
    /// The archive cannot be made, QEMU does not start, or the kernel does not come as far as the agent.
    pub fn boot(setup: &Setup) -> Result<Self> {
        std::fs::create_dir_all(&setup.work).with_context(|| setup.work.display().to_string())?;
        let work = setup.work.canonicalize()?;
        let kernel = setup.root.join(KERNEL);
        if !kernel.exists() {
            bail!("{} is not there: metal build makes it", kernel.display());
        }
        let archive = work.join("boot_archive");
        let contents = Contents {
            root: &setup.root,
            overlays: &setup.overlays,
            without: &setup.without,
            init: &setup.agent,
            identity: setup.identity,
            cpus: setup.cpus,
            system: &setup.system,
            files: &setup.files,
        };
        pack(&contents, &work.join("stage"), &archive)?;
        // The path of a socket is short.
        let sockets = tempfile::tempdir().context("a place for sockets")?;
        let control = sockets.path().join("control");
        let listener = UnixListener::bind(&control).context("the agent's socket")?;
        let log = work.join("console");
        std::fs::write(&log, "").context("the console's log")?;
        let mut child = start(setup, &kernel.canonicalize()?, &archive, &log, &control)?;
        let stream = accept(&listener, &mut child)?;
        let mut session = Session::new(stream, Console::new(&log), Some(child))?;
        session.greeting(BOOT).map_err(|trouble| boot_failed(&trouble, session.console()))?;
        let trees = setup.overlays.iter().rev().chain([&setup.root]).cloned().collect();
        Ok(Self { session, sockets, trees })
    }

    /// The line, and for a debugger what must not be dropped before it.
    pub fn apart(self) -> (Session, Debugger) {
        (self.session, Debugger::new(self.sockets, DEBUGGER, self.trees))
    }
}

fn boot_failed(trouble: &Trouble, console: &Console) -> anyhow::Error {
    anyhow::anyhow!("the kernel did not boot: {trouble}\n{}", console.tail(12))
}

/// QEMU's end of the agent's line.
fn accept(listener: &UnixListener, child: &mut Child) -> Result<std::os::unix::net::UnixStream> {
    listener.set_nonblocking(true)?;
    for _ in 0..100 {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e).context("the agent's socket"),
        }
        if let Some(status) = child.try_wait()? {
            bail!("qemu-system-x86_64 ended at once ({status})");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // It does not end by itself.
    let _ = child.kill();
    let _ = child.wait();
    bail!("qemu-system-x86_64 did not take up the agent's line")
}

fn start(setup: &Setup, kernel: &Path, archive: &Path, log: &Path, control: &Path) -> Result<Child> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-machine", "pc", "-cpu", "qemu64", "-display", "none", "-no-reboot", "-monitor", "none"]);
    qemu.args(["-m", if setup.cpus > 1 { "1536" } else { "1024" }, "-smp", &setup.cpus.to_string()]);
    qemu.arg("-serial").arg(format!("file:{}", log.display()));
    qemu.arg("-chardev").arg(format!("socket,id=control,path={}", control.display()));
    qemu.args(["-serial", "chardev:control"]);
    qemu.arg("-kernel").arg(kernel).arg("-append").arg(BOOT_PROPERTIES);
    qemu.arg("-initrd").arg(format!("{} type=rootfs", archive.display()));
    if let Some((plugin, counts)) = &setup.counts {
        qemu.arg("-plugin").arg(format!("{},counts={}", plugin.display(), counts.display()));
    }
    let debugger = control.with_file_name(DEBUGGER);
    qemu.arg("-chardev").arg(format!("socket,id=debugger,path={},server=on,wait=off", debugger.display()));
    qemu.args(["-gdb", "chardev:debugger"]);
    qemu.stdin(Stdio::null()).stdout(Stdio::null());
    qemu.spawn().context("qemu-system-x86_64 is not there: tools/setup.sh metal installs it")
}
