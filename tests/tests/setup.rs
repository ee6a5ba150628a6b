//! What `tools/setup.sh` takes for there: by what a machine has, not by a name that looks like it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use conformance::probe::workspace_root;

/// The Debian packages that `make WHAT` misses on a machine with these files below `/usr` and this machine's commands.
fn missing(what: &str, files: &[&str]) -> Vec<String> {
    let machine = tempfile::tempdir().expect("a directory");
    for file in files {
        let file = machine.path().join("usr").join(file);
        fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).expect("made");
        fs::write(file, "").expect("written");
    }
    let mut setup = Command::new("sh");
    setup.arg(workspace_root().join("tools/setup.sh")).args([what, "--list"]);
    let output = setup.env("SYSROOT", machine.path()).env_remove("LIBCLANG_PATH").output().expect("sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn clangs_cpp_library_is_not_taken_for_its_c_interface() {
    let cpp = ["lib/x86_64-linux-gnu/libclang-cpp.so.14", "lib/llvm-14/lib/libclang-cpp.so.14"];
    assert!(missing("bindings", &cpp).contains(&"libclang-dev".to_owned()));
    for c in [
        "lib/llvm-14/lib/libclang.so.1",
        "lib/x86_64-linux-gnu/libclang-14.so.1",
        "lib/llvm-19/lib/libclang-19.so",
        "lib64/libclang.so",
    ] {
        assert!(!missing("bindings", &[c]).contains(&"libclang-dev".to_owned()), "{c}");
    }
}

#[test]
fn a_machine_without_headers_and_libraries_is_told_the_packages() {
    let bare = missing("test", &[]);
    for package in ["libc6-dev", "libclang-dev", "libumad2sim0"] {
        assert!(bare.contains(&package.to_owned()), "{bare:?}");
    }
    let there =
        ["include/stdio.h", "lib/llvm-14/lib/libclang.so", "lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"];
    for package in missing("test", &there) {
        assert!(!["libc6-dev", "libclang-dev", "libumad2sim0"].contains(&&*package), "{package}");
    }
}

/// Before, a user with rustup heard that there is no Rust.
#[test]
fn sudo_that_hides_a_users_rust_is_told_how_to_find_it() {
    let machine = tempfile::tempdir().expect("a directory");
    let stand_in = |path: &str, text: &str| {
        let path = machine.path().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("made");
        fs::write(&path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    };
    let home = machine.path().join("home");
    stand_in("home/.cargo/bin/cargo", "");
    stand_in(
        "bin/getent",
        &format!("#!/bin/sh\necho \"$2:x:1000:1000:A User:{}:/bin/sh\"\n", home.display()),
    );
    let setup = |user: Option<&str>| {
        let mut setup = Command::new("sh");
        setup.arg(workspace_root().join("tools/setup.sh")).arg("modules");
        setup
            .env("PATH", format!("{}:/usr/bin:/bin", machine.path().join("bin").display()))
            .env_remove("SUDO_USER");
        if let Some(user) = user {
            setup.env("SUDO_USER", user);
        }
        let output = setup.output().expect("sh");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if Path::new("/usr/bin/cargo").exists() {
        // Root has it here, and is told nothing.
        assert_eq!(setup(Some("kim")).0, Some(0));
        return;
    }
    let (code, said) = setup(Some("kim"));
    let line = format!("sudo env HOME={0} PATH={0}/.cargo/bin:\"$PATH\" make modules", home.display());
    assert!(
        code == Some(1) && said.contains("which kim has and root has not") && said.contains(&line),
        "{said}"
    );
    assert_eq!(setup(None), (Some(1), "make modules needs Rust: https://rustup.rs\n".to_owned()));
}

#[test]
fn what_needs_the_modules_makes_them_before() {
    for target in ["run", "bench", "campaign", "fuzz", "audit", "metal", "metal-shell", "metal-debug"] {
        let mut make = Command::new("make");
        make.args(["--dry-run", target, "GATE=a-gate"]).env_remove("MAKEFLAGS").current_dir(workspace_root());
        let output = make.output().expect("make");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let built = said.find("-p kmod -- build");
        let used = ["-p ibdlab", "-p metal", "fuzz.sh", "kmod -- audit"]
            .iter()
            .filter_map(|use_| said.find(use_))
            .min();
        assert!(built.is_some() && used > built, "make {target}:\n{said}");
    }
}
