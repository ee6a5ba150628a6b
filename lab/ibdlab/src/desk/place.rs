//! Where a lab lives: its socket, its log and its commands in a private directory that goes with the session; what its hosts keep
//! for good somewhere else.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Names the directory of all labs, instead of the user's own.
const RUNTIME: &str = "IBDLAB_RUNTIME";
/// Names the directory of all hosts' files, instead of the user's own.
const STATE: &str = "IBDLAB_STATE";

/// The file that a lab has while it ends.
const ENDS: &str = "ends";

/// A lab's directories.
#[derive(Clone, Debug)]
pub struct Place {
    name: String,
    directory: PathBuf,
    state: PathBuf,
}

/// Kept while a daemon serves the lab.
#[derive(Debug)]
pub struct Claim(#[allow(dead_code)] File);

/// Whether a lab is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Up,
    /// Its daemon is gone and has left its directory behind.
    Stale,
    Absent,
}

impl Place {
    /// The directories of a lab of this name. The one for all labs is made, for this user alone.
    ///
    /// # Errors
    ///
    /// A name that is none; a directory that is somebody else's.
    pub fn of(name: &str) -> Result<Self> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 32 || name.starts_with('.') || !name.chars().all(good) {
            bail!("`{name}` is no name for a lab: expected up to 32 letters, digits, `-`, `_`, `.`");
        }
        let directory = root()?.join(name);
        Ok(Self { name: name.to_owned(), state: state_root()?.join(name), directory })
    }

    /// The labs that there are, up or stale.
    ///
    /// # Errors
    ///
    /// As for [`Place::of`].
    pub fn all() -> Result<Vec<Self>> {
        let mut names: Vec<String> =
            fs::read_dir(root()?)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names.iter().filter_map(|name| Self::of(name).ok()).collect())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The commands, as links to `ibdlab`.
    pub fn commands(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// The root of a host's own files.
    pub fn state(&self, host: &str) -> PathBuf {
        self.state.join(host)
    }

    /// What says of which scenario a host's own files are. No host is called so.
    pub fn scenario_of(&self, host: &str) -> PathBuf {
        self.state.join(".scenarios").join(host)
    }

    /// Is there a daemon?
    pub fn presence(&self) -> Presence {
        let Ok(lock) = File::open(self.directory.join("lock")) else {
            return if self.directory.exists() { Presence::Stale } else { Presence::Absent };
        };
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Presence::Up,
            _ => Presence::Stale,
        }
    }

    /// Waits until no other lab of this user is being started; none is while the result is kept.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn turn(&self) -> Result<File> {
        let labs = self.directory.parent().unwrap_or(&self.directory);
        let labs = File::open(labs).with_context(|| labs.display().to_string())?;
        labs.lock().context("waiting for another lab to start")?;
        Ok(labs)
    }

    /// Makes the directory, unless it is there.
    ///
    /// # Errors
    ///
    /// It cannot be made, or is somebody else's.
    pub fn make(&self) -> Result<()> {
        private(&self.directory)
    }

    /// Takes the lab for this process; what a dead daemon left is cleared away. The claim ends with the process at the latest.
    ///
    /// # Errors
    ///
    /// The lab is up; the directory cannot be made.
    pub fn claim(&self) -> Result<Claim> {
        self.make()?;
        let lock = self.directory.join("lock");
        let file = File::options().create(true).append(true).open(&lock);
        let file = file.with_context(|| lock.display().to_string())?;
        // Whoever looks whether it is up has it for a moment.
        let mut patience = 10;
        while file.try_lock().is_err() {
            if patience == 0 {
                bail!("the lab `{}` is up already: `ibdlab down --lab {}` ends it", self.name, self.name);
            }
            patience -= 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        for left in [self.socket(), self.commands(), self.directory.join(ENDS)] {
            if left.is_dir() {
                fs::remove_dir_all(&left)?
            } else if left.exists() {
                fs::remove_file(&left)?
            }
        }
        Ok(Claim(file))
    }

    /// Says that the lab ends, and which host it is about to halt: see [`Place::halts`].
    pub fn ends(&self, host: &str) {
        // It is for a person who waits, and may be missing.
        let _ = fs::write(self.directory.join(ENDS), host);
    }

    /// The host that a lab halts at the moment, if it ends.
    pub fn halts(&self) -> Option<String> {
        fs::read_to_string(self.directory.join(ENDS)).ok()
    }

    /// Makes the links by which the commands are called.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn make_commands(&self, program: &Path, names: impl Iterator<Item = &'static str>) -> Result<()> {
        let directory = self.commands();
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        for name in names {
            symlink(program, directory.join(name)).with_context(|| format!("the link {name}"))?;
        }
        Ok(())
    }

    /// Takes away what a daemon has left, unless there is another one by now.
    pub fn remove_if_stale(&self) {
        if self.presence() == Presence::Stale {
            self.remove();
        }
    }

    /// Takes the directory away. The hosts' files stay.
    pub fn remove(&self) {
        // Out of the way in one step: somebody may be about to claim the name. What cannot be removed is found stale by the next
        // one to come.
        let gone = self.directory.with_file_name(format!(".{}.{}", self.name, std::process::id()));
        if fs::rename(&self.directory, &gone).is_ok() {
            let _ = fs::remove_dir_all(&gone);
        }
    }
}

