//! Into a gate and out again, on a small one of our own making.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use gate::apply::apply;
use gate::check::check;
use gate::gate::Gate;
use gate::plan::{self, Plan};
use support::{Small, assert_same, git, tree, write};

fn go(gate: &Gate, plan: &Plan) {
    apply(&gate.root, &plan.writes, &mut |_| Ok(())).unwrap();
}

fn install(small: &Small) -> Plan {
    let plan = plan::install(&tree(), &small.gate()).unwrap();
    go(&small.gate(), &plan);
    plan
}

fn uninstall(small: &Small) {
    go(&small.gate(), &plan::uninstall(&tree(), &small.gate()).unwrap());
}

fn refusal<T>(result: Result<T>) -> String {
    format!("{:#}", result.err().expect("it is refused"))
}

#[test]
fn a_gate_takes_the_modules_and_is_what_it_was_when_they_are_out_again() {
    let small = Small::new();
    let before = small.files();
    install(&small);
    assert_eq!(check(&tree(), &small.gate()).unwrap(), Vec::<String>::new());
    assert!(small.read("usr/src/uts/intel/Makefile.ipoib").contains("LDFLAGS\t\t+= -dy $(RUST_OBJ)"));
    assert_eq!(small.read("usr/src/uts/common/sys/mac_ib.h"), "/* the gate's own */\n");
    uninstall(&small);
    assert_same(&small.files(), &before, "afterwards");
    assert_eq!(git(small.root(), &["status", "--porcelain", "--ignored"]), "");
}

#[test]
fn installing_again_changes_nothing() {
    let small = Small::new();
    assert!(!install(&small).writes.is_empty());
    let after = small.files();
    assert!(install(&small).writes.is_empty());
    assert_same(&small.files(), &after, "afterwards");
}

#[test]
fn a_copy_takes_the_modules_whether_the_gate_is_clean_and_under_git_or_not() {
    let small = Small::new();
    small.write("usr/src/uts/common/os/new.c", "not committed");
    fs::remove_dir_all(small.root().join(".git")).unwrap();
    let before = small.files();
    let gate = Gate::headers(small.root()).unwrap();
    let plan = plan::copied(&tree(), &gate).unwrap();
    assert_same(&small.files(), &before, "afterwards");
    go(&gate, &plan);
    assert_eq!(check(&tree(), &gate).unwrap(), Vec::<String>::new());
}

#[test]
fn a_committed_installation_can_be_repeated_and_removed() {
    let small = Small::new();
    let before = small.files();
    install(&small);
    small.commit();
    assert!(install(&small).writes.is_empty());
    uninstall(&small);
    assert_same(&small.files(), &before, "afterwards");
}

#[test]
fn a_newer_tree_renews_what_it_changed_and_nothing_else() {
    let newer = tempfile::tempdir().unwrap();
    let shim = "usr/src/uts/common/io/ib/clients/ibd/ibd_linkage.c";
    for dir in ["usr", "packaging", "docs"] {
        for (path, content) in support::files(&tree().join(dir)) {
            let to = newer.path().join(dir).join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            if !to.exists() && !content.is_empty() {
                fs::write(to, content).unwrap();
            }
        }
    }
    let small = Small::new();
    let before = small.files();
    go(&small.gate(), &plan::install(newer.path(), &small.gate()).unwrap());
    write(newer.path(), shim, "/* newer */\n");
    let plan = plan::install(newer.path(), &small.gate()).unwrap();
    let changed: Vec<PathBuf> = plan.writes.keys().cloned().collect();
    assert_eq!(changed, [PathBuf::from(shim), "usr/src/uts/intel/ipoib/installed.toml".into()]);
    go(&small.gate(), &plan);
    uninstall(&small);
    assert_same(&small.files(), &before, "afterwards");
}

/// Stops step after step, until the plan goes through; nothing may have changed each time.
fn stop_each_step(small: &Small, plan: &Plan) -> usize {
    let before = small.files();
    for at in 0.. {
        let mut step = 0;
        let result = apply(small.root(), &plan.writes, &mut |_| {
            step += 1;
            if step > at { bail!("no space left on device") } else { Ok(()) }
        });
        let Err(error) = result else { return at };
        assert!(format!("{error:#}").starts_with("nothing was changed: no space"), "{error:#}");
        assert_same(&small.files(), &before, &format!("stopped at step {at}"));
    }
    unreachable!("a plan has an end");
}

