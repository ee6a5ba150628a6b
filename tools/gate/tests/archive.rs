//! The archive on a machine of our own making: whatever fails, it is as before.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use gate::package::lay_out;
use support::machine::{Files, Machine, STATE, said, shells};
use support::{assert_same, each_so_many, tree, write};

#[test]
fn the_switch_to_our_driver_and_back_keeps_links_and_addresses_in_every_shell() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    for shell in shells() {
        switch_to_ours_and_back(&machine, shell, &root, &running);
    }
}

fn switch_to_ours_and_back(machine: &Machine, shell: &str, root: &Files, running: &Files) {
    let output = machine.run_with(shell, "add", &["-l"], &[]);
    assert!(output.status.success(), "{shell}: {}", said(&output));
    assert_eq!(machine.text("root/kernel/drv/amd64/ibp"), "kernel/drv/amd64/ibp, ours\n");
    assert_eq!(machine.text("root/kernel/mac/amd64/mac_ib"), "kernel/mac/amd64/mac_ib, theirs\n");
    assert_eq!(machine.text("state/loaded"), "kernel/drv/amd64/ibp, ours\n");
    assert_eq!(machine.text("state/archive"), "kernel/drv/amd64/ibp, ours\n");
    assert_eq!(machine.text("state/conf"), "kernel/drv/ibp.conf, ours\n");
    for (file, _) in STATE {
        let path = Path::new(file);
        assert_eq!(machine.running().get(path), running.get(path), "{file}");
    }
    let output = machine.run_with(shell, "remove", &["-l"], &[]);
    assert!(output.status.success(), "{shell}: {}", said(&output));
    assert_same(&machine.root(), root, "after removal");
    assert_same(&machine.running(), running, "after removal");
}

#[test]
fn whatever_call_of_add_fails_the_machine_is_as_before() {
    let machine = Machine::new();
    assert!(machine.fail_at_calls("add", &["-l", "-p"]) > 40);
    assert_eq!(machine.text("state/loaded-plugin"), "kernel/mac/amd64/mac_ib, ours\n");
}

#[test]
fn whatever_call_of_remove_fails_the_machine_is_as_before() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    assert!(machine.run("add", &["-l", "-p"], 0).status.success());
    assert!(machine.fail_at_calls("remove", &["-l", "-p"]) > 40);
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn another_root_gets_files_only() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    assert!(machine.fail_at_calls("add", &["-p"]) > 5);
    let log = machine.text("state/log");
    assert!(!log.contains("dladm") && !log.contains("ipadm") && !log.contains("mod"), "{log}");
    assert_eq!(machine.text("state/archive"), "kernel/drv/amd64/ibp, ours\n");
    assert!(machine.fail_at_calls("remove", &["-p"]) > 5);
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn a_driver_that_does_not_start_is_taken_out_again() {
    let machine = Machine::new();
    write(&machine.path("proto"), "kernel/drv/amd64/ibp", "broken\n");
    fs::remove_dir_all(machine.path("archive")).unwrap();
    lay_out(&tree(), &machine.path("proto"), &machine.path("archive")).unwrap();
    let (root, running) = (machine.root(), machine.running());
    let output = machine.run("add", &["-l"], 0);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the driver does not start; going back"), "{}", said(&output));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_changed() {
    type Spoil = fn(&Machine);
    let cases: [(&str, Spoil); 5] = [
        ("install the package driver/network/ibp first", |machine| {
            fs::remove_file(machine.path("root/kernel/drv/amd64/ibp")).unwrap();
        }),
        ("does not bind ibp to ib.ipib", |machine| write(&machine.path("root"), "etc/driver_aliases", "")),
        ("is no root of an amd64 illumos system", |machine| {
            fs::remove_dir_all(machine.path("root/kernel/drv/amd64")).unwrap();
        }),
        ("the archive is damaged", |machine| {
            fs::set_permissions(
                machine.path("archive/files/kernel/drv/ibp.conf"),
                fs::Permissions::from_mode(0o644),
            )
            .unwrap();
            write(&machine.path("archive"), "files/kernel/drv/ibp.conf", "cut sh");
        }),
        ("it is here already", |machine| assert!(machine.run("add", &[], 0).status.success())),
    ];
    for (reason, spoil) in cases {
        let machine = Machine::new();
        spoil(&machine);
        let (root, running) = (machine.root(), machine.running());
        let output = machine.run("add", &["-l"], 0);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said(&output).contains(reason) && said(&output).contains("nothing was changed"),
            "{}",
            said(&output)
        );
        assert_same(&machine.root(), &root, reason);
        assert_same(&machine.running(), &running, reason);
    }
    let machine = Machine::new();
    assert!(said(&machine.run("remove", &[], 0)).contains("there is nothing to remove"));
    assert_eq!(machine.run("add", &["-x"], 0).status.code(), Some(2));
}

