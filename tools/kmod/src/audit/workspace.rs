//! The rules about the workspace: who depends on whom, and who may be unsafe.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::{Finding, Rule};

/// The crates that may hold unsafe code: the borders to C, the threads below them, the program that makes system calls without a libc,
/// and what compiles files of border crates for loom.
const BORDERS: [&str; 13] = [
    "rust/illumos-sys-hdrs",
    "rust/kernel",
    "rust/gldv3",
    "rust/ibtf",
    "rust/ibtf-provider",
    "lab/lock",
    "lab/sim",
    "lab/fakekernel",
    "lab/gldv3",
    "lab/native",
    "lab/ibtf",
    "tools/metal/agent",
    "tests/interleavings",
];

/// The one crate both sides share: the interface itself.
const INTERFACE: &str = "rust/illumos-sys-hdrs";
/// The numbers of the software adapter's ioctls, which are an interface, too.
const CONTROL: &str = "rust/swhca-ioctl";

/// A workspace member.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its directory below the workspace root, with `/`.
    pub dir: String,
    /// The directories of the members it depends on outside of tests.
    pub depends: Vec<String>,
    /// The names of the crates it depends on that are no members, outside of tests.
    pub foreign: Vec<String>,
}

/// Checks the members of the workspace at `root`.
///
/// # Errors
///
/// cargo fails, or a crate's root cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let packages = packages(root)?;
    let mut findings = dependency_rule(&packages);
    for package in packages.iter().filter(|package| !BORDERS.contains(&package.dir.as_str())) {
        for file in ["src/lib.rs", "src/main.rs"] {
            let path = root.join(&package.dir).join(file);
            if path.exists() {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                if !forbids_unsafe(&text) {
                    let what = format!("{}/{file} does not begin with #![forbid(unsafe_code)]", package.dir);
                    findings.push(Finding::new(Rule::ForbidUnsafe, what));
                }
            }
        }
    }
    Ok(findings)
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let root = &root.canonicalize().with_context(|| root.display().to_string())?;
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec();
    let metadata = metadata.context("cargo metadata")?;
    let dir = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    let members = metadata.packages.iter().map(|package| {
        let shipped =
            package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        let (own, foreign): (Vec<_>, Vec<_>) = shipped.partition(|dependency| dependency.path.is_some());
        Package {
            dir: package.manifest_path.parent().map(|path| dir(path.as_std_path())).unwrap_or_default(),
            depends: own
                .iter()
                .filter_map(|dependency| Some(dir(dependency.path.as_ref()?.as_std_path())))
                .collect(),
            foreign: foreign.iter().map(|dependency| dependency.name.clone()).collect(),
        }
    });
    Ok(members.collect())
}

/// Checks the dependency rule: nothing under `rust/` knows `lab/`; `ipoib` knows nobody; the lab knows nothing under
/// `rust/` but the interfaces.
pub fn dependency_rule(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let dir = &package.dir;
        for on in &package.depends {
            let allowed = if dir == "rust/ipoib" {
                false
            } else if dir.starts_with("rust/") {
                on.starts_with("rust/") && may_use(dir, on)
            } else if dir.starts_with("lab/") {
                !on.starts_with("rust/") || [INTERFACE, CONTROL].contains(&on.as_str())
            } else {
                true
            };
            if !allowed {
                findings.push(Finding::new(Rule::DependencyRule, format!("{dir} depends on {on}")));
            }
        }
        if dir == "rust/ipoib" {
            let foreign = package.foreign.iter().map(|on| format!("{dir} depends on {on}"));
            findings.extend(foreign.map(|what| Finding::new(Rule::DependencyRule, what)));
        }
    }
    findings
}

/// Whether the shipped crate `dir` may depend on the shipped crate `on`.
fn may_use(dir: &str, on: &str) -> bool {
    match dir {
        INTERFACE => false,
        "rust/kernel" => on == INTERFACE,
        "rust/gldv3" | "rust/ibtf" | "rust/ibtf-provider" => on == INTERFACE || on == "rust/kernel",
        // The driver and the software adapter are on two sides of IBTF: what both had would be wrong on both.
        "rust/swhca" => ["rust/kernel", "rust/ibtf-provider", "rust/swhca-ioctl"].contains(&on),
        "rust/swhca-ioctl" => false,
        _ => {
            !["rust/mac_ib", "rust/ibd", "rust/swhca", "rust/swhca-ioctl", "rust/ibtf-provider"].contains(&on)
        }
    }
}

/// Whether the attributes that open a crate's root forbid unsafe code.
pub fn forbids_unsafe(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines.take_while(|line| line.starts_with("#![")).any(|line| line == "#![forbid(unsafe_code)]")
}
