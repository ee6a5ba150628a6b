//! Every target over its corpus, and over mutations of it that a fixed seed chooses.

use std::fs;
use std::path::Path;

use fuzz_targets::TARGETS;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MUTATIONS: usize = 3_000;
/// Each of these is a run of a machine with two hosts.
const MUTATIONS_OF_RUNS: usize = 30;
const LONGEST: usize = 4_096;

/// The files of a target's corpus, in the order of their names; without any, one of nothing.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("readable")).collect();
    inputs.push(Vec::new());
    inputs
}

fn mutate(rng: &mut ChaCha8Rng, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=input.len());
        match rng.random_range(0..5) {
            0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
            1 if at < input.len() => input[at] = rng.random(),
            2 => input.truncate(at),
            3 => {
                let more = rng.random_range(0..64);
                input.splice(at..at, std::iter::repeat_with(|| rng.random()).take(more));
            }
            _ => {
                let from = rng.random_range(0..=other.len());
                input.splice(at..at, other[from..].iter().copied());
            }
        }
    }
    input.truncate(LONGEST);
}

fn smoke(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    let corpus = corpus(target);
    corpus.iter().for_each(|input| run(input));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let count = if target == "receive_path" { MUTATIONS_OF_RUNS } else { MUTATIONS };
    for _ in 0..count {
        let [one, other] = [(); 2].map(|()| rng.random_range(0..corpus.len()));
        let mut input = corpus[one].clone();
        mutate(&mut rng, &mut input, &corpus[other]);
        run(&input);
    }
}

macro_rules! smoke {
    ($($name:ident)*) => {
        $(#[test] fn $name() { smoke(stringify!($name)); })*
        #[test]
        fn every_target_is_here() {
            let here = [$(stringify!($name)),*];
            assert_eq!(here, TARGETS.map(|(name, _)| name));
        }
    };
}

smoke!(sa_mad rmpp subnet_administrator wire_frame capture ipoib_frame arp_and_nd routers ipv6_fragments scenario suppressions snoop_file host_files module_object receive_path);