#[test]
fn whatever_step_fails_the_gate_is_as_before() {
    let small = Small::new();
    let before = small.files();
    let plan = plan::install(&tree(), &small.gate()).unwrap();
    assert_eq!(stop_each_step(&small, &plan), plan.writes.len());
    let plan = plan::uninstall(&tree(), &small.gate()).unwrap();
    assert_eq!(stop_each_step(&small, &plan), plan.writes.len());
    assert_same(&small.files(), &before, "afterwards");
}

/// As after a power failure: the steps so far are done and nothing is undone.
#[test]
fn an_installation_cut_short_anywhere_can_be_removed() {
    let whole = Small::new();
    let mut order = Vec::new();
    let plan = plan::install(&tree(), &whole.gate()).unwrap();
    apply(whole.root(), &plan.writes, &mut |path| {
        order.push(path.strip_prefix(whole.root()).unwrap().to_path_buf());
        Ok(())
    })
    .unwrap();
    let record = order.iter().position(|path| path.ends_with("installed.toml")).unwrap();
    for cut in record + 1..order.len() {
        let small = Small::new();
        let before = small.files();
        let mut plan = plan::install(&tree(), &small.gate()).unwrap();
        plan.writes.retain(|path, _| order[..cut].contains(path));
        go(&small.gate(), &plan);
        uninstall(&small);
        assert_same(&small.files(), &before, &format!("cut after {}", order[cut - 1].display()));
    }
}

#[test]
fn what_upstream_changes_meanwhile_survives_the_removal() {
    let small = Small::new();
    install(&small);
    let files = "usr/src/uts/common/Makefile.files";
    small.write(files, &(small.read(files) + "NEW_OBJS += new.o\n"));
    small.commit();
    uninstall(&small);
    assert!(small.read(files).ends_with("NEXT_OBJS += next.o\nNEW_OBJS += new.o\n"));
    assert!(!small.read(files).contains("IBD_RS_OBJS"));
}

#[test]
fn what_was_changed_in_our_files_stops_the_removal() {
    for path in [
        "usr/src/uts/intel/ibd/Makefile",
        "usr/src/uts/intel/ibp/Makefile",
        "usr/src/uts/common/Makefile.files",
    ] {
        let small = Small::new();
        install(&small);
        small.write(path, &small.read(path).replace("_RS_OBJS", "_RUST_OBJS"));
        let before = small.files();
        let reason = refusal(plan::uninstall(&tree(), &small.gate()));
        assert!(reason.contains(path), "{reason}");
        assert!(refusal(plan::install(&tree(), &small.gate())).contains(path));
        assert_same(&small.files(), &before, "afterwards");
    }
}

#[test]
fn a_gate_that_cannot_take_them_is_refused_with_the_reason() {
    type Spoil = fn(&Small);
    let cases: [(&str, Spoil); 8] = [
        ("usr/src/uts/common/Makefile.files has a change that is not committed", |small| {
            small.write("usr/src/uts/common/Makefile.files", "X_OBJS = x.o\n")
        }),
        ("notes has a change that is not committed", |small| small.write("notes", "untracked\n")),
        ("usr/src/uts/common/Makefile.files: has 0 lines that begin with `IBD_OBJS +=`", |small| {
            small.write("usr/src/uts/common/Makefile.files", "X_OBJS = x.o\n");
            small.commit();
        }),
        ("usr/src/uts/intel/Makefile.intel: has 2 lines that begin with `DRV_KMODS += ib ibp`", |small| {
            let path = "usr/src/uts/intel/Makefile.intel";
            small.write(path, &(small.read(path) + "DRV_KMODS += ib ibp\n"));
            small.commit();
        }),
        ("usr/src/uts/intel/Makefile.intel: has `DRV_KMODS += foo ibd` already", |small| {
            let path = "usr/src/uts/intel/Makefile.intel";
            small.write(path, &(small.read(path) + "DRV_KMODS += foo ibd\n"));
            small.commit();
        }),
        ("usr/src/uts/intel/ibd/Makefile: the gate has one of its own", |small| {
            small.write("usr/src/uts/intel/ibd/Makefile", "MODULE = ibd\n");
            small.commit();
        }),
        ("usr/src/uts/common/Makefile.rules: has lines of ours that no record tells of", |small| {
            let path = "usr/src/uts/common/Makefile.rules";
            small.write(path, &(small.read(path) + "# END ipoib\n"));
            small.commit();
        }),
        ("usr/src/uts/intel/ipoib/installed.toml", |small| {
            small.write("usr/src/uts/intel/ipoib/installed.toml", "version = 1\n");
            small.commit();
        }),
    ];
    for (reason, spoil) in cases {
        let small = Small::new();
        spoil(&small);
        let before = small.files();
        let said = refusal(plan::install(&tree(), &small.gate()));
        assert!(said.contains(reason), "{said}");
        assert_same(&small.files(), &before, "afterwards");
    }
}

