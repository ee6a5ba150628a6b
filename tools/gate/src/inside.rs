//! Files of a gate, and none outside: a gate may be a stranger's, and its links, devices and pipes may lead anywhere.
//!
//! A path is walked one directory at a time from the top, each opened in the one before without following a link. So a
//! directory that another program swaps for a link meanwhile leads nowhere either. Calls that illumos has too are used.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

/// The largest file that is read, in bytes. The largest source of a gate has a quarter of it.
pub const LARGEST: u64 = 16 << 20;

/// The mode bits that a file keeps when it is replaced: none that give a user's rights away.
const KEPT: u32 = 0o777;

/// A directory whose files are read and written, and nothing beside it.
#[derive(Debug)]
pub struct Inside {
    root: PathBuf,
    top: OwnedFd,
}

/// A file with its content under a name of its own beside its place. It goes when it is dropped.
#[derive(Debug)]
pub struct Beside {
    dir: OwnedFd,
    own: OsString,
    place: OsString,
}

impl Inside {
    /// The directory `root`. Links in `root` itself are the caller's and are followed.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn of(root: &Path) -> Result<Inside> {
        let top = openat(CWD, root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Ok(Inside { root: root.to_path_buf(), top: top.with_context(|| root.display().to_string())? })
    }

    /// The content of `path`, from the top; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// It is a link or behind one, no regular file, larger than [`LARGEST`], or cannot be read.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let (dir, name) = split(path)?;
        let Some(dir) = self.directory(dir)? else { return Ok(None) };
        match regular(&dir, name) {
            Ok(file) => content(file).with_context(|| shown(path)).map(Some),
            Err(error) if error.downcast_ref() == Some(&Errno::NOENT) => Ok(None),
            Err(error) => Err(error.context(shown(path))),
        }
    }

    /// Writes `bytes` beside `path`, with the mode of what is there. Directories that are missing are made and added to `made`.
    ///
    /// # Errors
    ///
    /// As [`Self::read`]; it cannot be written.
    pub fn beside(&self, path: &Path, bytes: &[u8], made: &mut Vec<PathBuf>) -> Result<Beside> {
        let (parent, name) = split(path)?;
        let dir = self.made(parent, made)?;
        let old = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let mode = old.map_or(0o644, |stat| stat.st_mode & KEPT);
        let beside = Beside::new(dir, name).with_context(|| shown(path))?;
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || -> Result<()> {
            let file = File::from(openat(&beside.dir, &beside.own, flags, Mode::empty())?);
            (&file).write_all(bytes)?;
            Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
        };
        write().with_context(|| shown(path))?;
        Ok(beside)
    }

    /// Removes the file `path`, whatever it links to.
    ///
    /// # Errors
    ///
    /// It is behind a link, or cannot be removed.
    pub fn remove(&self, path: &Path) -> Result<()> {
        self.unlink(path, AtFlags::empty())
    }

    /// Removes the directory `path` if it is empty.
    ///
    /// # Errors
    ///
    /// As [`Self::remove`].
    pub fn remove_dir(&self, path: &Path) -> Result<()> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn unlink(&self, path: &Path, flags: AtFlags) -> Result<()> {
        let (dir, name) = split(path)?;
        let dir = self.directory(dir)?.ok_or_else(|| anyhow!("{}: is gone", shown(path)))?;
        unlinkat(&dir, name, flags).with_context(|| shown(path))
    }

    /// The directory `path`, without following a link; `None` if it is not there.
    fn directory(&self, path: &Path) -> Result<Option<OwnedFd>> {
        let mut dir = self.top.try_clone().context("the top of the gate")?;
        for name in names(path)? {
            dir = match below(&dir, name).with_context(|| shown(path))? {
                Some(dir) => dir,
                None => return Ok(None),
            };
        }
        Ok(Some(dir))
    }

    /// The same, made where it is missing.
    fn made(&self, path: &Path, made: &mut Vec<PathBuf>) -> Result<OwnedFd> {
        let mut dir = self.top.try_clone().context("the top of the gate")?;
        let mut walked = PathBuf::new();
        for name in names(path)? {
            walked.push(name);
            if below(&dir, name).with_context(|| shown(path))?.is_none() {
                mkdirat(&dir, name, Mode::from_raw_mode(0o777)).with_context(|| shown(&walked))?;
                made.push(walked.clone());
            }
            let next = below(&dir, name).with_context(|| shown(path))?;
            dir = next.ok_or_else(|| anyhow!("{}: is gone", shown(&walked)))?;
        }
        Ok(dir)
    }

    /// Where this is.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Beside {
    /// An empty file under a name that no other has.
    fn new(dir: OwnedFd, place: &OsStr) -> Result<Beside> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Files of an earlier process of this number may be left; a directory full of them is refused.
        for _ in 0..1000 {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let own = OsString::from(format!(".ipoib.{}.{number}", std::process::id()));
            match openat(&dir, &own, flags, Mode::from_raw_mode(0o600)) {
                Ok(_) => return Ok(Beside { dir, own, place: place.to_owned() }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        bail!("no name is free beside it");
    }

    /// Puts it in its place, over what is there; what that links to stays as it is.
    ///
    /// # Errors
    ///
    /// It cannot be renamed; it is gone then.
    pub fn put(self) -> Result<()> {
        Ok(renameat(&self.dir, &self.own, &self.dir, &self.place)?)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // In its place by now, most often.
        let _ = unlinkat(&self.dir, &self.own, AtFlags::empty());
    }
}

/// The content of the regular file at `path`, wherever links lead: for what is only read.
///
/// # Errors
///
/// It is no regular file, is larger than [`LARGEST`], or cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let real = path.canonicalize().with_context(|| shown(path))?;
    let file = regular(CWD, real.as_os_str()).with_context(|| shown(path))?;
    content(file).with_context(|| shown(path))
}

/// As [`read`], for text.
///
/// # Errors
///
/// As [`read`]; it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|_| anyhow!("{}: not text in UTF-8", shown(path)))
}

/// `path` for a terminal, without what would move its cursor.
pub fn shown(path: &Path) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    path.to_string_lossy().chars().map(escaped).collect()
}

/// A regular file in `dir`, open for reading. Opening a device may do something, so it is looked at before.
fn regular(dir: impl std::os::fd::AsFd, name: &OsStr) -> Result<File> {
    is_regular(statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(&dir, name, flags, Mode::empty())?;
    is_regular(rustix::fs::fstat(&file)?.st_mode)?;
    Ok(File::from(file))
}

fn is_regular(mode: u32) -> Result<()> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => bail!("a symbolic link, which may lead out of the gate"),
        FileType::Directory => bail!("a directory, and a file is expected"),
        _ => bail!("neither a file nor a directory"),
    }
}

fn content(file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        bail!("larger than {} MiB", LARGEST >> 20);
    }
    Ok(bytes)
}

/// A directory in `dir`; `None` if it is not there.
fn below(dir: &OwnedFd, name: &OsStr) -> Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(dir, name, flags, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                bail!("{} is a symbolic link, which may lead out of the gate", shown(Path::new(name)))
            }
            _ => Err(std::io::Error::from(error)).with_context(|| shown(Path::new(name))),
        },
    }
}

/// The names of a path that goes down only.
fn names(path: &Path) -> Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(anyhow!("{}: leads out of the gate", shown(path))),
    };
    path.components().map(name).collect()
}

fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    names(path)?;
    let name = path.file_name().ok_or_else(|| std::io::Error::from(ErrorKind::InvalidInput));
    Ok((path.parent().unwrap_or(Path::new("")), name.with_context(|| shown(path))?))
}
