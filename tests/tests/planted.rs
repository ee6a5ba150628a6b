//! The faults that campaigns have to find (`make campaign-proof`) are patches of the driver as it is.

use std::fs;
use std::process::Command;

use conformance::probe::workspace_root;

#[test]
fn every_planted_fault_can_be_planted() {
    let planted = workspace_root().join("tests/planted");
    let mut patches = Vec::new();
    for kind in ["schedules", "fabrics"] {
        let files = fs::read_dir(planted.join(kind)).expect("a directory");
        patches.extend(files.map(|file| file.expect("readable").path()));
    }
    assert!(!patches.is_empty());
    for patch in patches {
        let mut git = Command::new("git");
        git.args(["apply", "--check"]).arg(&patch).current_dir(workspace_root());
        let checked = git.output().expect("git");
        let why = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {why}", patch.display());
    }
}