#[test]
fn what_is_no_gate_is_refused_with_the_reason() {
    let small = Small::new();
    fs::rename(small.root().join(".git"), small.root().join("git")).unwrap();
    assert!(refusal(Gate::open(small.root())).contains("not the top of a git repository"));
    fs::remove_file(small.root().join("usr/src/uts/Makefile.uts")).unwrap();
    assert!(refusal(Gate::open(small.root())).contains("usr/src/uts/Makefile.uts is missing"));
    assert!(refusal(Gate::open(Path::new("/nowhere"))).contains("no gate at /nowhere"));
    assert!(refusal(plan::uninstall(&tree(), &Small::new().gate())).contains("nothing of ours is installed"));
}

#[test]
fn a_newer_gate_gets_its_own_kind_of_link_and_manifest() {
    let small = Small::new();
    let targ = "usr/src/uts/Makefile.targ";
    small.write(targ, &small.read(targ).replace("$(LD) -r", "$(LD) -ztype=kmod"));
    for name in ["driver-network-ibp", "system-kernel"] {
        let manifests = small.root().join("usr/src/pkg/manifests");
        fs::rename(manifests.join(name).with_extension("mf"), manifests.join(name).with_extension("p5m"))
            .unwrap();
    }
    small.commit();
    install(&small);
    assert!(small.read("usr/src/uts/intel/Makefile.ipoib").contains("LDFLAGS\t\t+= $(RUST_OBJ)"));
    assert!(small.root().join("usr/src/pkg/manifests/driver-network-ibd.p5m").exists());
    assert_eq!(check(&tree(), &small.gate()).unwrap(), Vec::<String>::new());
}

#[test]
fn a_gate_without_the_header_gets_ours() {
    let small = Small::new();
    fs::remove_file(small.root().join("usr/src/uts/common/sys/mac_ib.h")).unwrap();
    small.commit();
    install(&small);
    assert!(small.read("usr/src/uts/common/sys/mac_ib.h").contains("ipoib_mac_t"));
    uninstall(&small);
    assert!(!small.root().join("usr/src/uts/common/sys/mac_ib.h").exists());
}

#[test]
fn the_checker_finds_each_name_that_does_not_resolve() {
    let cases = [
        ("usr/src/uts/intel/Makefile.intel", "+= ibd", "+= idb", "ibd: $(DRV_KMODS) does not have it"),
        (
            "usr/src/uts/intel/Makefile.intel",
            "ibtl ibcm",
            "ibtl",
            "ibd: -Nmisc/ibcm: the gate builds no such module",
        ),
        ("usr/src/uts/intel/ibp/Makefile", "= ibp", "= ipb", "ibp: MODULE is another one"),
        (
            "usr/src/uts/intel/ibp/Makefile",
            "-Ndrv/dld",
            "",
            "ibp: -N misc/mac misc/ibtl misc/ibcm misc/dls, and",
        ),
        (
            "usr/src/uts/intel/ibp/Makefile",
            "ROOT_DRV_DIR",
            "ROOT_MAC_DIR",
            "ibp: ROOTMODULE is /proto/kernel/mac",
        ),
        ("usr/src/uts/intel/ibp/Makefile", "clients/ibd", "clients/ibp", "ibp: SRC_CONFFILE is"),
        ("usr/src/uts/intel/ibp/Makefile", "Makefile.ipoib.targ", "Makefile.none", "ibp: from"),
        (
            "usr/src/uts/common/Makefile.files",
            "ibd_linkage.o",
            "ibd_link.o",
            "ibd: no rule makes obj64/ibd_link.o",
        ),
        (
            "usr/src/uts/common/Makefile.files",
            "mac_ib_linkage.o",
            "ibd_linkage.o",
            "mac_ib: obj64/ibd_linkage.o comes",
        ),
        ("usr/src/uts/common/Makefile.rules", "plugins/mac_ib/", "plugins/ib/", "mac_ib: no rule makes"),
        (
            "usr/src/uts/intel/Makefile.ipoib",
            "IPOIB_SRC\t= /",
            "IPOIB_SRC\t= /no",
            "ibd: IPOIB_SRC: no Rust sources",
        ),
        (
            "usr/src/uts/intel/Makefile.ipoib",
            "CLEANFILES\t+= $(RUST_OBJ)",
            "",
            "ibd: clean leaves obj64/ibd_rust.o",
        ),
        (
            "usr/src/pkg/manifests/driver-network-ibd.mf",
            "/ibd ",
            "/idb ",
            "ibd: 0 packages deliver kernel/drv/$(ARCH64)/ibd",
        ),
        (
            "usr/src/pkg/manifests/driver-network-ibp.mf",
            "ibp.conf",
            "ib.conf",
            "ibp: 0 packages deliver kernel/drv/ibp.conf",
        ),
        ("usr/src/pkg/manifests/driver-network-ibp.mf", "/ibp ", "/ibd ", "ibd: 2 packages deliver"),
    ];
    for (path, from, to, finding) in cases {
        let small = Small::new();
        install(&small);
        let text = small.read(path);
        assert!(text.contains(from), "{path} has no `{from}`");
        small.write(path, &text.replace(from, to));
        let findings = check(&tree(), &small.gate()).unwrap();
        assert!(findings.iter().any(|found| found.starts_with(finding)), "{path}, {from}: {findings:#?}");
    }
}

