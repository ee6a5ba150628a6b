//! Where the programs are.

use std::path::{Path, PathBuf};

use crate::Error;

/// The programs and the library that OpenSM on ibsim is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    pub(crate) opensm: PathBuf,
    pub(crate) ibsim: PathBuf,
    pub(crate) umad2sim: PathBuf,
    pub(crate) setpriv: PathBuf,
}

/// Where administrators' programs are when PATH is a user's.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];
/// Under these, at any depth of one.
const LIBRARIES: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
const UMAD2SIM: &str = "umad2sim/libumad2sim.so";

impl Tools {
    /// Looks for them.
    ///
    /// # Errors
    /// [`Error::Missing`], for the first that is not there.
    pub fn find() -> Result<Self, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::find_in(std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from)))
    }

    /// The same, with another OpenSM.
    #[must_use]
    pub fn with_opensm(self, opensm: impl Into<PathBuf>) -> Self {
        Self { opensm: opensm.into(), ..self }
    }

    fn find_in(directories: impl Iterator<Item = PathBuf>) -> Result<Self, Error> {
        let directories: Vec<PathBuf> = directories.collect();
        let command = |what, package| {
            let mut candidates = directories.iter().map(|directory| directory.join(what));
            candidates.find(|candidate| candidate.is_file()).ok_or(Error::Missing { what, package })
        };
        Ok(Self {
            opensm: command("opensm", "opensm")?,
            ibsim: command("ibsim", "ibsim-utils")?,
            setpriv: command("setpriv", "util-linux")?,
            umad2sim: library().ok_or(Error::Missing { what: "libumad2sim.so", package: "libumad2sim0" })?,
        })
    }
}

fn library() -> Option<PathBuf> {
    let roots = LIBRARIES.iter().map(Path::new);
    let below = roots.clone().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
    let all = roots.map(Path::to_owned).chain(below.map(|entry| entry.path()));
    all.map(|directory| directory.join(UMAD2SIM)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_opensm_is_named_with_its_package_in_one_line() {
        let nowhere = Tools::find_in([PathBuf::from("/nowhere")].into_iter()).expect_err("nothing is there");
        assert_eq!(
            nowhere.to_string(),
            "OpenSM needs opensm, which is not installed: apt-get install opensm"
        );
    }
}
