//! Package manifests: ours, and what a checker has to find in others.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;

use gate::manifest::{check, check_files, delivered, of_directory};
use kmod::manifest::Manifest;
use support::tree;

fn ours() -> Vec<PathBuf> {
    of_directory(&tree().join("packaging/manifests")).unwrap()
}

#[test]
fn our_manifests_are_in_order_alone_and_together() {
    assert_eq!(check_files(&ours()).unwrap(), Vec::<String>::new());
}

#[test]
fn our_manifests_deliver_what_the_build_installs_and_no_more() {
    let mut installed = BTreeSet::new();
    for module in Manifest::read(&tree()).unwrap().modules {
        installed.insert(format!("kernel/{}/amd64/{}", module.class, module.name));
        if module.conf.is_some() {
            installed.insert(format!("kernel/{}/{}.conf", module.class, module.name));
            if tree().join(format!("docs/man/{}.conf.5", module.name)).is_file() {
                installed.insert(format!("usr/share/man/man5/{}.conf.5", module.name));
            }
            // ibd(4D) comes with the module whose C driver had the page before.
            let page = format!("{}.4d", module.name);
            if tree().join("docs/man").join(&page).is_file() {
                installed.insert(format!("usr/share/man/man4d/{page}"));
            }
        }
    }
    for command in std::fs::read_dir(tree().join("usr/src/cmd")).unwrap() {
        let makefile = command.unwrap().path().join("Makefile");
        let Ok(text) = std::fs::read_to_string(makefile) else { continue };
        assert!(text.contains("$(ROOTUSRSBINPROG)"), "a command is installed in usr/sbin");
        let program = text.lines().find_map(|line| line.strip_prefix("PROG=")).unwrap();
        installed.insert(format!("usr/sbin/{}", program.trim()));
        if tree().join(format!("docs/man/{}.8", program.trim())).is_file() {
            installed.insert(format!("usr/share/man/man8/{}.8", program.trim()));
        }
    }
    // The plugin's path is system/kernel's: only a gate can deliver it.
    assert!(installed.remove("kernel/mac/amd64/mac_ib"));
    let delivered: BTreeSet<String> = delivered(&ours()).unwrap().into_keys().collect();
    assert_eq!(delivered, installed);
}

#[test]
fn the_page_for_builders_names_every_package() {
    let page = std::fs::read_to_string(tree().join("docs/gate.md")).unwrap();
    for manifest in ours() {
        let text = std::fs::read_to_string(&manifest).unwrap();
        let (_, name) = text.split_once("value=pkg:/").unwrap();
        let (name, _) = name.split_once('@').unwrap();
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

const GOOD: &str = r#"# a driver
<include global_zone_only_component>
set name=pkg.fmri value=pkg:/driver/network/some@$(PKGVERS)
set name=variant.arch value=$(ARCH)
dir path=kernel group=sys
dir path=kernel/drv group=sys
dir path=kernel/drv/$(ARCH64) group=sys
driver name=some alias=ib.some alias=ib.other \
    clone_perms="some 0666 root sys" perms="* 0666 root sys"
file path=kernel/drv/$(ARCH64)/some group=sys
file NOHASH path=kernel/drv/some.conf group=sys mode=0644 preserve=renamenew
$(i386_ONLY)link path=usr/lib/some.so target=./some.so.1
license lic_CDDL license=lic_CDDL
depend fmri=pkg:/driver/network/ib type=require
"#;

#[test]
fn a_planted_error_is_found_each() {
    let cases = [
        ("file path=kernel/drv/$(ARCH64)/some", "fiel path=kernel/drv/$(ARCH64)/some", "no such action"),
        ("file path=kernel/drv/$(ARCH64)/some", "file group=root", "path= is missing"),
        (
            "path=kernel/drv/some.conf",
            "path=/kernel/drv/some.conf",
            "path=/kernel/drv/some.conf is not what it may be",
        ),
        ("path=kernel/drv/some.conf", "path=kernel/../drv/some.conf", "is not what it may be"),
        ("mode=0644", "mode=0844", "mode=0844 is not what it may be"),
        ("preserve=renamenew", "preserve=rename", "preserve=rename is not what it may be"),
        ("mode=0644", "moode=0644", "moode= is not one of its keys"),
        ("mode=0644", "group=root", "group= is there twice"),
        ("perms=\"* 0666 root sys\"", "perms=\"* 0666 root sys", "a quote is not closed"),
        ("perms=\"* 0666 root sys\"", "perms=\"* root sys\"", "perms=* root sys is not what it may be"),
        ("type=require", "type=needs", "type=needs is not what it may be"),
        ("type=require", "type=", "`type=` has no value"),
        ("@$(PKGVERS)", "", "is not pkg:/NAME@VERSION"),
        ("dir path=kernel/drv/$(ARCH64) group=sys\n", "", "no dir action for kernel/drv/$(ARCH64)"),
        (
            "some.conf group=sys",
            "$(ARCH64)/some group=sys",
            "kernel/drv/$(ARCH64)/some is on line 10 already",
        ),
        ("<include global_zone_only_component>", "<include global_zone_only_component", "a `>` is missing"),
        ("$(ARCH64)/some group", "$(ARCH64/some group", "a macro is not closed"),
        ("license lic_CDDL license", "license lic_CDDL lic_OSBL license", "`lic_OSBL` is no key=value"),
        ("type=require\n", "type=require \\\n", "continued by nothing"),
    ];
    assert_eq!(check(GOOD), Vec::<String>::new());
    for (from, to, finding) in cases {
        assert!(GOOD.contains(from), "`{from}` is not there");
        let findings = check(&GOOD.replacen(from, to, 1));
        assert!(findings.iter().any(|found| found.contains(finding)), "{to}: {findings:#?}");
    }
}

#[test]
fn packages_that_claim_one_alias_and_do_not_exclude_each_other_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let other = GOOD.replace("network/some@", "network/more@").replace("kernel/drv", "kernel/misc");
    support::write(dir.path(), "a.p5m", GOOD);
    support::write(dir.path(), "b.p5m", &other);
    let findings = check_files(&of_directory(dir.path()).unwrap()).unwrap();
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(findings[0].contains("the alias ib.other is in"), "{findings:#?}");
    support::write(dir.path(), "b.p5m", &(other + "depend fmri=driver/network/some type=exclude\n"));
    assert_eq!(check_files(&of_directory(dir.path()).unwrap()).unwrap(), Vec::<String>::new());
}
