//! Objects of strangers: whatever a file says of itself, it is laid out or refused.

mod probe;

use std::fs;
use std::path::Path;

use fakekernel::{Config, Machine};
use probe::Probe;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Without `_info`, which the loader calls: nothing of a file that is not what its compiler made runs here.
const SOURCE: &str = "static kmutex_t a; static const int table[4] = { 1, 2, 3, 4 }; static int data = 7; static int zeroed[64];
    static int (*call)(int) = 0; static int twice(int n) { zeroed[n & 63]++; return (2 * table[n & 3] + data); }
    int go(void) { call = twice; mutex_init(&a, NULL, 4, NULL); mutex_enter(&a); mutex_exit(&a); mutex_destroy(&a);
        return (call(3) + (int)ddi_get_lbolt()); }";

/// Changes some numbers: most of them in the header, the section headers, and what sections have of symbols and relocations.
fn mutate(rng: &mut ChaCha8Rng, bytes: &mut Vec<u8>) {
    let sections = u64::from_le_bytes(bytes[0x28..0x30].try_into().expect("eight bytes")) as usize;
    for _ in 0..rng.random_range(1..4) {
        let region = match rng.random_range(0..8) {
            0 => 0..64,
            1..5 if sections < bytes.len() => sections..bytes.len(),
            _ => 64..bytes.len(),
        };
        let at = rng.random_range(region);
        let width = [1, 2, 4, 8][rng.random_range(0..4)].min(bytes.len() - at);
        let odd = [
            0,
            1,
            0x7f,
            0xff,
            0xffff,
            0x7fff_ffff,
            0xffff_ffff,
            1 << 31,
            1 << 40,
            1 << 63,
            u64::MAX,
            u64::MAX - 7,
        ];
        let old = bytes[at..at + width].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        let new = match rng.random_range(0..6) {
            0 => old.wrapping_add(rng.random_range(1..64)),
            1 => old.wrapping_sub(rng.random_range(1..64)),
            2 => rng.random(),
            3 => bytes.len() as u64 - rng.random_range(0..16),
            _ => odd[rng.random_range(0..odd.len())],
        };
        bytes[at..at + width].copy_from_slice(&new.to_le_bytes()[..width]);
    }
    if rng.random_range(0..12) == 0 {
        bytes.truncate(rng.random_range(0..=bytes.len()));
    }
}

#[test]
fn a_mutated_object_is_loaded_or_refused() {
    let probe = Probe::build_own_linkage("mutant", SOURCE);
    let whole = fs::read(probe.path()).expect("an object");
    let runs: u64 = std::env::var("MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let mut refused = 0;
    for seed in 0..runs {
        let mut bytes = whole.clone();
        mutate(&mut ChaCha8Rng::seed_from_u64(seed), &mut bytes);
        let path = probe.path().with_file_name(format!("mutated-{seed}"));
        fs::write(&path, &bytes).expect("written");
        let machine = Machine::new(Config::seeded(seed));
        let host = machine.add_host("alpha");
        let on = path.clone();
        let result = machine.run(move || host.scope(|| host.load(&on, "mutant", "misc").map(drop)));
        fs::remove_file(&path).expect("removed");
        if let Err(error) = result.unwrap_or_else(|halt| panic!("seed {seed}: {halt}")) {
            refused += 1;
            assert!(error.to_string().len() < 20_000, "seed {seed}: {error}");
        }
    }
    assert!(refused * 4 > runs && refused < runs, "{refused} of {runs}");
}

/// Before, the first took the memory of the workstation, and the last was read until there was none.
#[test]
fn an_object_that_asks_for_too_much_is_refused() {
    let probe = Probe::build_own_linkage("greedy", "int go(void) { return (0); }");
    let whole = fs::read(probe.path()).expect("an object");
    let number = |bytes: &[u8], at: usize| {
        bytes[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)) as usize
    };
    let sections = number(&whole, 0x28);
    let loaded = (0..whole[0x3c] as usize).map(|at| sections + 64 * at).find(|at| whole[at + 8] & 2 != 0);
    let loaded = loaded.expect("a section that is loaded");
    // SHT_NOBITS, so that the size is the section's own word.
    let cases: [(&str, &[(usize, u64)]); 4] = [
        ("sections of more than 64 MiB", &[(4, 8), (32, 1 << 40)]),
        ("sections of more than 64 MiB", &[(4, 8), (32, u64::MAX)]),
        ("a section is to be aligned to 0x4000000000000000", &[(48, 1 << 62)]),
        ("a section is to be aligned to 0x3", &[(48, 3)]),
    ];
    for (at, (reason, changes)) in cases.iter().enumerate() {
        let mut bytes = whole.clone();
        for (field, value) in *changes {
            let width = if *field == 4 { 4 } else { 8 };
            bytes[loaded + field..loaded + field + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        let path = probe.path().with_file_name(format!("greedy-{at}"));
        fs::write(&path, bytes).expect("written");
        refused(&path, reason);
    }
    refused(Path::new("/dev/zero"), "not a regular file");
    refused(Path::new("/"), "not a regular file");
}

fn refused(path: &Path, reason: &str) {
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let on = path.to_owned();
    let result = machine.run(move || host.scope(|| host.load(&on, "greedy", "misc").map(drop)));
    let said = result.expect("it goes on").expect_err("it is refused").to_string();
    assert!(said.contains(reason), "{}: {said}", path.display());
}
