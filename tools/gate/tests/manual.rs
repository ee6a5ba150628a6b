//! The manual pages are what mandoc takes for manual pages; it knows nothing of illumos's sections.

mod support;

use std::process::Command;

#[test]
fn mandoc_finds_nothing_but_a_section_it_does_not_know() {
    for page in [
        "usr/src/man/man4d/mac_ib.4d",
        "docs/man/ibdlab.8",
        "docs/man/ibd.4d",
        "docs/man/ibd.conf.5",
        "docs/man/ibdpath.8",
        "docs/man/swhca.4d",
    ] {
        let page = support::tree().join(page);
        let mandoc = Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(&page).output();
        let output = mandoc.expect("mandoc is installed (tools/setup.sh test)");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let found: Vec<&str> = said.lines().filter(|line| !line.contains("unknown manual section")).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
}
