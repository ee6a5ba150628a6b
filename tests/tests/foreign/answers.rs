//! What a plugin answers, and in which ways ours may answer otherwise than the C plugin.

use fakekernel::Errno;
use lab_gldv3::{HeaderBlock, HeaderFacts, Plugin};

use super::inputs::{Address, Blocks, Input};
use super::rig::{Driver, LINK};

/// Everything that can be seen of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Verdict(Result<(), Errno>),
    Sap { legal: bool, key: u32 },
    Legal(bool),
    Header(Option<HeaderBlock>),
    Info(Result<HeaderFacts, Errno>),
    Blocks(Option<Blocks>),
    Text(Option<String>),
}

/// Where ours is more careful; the list is that of `mac_ib`'s documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The source bytes of a header that is made are zero, not what was in the memory.
    SourceIsZero,
    /// Uncook takes no more than there is; the C plugin moves the start of a short block behind its end.
    ShortUncook,
    /// An address with queue pair number 0xFFFFFF is no station's whatever its reserved byte.
    ReservedByte,
}

/// The addresses in front, and the source among them.
const ADDRESSES: usize = 40;
const SOURCE: usize = 20;
const STATION: u32 = 0;

pub fn ask(plugin: &Plugin, driver: &Driver, input: &Input) -> Answer {
    fn slices(blocks: &Blocks) -> Vec<&[u8]> {
        blocks.iter().map(Vec::as_slice).collect()
    }
    match input {
        Input::Unicast(address) => Answer::Verdict(plugin.unicast_verify(address)),
        Input::Multicast(address) => Answer::Verdict(plugin.multicast_verify(address)),
        Input::Sap { sap, before } => {
            let (legal, key) = plugin.sap_verify(*sap, *before);
            Answer::Sap { legal, key }
        }
        Input::SapAlone(sap) => Answer::Legal(plugin.sap_is_legal(*sap)),
        Input::Header { destination, sap, payload, extra } => {
            Answer::Header(plugin.header(destination, *sap, payload, *extra))
        }
        Input::HeaderInfo(blocks) => Answer::Info(plugin.header_info(&slices(blocks))),
        Input::Cook { blocks, shared } => Answer::Blocks(plugin.cook(&slices(blocks), *shared)),
        Input::Uncook { blocks, shared } => Answer::Blocks(plugin.uncook(&slices(blocks), *shared)),
        Input::LinkDetails { speed, size } => {
            driver.call("probe_speed", *speed);
            Answer::Text(plugin.link_details(LINK, *size))
        }
    }
}

/// The C plugin leaves its first block's pointers crossed. The lab notes that and takes the block for empty.
pub fn crosses_pointers(input: &Input) -> bool {
    matches!(input, Input::Uncook { blocks, .. } if blocks[0].len() < ADDRESSES)
}

/// How the answers differ, if that is one of the ways; `Err` if it is not.
pub fn difference(input: &Input, ours: &Answer, theirs: &Answer) -> Result<Option<Difference>, ()> {
    if crosses_pointers(input) && ours == theirs {
        return Ok(Some(Difference::ShortUncook));
    }
    if ours == theirs {
        return Ok(None);
    }
    let (source_apart, difference) = match (ours, theirs) {
        (Answer::Header(Some(a)), Answer::Header(Some(b))) => {
            let rest = HeaderBlock { bytes: without_source(&b.bytes), ..b.clone() };
            (*a == rest, Difference::SourceIsZero)
        }
        (Answer::Blocks(Some(a)), Answer::Blocks(Some(b))) if matches!(input, Input::Cook { .. }) => {
            let (first, rest) = b.split_first().ok_or(())?;
            let same = a.first() == Some(&without_source(first)) && a[1..] == *rest;
            (same, Difference::SourceIsZero)
        }
        (Answer::Verdict(a), Answer::Verdict(b)) => {
            let Input::Unicast(address) = input else { return Err(()) };
            let careful = *a == Err(Errno::EINVAL) && b.is_ok();
            (careful && is_marked_group(address), Difference::ReservedByte)
        }
        (Answer::Info(Ok(a)), Answer::Info(Ok(b))) => {
            let Input::HeaderInfo(blocks) = input else { return Err(()) };
            let address =
                blocks[0].get(SOURCE..ADDRESSES).and_then(|bytes| bytes.try_into().ok()).ok_or(())?;
            let rest = HeaderFacts { kind: STATION, ..*a } == *b && a.kind != STATION;
            (rest && is_marked_group(&address), Difference::ReservedByte)
        }
        _ => return Err(()),
    };
    if source_apart { Ok(Some(difference)) } else { Err(()) }
}

/// Queue pair number 0xFFFFFF behind a reserved byte that is not zero.
fn is_marked_group(address: &Address) -> bool {
    address[0] != 0 && address[1..4] == [0xff; 3]
}

fn without_source(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    header[..SOURCE].fill(0);
    header
}
