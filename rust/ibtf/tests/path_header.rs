//! `sys/ibd_path.h` and [`PathRecord`] are one record, for 64-bit and 32-bit programs.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use ibtf::{PATH_INFO, PathRecord};

/// A C source that compiles only if the header agrees with Rust.
fn assertions() -> String {
    let mut source = String::from("#include <stddef.h>\n#include <sys/ibd_path.h>\n");
    let mut holds = |what: String| {
        let _ = writeln!(source, "_Static_assert({what}, \"{what}\");");
    };
    holds(format!("sizeof (ibd_path_info_t) == {}", size_of::<PathRecord>()));
    holds(format!("_Alignof (ibd_path_info_t) == {}", align_of::<PathRecord>()));
    macro_rules! fields {
        ($($c:ident $rust:ident,)*) => {
            $(
                holds(format!("offsetof (ibd_path_info_t, {}) == {}", stringify!($c), offset_of!(PathRecord, $rust)));
                let size = size_of_val(&PathRecord::default().$rust);
                holds(format!("sizeof (((ibd_path_info_t *)0)->{}) == {size}", stringify!($c)));
            )*
        };
    }
    fields! {
        ibp_version version, ibp_link link, ibp_kind kind, ibp_address address, ibp_flags flags, ibp_status status,
        ibp_neighbour neighbour, ibp_sgid sgid, ibp_dgid dgid, ibp_slid slid, ibp_dlid dlid, ibp_pkey pkey, ibp_sl sl,
        ibp_tclass tclass, ibp_flow flow, ibp_mtu mtu, ibp_hop_limit hop_limit, ibp_rate rate,
        ibp_lifetime lifetime, ibp_pad pad, ibp_age age,
    }
    for (name, value) in [
        ("IBD_PATH_INFO", PATH_INFO),
        ("IBD_PATH_VERSION", PathRecord::VERSION),
        ("IBD_PATH_LINK_ADDRESS", PathRecord::LINK_ADDRESS),
        ("IBD_PATH_IPV4", PathRecord::IPV4),
        ("IBD_PATH_IPV6", PathRecord::IPV6),
        ("IBD_PATH_GROUP", PathRecord::GROUP),
        ("IBD_PATH_GRH", PathRecord::GRH),
        ("IBD_PATH_UNREACHABLE", PathRecord::UNREACHABLE),
        ("IBD_PATH_UNANSWERED", PathRecord::UNANSWERED),
        ("IBD_PATH_NO_LIFETIME", PathRecord::NO_LIFETIME.into()),
    ] {
        holds(format!("{name} == {value}U"));
    }
    source
}

/// All that a program's `sys/types.h` has to do with the header.
const PROGRAMS_TYPES: &str = "#include <stdint.h>\n";

/// As the kernel includes the header, or as a program does.
fn compile(source: &str, kernel: bool, model: &str) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("header.c");
    std::fs::write(&file, source).expect("written");
    std::fs::create_dir(dir.path().join("sys")).expect("made");
    std::fs::write(dir.path().join("sys/types.h"), PROGRAMS_TYPES).expect("written");
    let types = if kernel { root.join("rust/illumos-sys-hdrs/include") } else { dir.path().to_path_buf() };
    let output = Command::new("gcc")
        .args(["-fsyntax-only", "-ffreestanding", "-Wall", "-Werror", "-std=gnu11", model])
        .args(kernel.then_some("-D_KERNEL"))
        .arg("-I")
        .arg(root.join("usr/src/uts/common"))
        .arg("-I")
        .arg(types)
        .arg(&file)
        .output()
        .expect("gcc runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn the_c_record_is_the_rust_record_in_both_data_models() {
    for (kernel, model) in [(true, "-m64"), (false, "-m64"), (false, "-m32")] {
        compile(&assertions(), kernel, model).unwrap_or_else(|complaint| panic!("{model}: {complaint}"));
    }
}

#[test]
fn a_difference_stops_the_compiler() {
    let planted = assertions()
        .replace("offsetof (ibd_path_info_t, ibp_age) == ", "offsetof (ibd_path_info_t, ibp_age) == 4 + ");
    assert!(compile(&planted, true, "-m64").unwrap_err().contains("ibp_age"));
}
