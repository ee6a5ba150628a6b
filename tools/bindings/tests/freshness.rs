//! The tool run as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const INPUTS: [&str; 4] = [
    "rustfmt.toml",
    "rust/illumos-sys-hdrs/wrapper.h",
    "rust/illumos-sys-hdrs/include",
    "usr/src/uts/common/sys",
];
const OUTPUTS: [&str; 2] =
    ["rust/illumos-sys-hdrs/src/bindings.rs", "rust/illumos-sys-hdrs/tests/abi/measured.rs"];

fn bindings(root: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bindings")).arg("--root").arg(root).args(args).output().unwrap()
}

/// A copy of what the tool reads and writes.
fn copied_tree() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for part in INPUTS.iter().chain(&OUTPUTS) {
        copy_all(&PathBuf::from(TREE).join(part), &copy.path().join(part));
    }
    copy
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_dir() {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }
}

#[test]
fn the_committed_declarations_are_what_the_headers_say() {
    let output = bindings(TREE.as_ref(), &["--check"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_changed_header_makes_the_declarations_stale_until_regenerated() {
    let tree = copied_tree();
    let header = tree.path().join("rust/illumos-sys-hdrs/include/sys/kmem.h");
    let text = std::fs::read_to_string(&header).unwrap();
    std::fs::write(&header, text.replace("KM_NOSLEEP\t1", "KM_NOSLEEP\t17")).unwrap();

    let stale = bindings(tree.path(), &["--check"]);
    assert!(!stale.status.success());
    let complaint = String::from_utf8_lossy(&stale.stderr).into_owned();
    assert!(complaint.contains("src/bindings.rs:") && complaint.contains("stale"), "{complaint}");

    assert!(bindings(tree.path(), &[]).status.success());
    assert!(bindings(tree.path(), &["--check"]).status.success());
    let regenerated = std::fs::read_to_string(tree.path().join(OUTPUTS[0])).unwrap();
    assert!(regenerated.contains("KM_NOSLEEP: ::core::ffi::c_int = 17"));
}
