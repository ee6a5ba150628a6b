//! What a plugin is asked: seeded, and mostly near the edges of what is legal.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

pub type Address = [u8; 20];
pub type Blocks = Vec<Vec<u8>>;

/// One call of one operation.
#[derive(Clone, Debug)]
pub enum Input {
    Unicast(Address),
    Multicast(Address),
    Sap { sap: u32, before: u32 },
    SapAlone(u32),
    Header { destination: Address, sap: u32, payload: Vec<u8>, extra: usize },
    HeaderInfo(Blocks),
    Cook { blocks: Blocks, shared: bool },
    Uncook { blocks: Blocks, shared: bool },
    LinkDetails { speed: i64, size: usize },
}

/// Bytes of a raw writer's header, of the two addresses, and of the whole header inside the system.
const EDGES: [usize; 3] = [24, 40, 44];
const BROADCAST: Address =
    [0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

impl Input {
    pub fn any(rng: &mut ChaCha8Rng) -> Self {
        match rng.random_range(0..33) {
            0..5 => Self::Unicast(address(rng)),
            5..10 => Self::Multicast(address(rng)),
            10..13 => Self::Sap { sap: sap(rng), before: rng.random() },
            13..15 => Self::SapAlone(sap(rng)),
            15..19 => Self::Header {
                destination: address(rng),
                sap: sap(rng),
                payload: bytes(rng, 64),
                extra: rng.random_range(0..3000),
            },
            19..24 => Self::HeaderInfo(packet(rng)),
            24..28 => Self::Cook { blocks: packet(rng), shared: rng.random() },
            28..32 => Self::Uncook { blocks: packet(rng), shared: rng.random() },
            _ => Self::LinkDetails { speed: rng.random(), size: rng.random_range(1..64) },
        }
    }
}

/// An address of a station, of a group, or of broadcast but for a byte or two.
fn address(rng: &mut ChaCha8Rng) -> Address {
    let mut address: Address = if rng.random() { rng.random() } else { BROADCAST };
    if rng.random() {
        address[1..4].fill(0xff);
    }
    if rng.random() {
        address[0] = 0;
    }
    for _ in 0..rng.random_range(0..3) {
        address[rng.random_range(0..20)] = rng.random();
    }
    address
}

fn sap(rng: &mut ChaCha8Rng) -> u32 {
    const EDGES: [u32; 12] = [0, 1, 255, 256, 1500, 1536, 0x800, 0x806, 0x86dd, 65_535, 65_536, u32::MAX];
    match rng.random_range(0..3) {
        0 => EDGES[rng.random_range(0..EDGES.len())],
        1 => rng.random_range(0..0x1_0100),
        _ => rng.random(),
    }
}

/// A header with a payload, in one to four blocks, the first of them often as long as a header, give or take a byte.
fn packet(rng: &mut ChaCha8Rng) -> Blocks {
    let mut whole = [address(rng).to_vec(), address(rng).to_vec(), bytes(rng, 120)].concat();
    if rng.random_ratio(1, 4) {
        whole[..4].fill(0);
    }
    let mut blocks = Vec::new();
    for _ in 0..rng.random_range(0..4) {
        let edge = EDGES[rng.random_range(0..EDGES.len())] + rng.random_range(0..3) - 1;
        let at = if rng.random() { edge } else { rng.random_range(0..=whole.len()) };
        let rest = whole.split_off(at.min(whole.len()));
        blocks.push(std::mem::replace(&mut whole, rest));
    }
    blocks.push(whole);
    blocks
}

fn bytes(rng: &mut ChaCha8Rng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..=most)];
    rng.fill_bytes(&mut bytes);
    bytes
}
