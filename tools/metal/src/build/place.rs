//! Where one kernel's files are.

use std::path::{Path, PathBuf};

/// A gate, and the directory of a kernel built from it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The gate that is compiled: it holds `usr/src`.
    pub gate: PathBuf,
    /// What is made.
    pub out: PathBuf,
    /// With the kernel's own checks.
    pub debug: bool,
}

impl Place {
    /// The gate's sources.
    pub fn src(&self) -> PathBuf {
        self.gate.join("usr/src")
    }

    /// The kernel's part of them.
    pub fn uts(&self) -> PathBuf {
        self.src().join("uts")
    }

    /// Headers and sources that are made.
    pub fn generated(&self) -> PathBuf {
        self.out.join("generated")
    }

    /// Objects of `unit`, `intel/ip`.
    pub fn objects(&self, unit: &str) -> PathBuf {
        self.out.join("objects").join(unit.replace('/', "."))
    }

    /// The root file system.
    pub fn root(&self) -> PathBuf {
        self.out.join("root")
    }
}

/// `path` without `.` and `..`, whatever links there are: the gate is a tree of links, and `..` of a link is elsewhere.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_go() {
        assert_eq!(plain(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