#[test]
fn what_could_not_be_brought_back_is_not_taken_down() {
    type Spoil = fn(&Machine);
    let cases: [(&str, Spoil); 4] = [
        ("p8001.ibp0 is in use: it belongs to the zone web", |machine| {
            write(&machine.path("state"), "zones", "db installed\nweb running\n");
            write(&machine.path("state"), "db.links", "pFFFF.ibp0\n");
            write(&machine.path("state"), "web.links", "p8001.ibp0\n");
        }),
        ("the address pFFFF.ibp0/? was not made by ipadm", |machine| {
            let addrs = machine.text("state/addrs") + "pFFFF.ibp0/? static 10.0.0.7/24\n";
            write(&machine.path("state"), "addrs", &addrs);
        }),
        ("the address pFFFF.ibp0/_a was not made by ipadm", |machine| {
            let addrs = machine.text("state/addrs") + "pFFFF.ibp0/_a static 10.0.0.7/24\n";
            write(&machine.path("state"), "addrs", &addrs);
        }),
        ("idle0 is in an IPMP group", |machine| write(&machine.path("state"), "groups", "net1\nidle0\n")),
    ];
    for (reason, spoil) in cases {
        let machine = Machine::new();
        spoil(&machine);
        let (root, running) = (machine.root(), machine.running());
        let output = machine.run("add", &["-l"], 0);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(reason), "{}", said(&output));
        let log = machine.text("state/log");
        assert!(!log.contains("delete-") && !log.contains("disable-if"), "{log}");
        assert_same(&machine.root(), &root, reason);
        assert_same(&machine.running(), &running, reason);
    }
}

#[test]
fn remove_puts_right_what_a_killed_add_left() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    let kills = machine.kills("add");
    machine.well("remove", &["-l"]);
    for (call, when) in kills {
        machine.kill("add", &call, when);
        machine.is_put_right_by_remove(&root, &running, &format!("killed {when} call {call}"));
    }
}

#[test]
fn remove_puts_right_what_a_killed_remove_left() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    machine.well("add", &["-l", "-p"]);
    machine.copy(["root", "state"], ["root-added", "state-added"]);
    for (call, when) in machine.kills("remove") {
        machine.copy(["root-added", "state-added"], ["root", "state"]);
        machine.kill("remove", &call, when);
        machine.is_put_right_by_remove(&root, &running, &format!("killed {when} call {call}"));
    }
}

/// When the way back fails, too, the scripts end with 3.
#[test]
fn remove_puts_right_what_add_could_not_put_back() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    machine.well("add", &["-l", "-p"]);
    let changes = machine.changes();
    machine.well("remove", &["-l"]);
    let mut not_put_back = 0;
    for (call, _) in changes.into_iter().step_by(each_so_many()) {
        let variables = [("FAIL", &*call.to_string()), ("DOES", "all")];
        let output = machine.run_with("sh", "add", &["-l", "-p"], &variables);
        match output.status.code() {
            Some(1) => {}
            Some(3) => not_put_back += 1,
            code => panic!("{code:?}: {}", said(&output)),
        }
        machine.is_put_right_by_remove(&root, &running, &format!("from call {call} on: {}", said(&output)));
    }
    assert!(not_put_back > 20 / each_so_many());
}

