//! ^C, closed pipes and full disks in the middle of what `ibdlab` does: what is said then, and that nothing is left behind.

mod lab;

use lab::{Lab, root};

/// Numbers that are no time any more, and times that nobody waits for.
#[test]
fn a_command_that_waits_for_ever_ends_at_an_interrupt_and_its_lab_does_not() {
    let lab = Lab::new();
    lab.up(&root().join("scenarios/desk.toml"), &[]);
    lab.until("bob answers", || lab.run("alice", "ping bob 1").1 == 0);
    assert_eq!(lab.ibdlab(&["fabric", "unplug", "bob"]), (String::new(), 0));
    for line in [
        "dladm show-link -s -i 18446744073709551615 ibp0",
        "kstat -p -s link_state 18446744073709551615",
        "ping -s -I 18446744073709551615 10.0.0.1",
        "ping -s -I 18446744073 10.0.0.2",
        "ping -s -I 86400 10.0.0.2",
    ] {
        let mut command =
            lab.talk(&[&["exec", "alice", "--"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
        assert_ne!(command.line(), "", "{line}");
        command.signal("-INT");
        let (said, _) = command.end();
        assert!(!said.contains("ibdlab:"), "{line}: {said}");
    }
    lab.down();
}
