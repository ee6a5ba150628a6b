//! Violations in who depends on whom, and in who may be unsafe.

use std::fs;
use std::path::Path;

use conformance::probe::workspace_root;
use kmod::audit::{Package, Rule, dependency_rule, forbids_unsafe, workspace};

use super::strings;

fn package(dir: &str, depends: &[&str], foreign: &[&str]) -> Package {
    Package { dir: dir.into(), depends: strings(depends), foreign: strings(foreign) }
}

#[track_caller]
fn refused(dir: &str, depends: &[&str], foreign: &[&str]) {
    let findings = dependency_rule(&[package(dir, depends, foreign)]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].rule, Rule::DependencyRule);
}

#[test]
fn shipped_crate_that_knows_the_lab_is_refused() {
    refused("rust/ibd", &["lab/fabric"], &[]);
    refused("rust/kernel", &["lab/fakekernel"], &[]);
}

#[test]
fn protocol_crate_that_knows_anybody_is_refused() {
    refused("rust/ipoib", &["rust/illumos-sys-hdrs"], &[]);
    refused("rust/ipoib", &[], &["zerocopy"]);
}

#[test]
fn border_crate_that_looks_upwards_is_refused() {
    refused("rust/illumos-sys-hdrs", &["rust/kernel"], &[]);
    refused("rust/kernel", &["rust/gldv3"], &[]);
    refused("rust/gldv3", &["rust/ibtf"], &[]);
    refused("rust/mac_ib", &["rust/ibd"], &[]);
}

#[test]
fn driver_and_software_adapter_that_share_code_are_refused() {
    refused("rust/ibd", &["rust/swhca"], &[]);
    refused("rust/ibd", &["rust/ibtf-provider"], &[]);
    refused("rust/swhca", &["rust/ibtf"], &[]);
    refused("rust/swhca", &["rust/ipoib"], &[]);
    refused("rust/swhca-ioctl", &["rust/kernel"], &[]);
}

#[test]
fn lab_crate_that_shares_code_with_the_modules_is_refused() {
    refused("lab/fabric", &["rust/ipoib"], &[]);
    refused("lab/ibtf", &["rust/kernel"], &[]);
    refused("lab/ibtf", &["rust/ibtf-provider"], &[]);
    refused("lab/world", &["rust/swhca"], &[]);
}

#[test]
fn downward_dependencies_are_allowed() {
    let packages = [
        package("rust/kernel", &["rust/illumos-sys-hdrs"], &[]),
        package("rust/ibd", &["rust/kernel", "rust/gldv3", "rust/ibtf", "rust/ipoib"], &[]),
        package("rust/swhca", &["rust/kernel", "rust/ibtf-provider", "rust/swhca-ioctl"], &[]),
        package("lab/ibtf", &["rust/illumos-sys-hdrs", "lab/fakekernel", "lab/fabric", "lab/sm"], &["libc"]),
        package("tests", &["rust/ipoib", "lab/fabric", "tools/kmod"], &[]),
    ];
    assert_eq!(dependency_rule(&packages), []);
}

#[test]
fn crate_root_forbids_unsafe_code_before_any_item() {
    assert!(forbids_unsafe("//! Docs.\n\n#![no_std]\n#![forbid(unsafe_code)]\n\nmod a;\n"));
    assert!(!forbids_unsafe("//! #![forbid(unsafe_code)]\n#![no_std]\nmod a;\n"));
    assert!(!forbids_unsafe("#![no_std]\nmod a {\n#![forbid(unsafe_code)]\n}\n"));
    assert!(!forbids_unsafe("#![deny(unsafe_code)]\n"));
}

fn write_crate(root: &Path, dir: &str, dependencies: &str, source: &str) {
    fs::create_dir_all(root.join(dir).join("src")).unwrap();
    let name = dir.replace('/', "-");
    let manifest =
        format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[dependencies]\n{dependencies}");
    fs::write(root.join(dir).join("Cargo.toml"), manifest).unwrap();
    fs::write(root.join(dir).join("src/lib.rs"), source).unwrap();
}

#[test]
fn both_rules_are_read_off_a_workspace() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("Cargo.toml"), "[workspace]\nmembers = [\"rust/ibd\", \"lab/fabric\"]\n")
        .unwrap();
    write_crate(
        root.path(),
        "rust/ibd",
        "lab-fabric = { path = \"../../lab/fabric\" }",
        "#![forbid(unsafe_code)]\n",
    );
    write_crate(root.path(), "lab/fabric", "", "//! Nothing.\n");
    let findings = workspace(root.path()).unwrap();
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let unsafe_fabric = "forbid-unsafe: lab/fabric/src/lib.rs does not begin with #![forbid(unsafe_code)]";
    assert_eq!(told, ["dependency-rule: rust/ibd depends on lab/fabric", unsafe_fabric]);
    assert_eq!(findings[1].rule, Rule::ForbidUnsafe);
}

#[test]
fn this_workspace_keeps_both_rules() {
    assert_eq!(workspace(workspace_root()).unwrap(), []);
}