#[test]
fn the_copies_that_a_killed_remove_made_are_those_that_the_next_goes_back_to() {
    let machine = Machine::new();
    machine.well("add", &["-l", "-p"]);
    let (root, running) = (machine.root(), machine.running());
    // How many calls the next remove makes before the one that shall fail.
    machine.kill("remove", "mv", "after");
    machine.well("remove", &["-l"]);
    let call = machine.call("bootadm");
    machine.well("add", &["-l", "-p"]);
    machine.kill("remove", "mv", "after");
    assert_eq!(machine.text("root/kernel/drv/amd64/ibp"), "kernel/drv/amd64/ibp, theirs\n");
    let output = machine.run("remove", &["-l"], call);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn after_a_boot_remove_brings_up_what_the_boot_did() {
    let machine = Machine::new();
    let root = machine.root();
    machine.kill("add", "bootadm", "after");
    machine.boot();
    let running = machine.running();
    machine.well("remove", &["-l"]);
    assert_same(&machine.root(), &root, "after removal");
    for (file, _) in STATE {
        assert_eq!(machine.running().get(Path::new(file)), running.get(Path::new(file)), "{file}");
    }
    assert_eq!(machine.text("state/loaded"), "kernel/drv/amd64/ibp, theirs\n");
}

#[test]
fn a_file_that_cannot_be_made_is_a_failed_step_in_every_shell() {
    for shell in shells() {
        for full in ["links/parts", "saved", "archived"] {
            let machine = Machine::new();
            let (root, running) = (machine.root(), machine.running());
            let output = machine.run_with(shell, "add", &["-l"], &[("FULL", full)]);
            assert_eq!(output.status.code(), Some(1), "{shell}, {full}: {}", said(&output));
            assert!(said(&output).contains("as it was before"), "{shell}, {full}: {}", said(&output));
            assert_same(&machine.root(), &root, full);
            assert_same(&machine.running(), &running, full);
        }
        let machine = Machine::new();
        machine.well("add", &["-l"]);
        let (root, running) = (machine.root(), machine.running());
        let output = machine.run_with(shell, "remove", &["-l"], &[("FULL", "putting")]);
        assert_eq!(output.status.code(), Some(1), "{shell}: {}", said(&output));
        assert!(said(&output).contains("as it was before"), "{shell}: {}", said(&output));
        // The stand-in made a directory in the place of the file.
        fs::remove_dir(machine.path("root/var/ipoib/putting")).unwrap();
        assert_same(&machine.root(), &root, shell);
        assert_same(&machine.running(), &running, shell);
    }
}

#[test]
fn a_driver_that_a_package_put_in_the_place_of_ours_stays() {
    let machine = Machine::new();
    machine.well("add", &["-l", "-p"]);
    write(&machine.path("root"), "kernel/drv/amd64/ibp", "kernel/drv/amd64/ibp, newer\n");
    write(&machine.path("root"), "kernel/drv/ibp.conf", "kernel/drv/ibp.conf, newer\n");
    let updated = machine.root();
    assert!(machine.well("remove", &["-l"]).contains("kernel/drv/amd64/ibp is not the archive's any more"));
    let root = machine.root();
    for path in ["kernel/drv/amd64/ibp", "kernel/drv/ibp.conf"] {
        assert_eq!(root.get(Path::new(path)), updated.get(Path::new(path)), "{path}");
    }
    assert!(!root.contains_key(Path::new("kernel/drv/ibp.conf.ipoib")));
    assert!(!root.contains_key(Path::new("var/ipoib")));
    assert_eq!(machine.text("root/kernel/mac/amd64/mac_ib"), "kernel/mac/amd64/mac_ib, theirs\n");
    assert_eq!(machine.text("state/loaded"), "kernel/drv/amd64/ibp, newer\n");
    assert_eq!(machine.text("state/conf"), "kernel/drv/ibp.conf, newer\n");
}

#[test]
fn an_edited_conf_is_put_beside_the_c_drivers() {
    let machine = Machine::new();
    machine.well("add", &["-l"]);
    write(&machine.path("root"), "kernel/drv/ibp.conf", "ibd_num_ah=64;\n");
    assert!(machine.well("remove", &["-l"]).contains("was edited"));
    assert_eq!(machine.text("root/kernel/drv/ibp.conf"), "kernel/drv/ibp.conf, theirs\n");
    assert_eq!(machine.text("root/kernel/drv/ibp.conf.ipoib"), "ibd_num_ah=64;\n");
    assert_eq!(machine.text("state/conf"), "kernel/drv/ibp.conf, theirs\n");
}

#[test]
fn without_an_adapter_the_files_are_switched_all_the_same() {
    let machine = Machine::new();
    for what in ["parts", "conf-parts", "ifs", "conf-ifs", "addrs", "conf-addrs"] {
        write(&machine.path("state"), what, "");
    }
    for loaded in ["loaded", "loaded-plugin"] {
        fs::remove_file(machine.path("state").join(loaded)).unwrap();
    }
    write(&machine.path("state"), "absent", "");
    let (root, running) = (machine.root(), machine.running());
    machine.well("add", &["-l"]);
    assert_eq!(machine.text("root/kernel/drv/amd64/ibp"), "kernel/drv/amd64/ibp, ours\n");
    machine.well("remove", &["-l"]);
    assert_same(&machine.root(), &root, "after removal");
    assert_same(&machine.running(), &running, "after removal");
}

#[test]
fn a_link_gets_time_to_come_up_and_one_that_was_down_may_stay_so() {
    let machine = Machine::new();
    let state = machine.path("state");
    write(&state, "late", "12\n");
    write(&state, "down", "idle0\n");
    machine.well("add", &["-l"]);
    assert!(machine.text("state/log").contains("sleep"));
    machine.well("remove", &["-l"]);
}

#[test]
fn the_c_driver_is_unloaded_when_ibtl_has_none_of_its_connections_any_more() {
    let machine = Machine::new();
    machine.well("add", &["-l"]);
    let state = machine.path("state");
    assert!(
        !state.join("leaked").exists() && !state.join("closing").exists(),
        "{}",
        machine.text("state/log")
    );
    assert!(machine.text("state/log").contains("sleep 60"));
    machine.well("remove", &["-l"]);
    assert!(!state.join("leaked").exists());
    // Without connections nobody waits.
    write(&state, "props", "pFFFF.ibp0 linkmode ud\np8001.ibp0 linkmode ud\nidle0 linkmode ud\n");
    machine.well("add", &["-l"]);
    assert!(!machine.text("state/log").contains("sleep"), "{}", machine.text("state/log"));
}

#[test]
fn a_link_that_is_busy_while_the_administrator_is_silent_is_asked_again_and_at_last_left() {
    let machine = Machine::new();
    machine.well("add", &["-l"]);
    let (root, running) = (machine.root(), machine.running());
    write(&machine.path("state"), "silent", "1000\n");
    let output = machine.run("remove", &["-l"], 0);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    fs::remove_file(machine.path("state/silent")).unwrap();
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
    let output = machine.run("remove", &["-l"], 0);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_driver_under_which_a_link_stays_down_is_taken_out_again() {
    let machine = Machine::new();
    let (root, running) = (machine.root(), machine.running());
    write(&machine.path("state"), "late", "1000\n");
    let output = machine.run("add", &["-l"], 0);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the link pFFFF.ibp0 did not come up"), "{}", said(&output));
    assert_same(&machine.root(), &root, "going back");
    assert_same(&machine.running(), &running, "going back");
}

#[test]
fn our_files_belong_to_root_before_they_are_in_place() {
    let machine = Machine::new();
    machine.well("add", &["-l", "-p"]);
    let log = machine.text("state/log");
    let lines: Vec<&str> = log.lines().collect();
    for file in [
        "kernel/drv/amd64/ibp",
        "kernel/drv/ibp.conf",
        "kernel/mac/amd64/mac_ib",
        "usr/share/man/man4d/ibd.4d",
    ] {
        let path = machine.path("root").join(file);
        let (chown, mv) =
            (format!("chown 0:3 {}.new", path.display()), format!("mv -f {}.new", path.display()));
        let owned = lines.iter().position(|line| **line == chown).unwrap_or_else(|| panic!("{file}: {log}"));
        assert!(lines[owned + 1].starts_with(&mv), "{log}");
    }
}
