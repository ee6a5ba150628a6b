//! Whose objects a host runs: ours, or illumos's own in C where the environment says so.
//!
//! `C_OBJECTS` names the directory of the C objects `mac_ib` and `ibp`, `C_HOSTS` the hosts that run them, `C_HELD_TO` the rules
//! for which what they are known to do wrong ends the run all the same.

use std::env;
use std::path::PathBuf;

use conformance::probe::{shipped, workspace_root};
use fakekernel::{Suppression, Suppressions};

/// Where the C objects are.
pub const OBJECTS: &str = "C_OBJECTS";
/// Names of the hosts that run them, with commas.
pub const HOSTS: &str = "C_HOSTS";
/// Numbers of the rules they are held to, with commas.
pub const HELD_TO: &str = "C_HELD_TO";
/// What a test says that asks the C driver for something that only ours has: such a failure shows nothing.
pub const NOTHING_TO_COMPARE: &str = "nothing to compare: the C driver does not have";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Ours,
    Illumos,
}

fn listed(variable: &str) -> Vec<String> {
    let text = env::var(variable).unwrap_or_default();
    text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

impl Origin {
    /// Whose objects the host of that name runs.
    pub fn of(host: &str) -> Self {
        let theirs = env::var_os(OBJECTS).is_some() && listed(HOSTS).iter().any(|name| name == host);
        if theirs { Self::Illumos } else { Self::Ours }
    }

    /// The file of a module of `kind`, `drv` or `mac`.
    pub fn object(self, kind: &str, name: &str) -> PathBuf {
        match self {
            Self::Ours => shipped(kind, name),
            Self::Illumos => {
                PathBuf::from(env::var_os(OBJECTS).expect("it is there, or this is ours")).join(name)
            }
        }
    }

    /// Ends the test where it looks at what only our driver has.
    #[track_caller]
    pub fn must_be_ours(self, kind: &str, name: &str) {
        assert!(self == Self::Ours, "{NOTHING_TO_COMPARE} {kind} `{name}`");
    }
}

/// What the C objects are known to do wrong, on the hosts that run them.
pub fn suppressions() -> Suppressions {
    if env::var_os(OBJECTS).is_none() {
        return Suppressions::default();
    }
    let known = ibdlab::suppress::load(&workspace_root().join("scenarios/suppress/illumos-ibp.toml"));
    let held_to = listed(HELD_TO);
    let known = known.expect("the known violations").0;
    let known = known.into_iter().filter(|entry| !held_to.contains(&entry.rule.number().to_string()));
    let on = |host: String| known.clone().map(move |entry| Suppression { host: Some(host.clone()), ..entry });
    Suppressions(listed(HOSTS).into_iter().flat_map(on).collect())
}