/// The user's number, by what the kernel says of this process.
fn user() -> Result<u32> {
    Ok(fs::metadata("/proc/self").context("/proc/self")?.uid())
}

/// A directory that nobody else may look into.
fn private(directory: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| directory.display().to_string())?;
    let metadata = fs::symlink_metadata(directory)?;
    if !metadata.is_dir() || metadata.uid() != user()? || metadata.mode() & 0o077 != 0 {
        bail!("{} is not a directory of this user alone", directory.display());
    }
    Ok(())
}

/// A directory that the environment names; one without a text is not named.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Whether root may keep its files below `path`: no other user can put something else in the place of a directory on the way.
/// For anybody else the directory itself is looked at alone.
fn is_safe(path: &Path) -> Result<bool> {
    if user()? != 0 {
        return Ok(true);
    }
    let there = path.ancestors().find_map(|directory| directory.canonicalize().ok()).unwrap_or_default();
    let sticky = 0o1000;
    let safe = |metadata: fs::Metadata| {
        let (mode, group) = (metadata.mode(), if metadata.gid() == 0 { 0 } else { 0o020 });
        metadata.uid() == 0 && (mode & (0o002 | group) == 0 || mode & sticky != 0)
    };
    Ok(there.ancestors().all(|directory| fs::symlink_metadata(directory).is_ok_and(safe)))
}

/// A directory that this variable names, which only `sudo -E` makes another user's: then it is as if it were not set.
fn own(variable: &str) -> Result<Option<PathBuf>> {
    let Some(path) = named(variable) else { return Ok(None) };
    Ok(if is_safe(&path)? { Some(path) } else { None })
}

/// A directory that this variable names for labs and nothing else.
fn meant(variable: &str) -> Result<Option<PathBuf>> {
    let Some(path) = named(variable) else { return Ok(None) };
    if !is_safe(&path)? {
        bail!(
            "{variable}: another user can change what is at {}, so root keeps no lab there",
            path.display()
        );
    }
    Ok(Some(path))
}

fn root() -> Result<PathBuf> {
    let root = match (meant(RUNTIME)?, own("XDG_RUNTIME_DIR")?.filter(|session| session.is_dir())) {
        (Some(root), _) => root,
        (None, Some(session)) => session.join("ibdlab"),
        (None, None) => {
            let temporary = Some(std::env::temp_dir()).filter(|path| is_safe(path).unwrap_or(false));
            temporary.unwrap_or_else(|| "/tmp".into()).join(format!("ibdlab-{}", user()?))
        }
    };
    private(&root)?;
    Ok(root)
}

/// Whoever has no home keeps what they have where the labs are, under a name that is no lab's.
fn state_root() -> Result<PathBuf> {
    if let Some(state) = meant(STATE)? {
        return Ok(state);
    }
    let of_user = own("XDG_STATE_HOME")?.map(|state| state.join("ibdlab"));
    let at_home = own("HOME")?.map(|home| home.join(".local/state/ibdlab"));
    of_user.or(at_home).map_or_else(|| Ok(root()?.join(".state")), Ok)
}
