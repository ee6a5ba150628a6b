//! Recognising an illumos gate, and what differs between gates.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{git, inside};

/// What every gate has that the modules can be built in.
const LANDMARKS: [&str; 6] = [
    "usr/src/Makefile.master",
    "usr/src/uts/Makefile.uts",
    "usr/src/uts/Makefile.targ",
    "usr/src/uts/common/Makefile.files",
    "usr/src/uts/common/Makefile.rules",
    "usr/src/uts/intel/Makefile.intel",
];

/// The numbers of the manual's sections. They changed in 2022: devices went from 7D to 4D, administration from 1M to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manual {
    /// `man4d`, `man8`.
    Today,
    /// `man7d`, `man1m`.
    Before2022,
}

/// Sections of today that we have pages in or refer to, and what they were called.
const RENUMBERED: [(&str, &str); 7] =
    [("8", "1m"), ("4d", "7d"), ("4p", "7p"), ("4m", "7m"), ("4fs", "7fs"), ("7", "5"), ("5", "4")];

impl Manual {
    /// The name of section `today` in this manual, in lower case.
    pub fn section(self, today: &str) -> &str {
        let found = RENUMBERED.iter().find(|(new, _)| self == Self::Before2022 && *new == today);
        found.map_or(today, |(_, old)| old)
    }
}

/// A checked-out illumos gate under git.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The directory that holds `usr/src`.
    pub root: PathBuf,
    /// How its linker makes a module: with `-ztype=kmod`, or with `-r` and `-dy`.
    pub linker_knows_modules: bool,
    /// The suffix of package manifests: `p5m`, or `mf` before 2021.
    pub manifest_suffix: &'static str,
    /// Where it keeps its manual: as today, or before the sections were renumbered.
    pub manual: Manual,
}

impl Gate {
    /// Recognises the gate at `root`.
    ///
    /// # Errors
    ///
    /// It is no gate, or not one under git; the error says what is missing.
    pub fn open(root: &Path) -> Result<Gate> {
        let gate = Gate::headers(root)?;
        if !root.join(".git").exists() {
            bail!(
                "{}: not the top of a git repository, so what is changed here could not be told",
                root.display()
            );
        }
        Ok(gate)
    }

    /// Recognises a gate of which only the files are wanted; it need not be under git.
    ///
    /// # Errors
    ///
    /// It is no gate; the error says what is missing.
    pub fn headers(root: &Path) -> Result<Gate> {
        let root = root.canonicalize().with_context(|| format!("no gate at {}", root.display()))?;
        if let Some(missing) = LANDMARKS.iter().find(|file| !root.join(file).is_file()) {
            bail!("{}: not an illumos gate as we know it: {missing} is missing", root.display());
        }
        let targ = inside::read(&root.join("usr/src/uts/Makefile.targ"))?;
        let targ = String::from_utf8_lossy(&targ);
        let manifest_suffix = match fs::read_dir(root.join("usr/src/pkg/manifests")) {
            Ok(mut entries) => {
                let old =
                    entries.any(|entry| entry.is_ok_and(|e| e.path().extension().is_some_and(|x| x == "mf")));
                if old { "mf" } else { "p5m" }
            }
            Err(_) => bail!("{}: usr/src/pkg/manifests is missing", root.display()),
        };
        let manual = if root.join("usr/src/man/man4d").is_dir() { Manual::Today } else { Manual::Before2022 };
        Ok(Gate { linker_knows_modules: targ.contains("-ztype=kmod"), manifest_suffix, manual, root })
    }

    /// The tracked files that differ from the last commit, and the files that git neither tracks nor ignores.
    ///
    /// # Errors
    ///
    /// git is missing or fails, or the gate's own configuration would have it run programs.
    pub fn changed(&self) -> Result<BTreeSet<PathBuf>> {
        git::changed(&self.root)
    }

    /// The text of a file of the gate.
    ///
    /// # Errors
    ///
    /// It is not there or is not text.
    pub fn text(&self, path: &str) -> Result<String> {
        inside::read_text(&self.root.join(path)).with_context(|| format!("{} of the gate", path))
    }
}
