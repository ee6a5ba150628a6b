//! `cfgadm` and the services of `ib.conf`: the nexus is told and the file is written, or neither.

#![forbid(unsafe_code)]

mod scripted;

use scripted::{Scripted, run};

const BEFORE: &str = "name=\"ib\" class=\"root\";\nport-svc-list=\"ipib\";\nvppa-svc-list=\"\";\n";
const AFTER: &str = "name=\"ib\" class=\"root\";\nport-svc-list=\"ipib\";\nvppa-svc-list=\"ibd\";\n";

fn system(text: &str) -> Scripted {
    let system = Scripted::new();
    system.files.borrow_mut().insert(admin::IB_CONF.into(), text.into());
    system
}

fn file(system: &Scripted) -> String {
    system.files.borrow()[admin::IB_CONF].clone()
}

fn cfgadm(system: &Scripted, function: &str) -> (String, i32) {
    let (out, err, exit) = run(system, &format!("cfgadm -o comm=vppa,service=ibd -x {function} ib"));
    assert_eq!(out, "");
    (err, exit)
}

#[test]
fn the_nexus_is_told_what_the_file_says_then() {
    let with = system(BEFORE);
    assert_eq!(cfgadm(&with, "add_service"), (String::new(), 0));
    assert_eq!((file(&with).as_str(), with.services.borrow().as_slice()), (AFTER, &[AFTER.to_owned()][..]));
    assert_eq!(cfgadm(&with, "delete_service"), (String::new(), 0));
    assert_eq!((file(&with).as_str(), with.services.borrow().last()), (BEFORE, Some(&BEFORE.to_owned())));
    let (said, exit) = cfgadm(&with, "delete_service");
    assert!(exit == 1 && said.contains("service entry ibd does not exist"), "{said}");
    assert_eq!(with.services.borrow().len(), 2);
}

#[test]
fn whoever_may_not_change_services_changes_none() {
    for (function, text, why) in [
        ("add_service", BEFORE, "failed to add ibd service incore "),
        ("delete_service", AFTER, "failed to delete in core ibd entry "),
    ] {
        let system = Scripted { privileged: false, ..system(text) };
        let said = format!("cfgadm: Hardware specific failure: {why}\n");
        assert_eq!(cfgadm(&system, function), (said, 1));
        assert_eq!(file(&system), text);
    }
}
