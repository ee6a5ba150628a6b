//! libFuzzer over the target that `TARGET` names.
#![no_main]

use std::sync::OnceLock;

use fuzz_targets::TARGETS;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn target() -> fn(&[u8]) {
    let name = std::env::var("TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let known = || TARGETS.map(|(name, _)| name).join(", ");
    found.unwrap_or_else(|| panic!("TARGET={name} is no target, expected one of {}", known())).1
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(target)(bytes));