#[test]
fn pages_land_where_the_gate_keeps_its_manual_under_the_numbers_of_its_time() {
    let old = Small::new();
    install(&old);
    let page = old.read("usr/src/man/man7d/mac_ib.7d");
    assert!(page.contains(".Dt MAC_IB 7D\n") && page.contains(".Xr dladm 1M ,\n.Xr mac 9E"), "{page}");
    assert!(old.read("usr/src/man/man1m/ibdpath.1m").contains(".Xr ibd 7D"));
    assert!(old.read("usr/src/man/man1m/Makefile").contains("i386_MANFILES +=\tibdpath.1m\n"));
    let devices = old.read("usr/src/man/man7d/Makefile");
    assert!(devices.contains("i386_MANFILES +=\tmac_ib.7d\ni386_MANFILES +=\tswhca.7d\n"), "{devices}");
    let adapter = old.read("usr/src/pkg/manifests/driver-infiniband-swhca.mf");
    assert!(adapter.contains("dir path=usr/share/man/man7d\n"), "{adapter}");
    assert!(adapter.contains("file path=usr/share/man/man7d/swhca.7d\n"), "{adapter}");
    let manifest = old.read("usr/src/pkg/manifests/diagnostic-ibdpath.mf");
    assert!(
        manifest.contains("man\ndir path=usr/share/man/man1m\nfile path=usr/share/man/man1m/ibdpath.1m\n")
    );
    let kernel = old.read("usr/src/pkg/manifests/system-kernel.man7d.inc");
    assert!(kernel.contains("$(i386_ONLY)file path=usr/share/man/man7d/mac_ib.7d\n"), "{kernel}");
    assert_eq!(check(&tree(), &old.gate()).unwrap(), Vec::<String>::new());

    let new = Small::of_today();
    let before = new.files();
    install(&new);
    assert_eq!(check(&tree(), &new.gate()).unwrap(), Vec::<String>::new());
    let ours = fs::read_to_string(tree().join("usr/src/man/man4d/mac_ib.4d")).unwrap();
    assert_eq!(new.read("usr/src/man/man4d/mac_ib.4d"), ours);
    assert!(new.read("usr/src/pkg/manifests/diagnostic-ibdpath.mf").contains("man8/ibdpath.8\n"));
    uninstall(&new);
    assert_same(&new.files(), &before, "afterwards");
}

#[test]
fn a_page_that_nothing_installs_or_delivers_is_found() {
    let small = Small::new();
    install(&small);
    small.write("usr/src/man/man1m/Makefile", "MANFILES=\tdladm.1m\n");
    small.write("usr/src/pkg/manifests/system-kernel.man7d.inc", "");
    let found = check(&tree(), &small.gate()).unwrap();
    assert!(found.iter().any(|line| line.contains("ibdpath.1m: MANFILES")), "{found:?}");
    assert!(
        found.iter().any(|line| line.contains("no package delivers usr/share/man/man7d/mac_ib.7d")),
        "{found:?}"
    );
}
