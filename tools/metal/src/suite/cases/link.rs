//! The driver and its links, without IP.

use anyhow::{Context, Result, bail, ensure};

use super::adapter::datagram;
use crate::machine::Fields;
use crate::machine::archive::Identity;
use crate::machine::options::Driver;
use crate::suite::Suite;
use crate::suite::bench::{Bench, CASE};
use crate::suite::report::Findings;

/// The adapter is found, its ports get nodes, the driver attaches to them.
pub fn attach(bench: &mut Bench) -> Result<Findings> {
    // What serves dls cannot do anything else.
    bench.must("router", "spawn dls")?;
    bench.must("dls", "dls-serve")?;
    bench.must("0", "dls-start")?;
    bench.must("0", "sockets")?;
    let devices = bench.must("0", "list /devices")?;
    let known = |name: &&str| ["fhca", "swhca"].iter().any(|adapter| name.starts_with(adapter));
    let control = devices.words().filter(known).find(|name| name.ends_with(":ctl"));
    let adapter = control.and_then(|name| name.strip_suffix(":ctl"));
    bench.adapter =
        adapter.or_else(|| devices.words().find(known)).context("no adapter among the devices")?.to_owned();
    let nodes = walk(bench)?;
    for module in [bench.identity.name(), "mac_ib", "ibtl", "ibmf", "ibcm", "ib"] {
        ensure!(bench.is_loaded(module)?, "{module} is not loaded; the nodes are {nodes}");
    }
    Ok(Findings::new(format!("{}: {nodes}", bench.adapter)).fact("nodes", nodes))
}

/// Looks at the adapter's children, which attaches them, and names them.
pub fn walk(bench: &mut Bench) -> Result<String> {
    let listed = bench.must("0", &format!("list /devices/{}", bench.adapter))?;
    Ok(listed.words().collect::<Vec<_>>().join(" "))
}

/// The words of a partition on a side's port.
pub fn partition(bench: &Bench, side: usize, verb: &str, pkey: u32) -> String {
    let side = &bench.sides[side];
    format!("part-{verb} {} {} {} {pkey}", side.link, side.port, side.port - 1)
}

/// Partitions on both ports; the C driver is told to use datagrams, before anybody opens them.
pub fn make_links(bench: &mut Bench) -> Result<()> {
    for side in 0..2 {
        if bench.identity != Identity::Ibd {
            let words = partition(bench, side, "create", 0xffff);
            bench.must("0", &words)?;
        }
        if bench.driver == Driver::C {
            bench.must("0", &format!("prop-set {} linkmode 0", bench.sides[side].link))?;
        }
    }
    Ok(())
}

/// And takes them away.
pub fn delete_links(bench: &mut Bench) -> Result<()> {
    for side in 0..2 {
        if bench.identity != Identity::Ibd {
            let words = partition(bench, side, "delete", 0xffff);
            // Busy while the SA has not answered the last leaves, which takes seconds on a machine that shares its processors.
            bench.until("0", &words, 10_000, |_| true)?;
        }
    }
    Ok(())
}

/// A partition is made where the port has the P_Key; what cannot be is refused and leaves nothing; a link that is open stays.
pub fn partitions(bench: &mut Bench) -> Result<Findings> {
    let mut refusals = Vec::new();
    let mut refuse = |bench: &mut Bench, what: &str, words: &str| -> Result<u32> {
        let refusal = bench.refused("0", words).with_context(|| what.to_owned())?;
        refusals.push(format!("{what}: {refusal}"));
        Ok(refusal.errno)
    };
    refuse(bench, "a P_Key that the port has not", "part-create 110 1 0 0x8abc")?;
    for (what, pkey) in [("the P_Key 0", "0"), ("the P_Key 8000", "0x8000")] {
        refuse(bench, what, &format!("part-create 110 1 0 {pkey}"))?;
    }
    refuse(bench, "no such port", "part-create 110 9 8 0xffff")?;
    refuse(bench, "no such partition", "part-delete 110 1 0 0xffff")?;
    make_links(bench)?;
    let again = partition(bench, 0, "create", 0xffff);
    refuse(bench, "the same id again", &again)?;
    bench.must("0", "part-create 110 1 0 0xffff").context("two links may have one P_Key")?;
    bench.must("0", "part-delete 110 1 0 0xffff")?;
    let device = bench.sides[0].device.clone();
    let fd = open(bench, &device)?;
    let delete = partition(bench, 0, "delete", 0xffff);
    refuse(bench, "a link that is open", &delete)?;
    bench.must(CASE, &format!("dl-info {fd}"))?;
    bench.must(CASE, &format!("close {fd}"))?;
    bench.must("0", "part-create 111 1 0 0x8abc 1").context("by force a P_Key need not be there")?;
    bench.must("0", "part-delete 111 1 0 0x8abc")?;
    let text =
        format!("{} made, {} refused", if bench.identity != Identity::Ibd { 3 } else { 1 }, refusals.len());
    let lines = refusals.join("\n");
    Ok(Findings::new(text).and(&lines).fact("refused", lines))
}

/// Opens a link; the descriptor.
pub fn open(bench: &mut Bench, device: &str) -> Result<u64> {
    let opened = bench.must(CASE, &format!("open /dev/net/{device}"))?;
    Bench::number(&opened, "fd")
}

/// The address in an answer.
pub fn address(fields: &Fields) -> Result<String> {
    Ok(fields.get("address").with_context(|| format!("no address in '{}'", fields.text))?.to_owned())
}

/// What an address says: a queue pair, and a GID that is not zero.
pub fn is_address(text: &str) -> bool {
    text.len() == 40
        && text[2..8].bytes().any(|digit| digit != b'0')
        && text[8..].bytes().any(|digit| digit != b'0')
}

/// The address that DL_BIND_ACK tells is the link's, then and later, and again when the link is opened again.
pub fn bind(bench: &mut Bench) -> Result<Findings> {
    let mut findings = Findings::new("the address in DL_BIND_ACK is the link's");
    for side in 0..2 {
        let device = bench.sides[side].device.clone();
        for round in ["first", "second"] {
            let fd = open(bench, &device)?;
            let bound = bench.must(CASE, &format!("dl-bind {fd} 0x800"))?;
            let told = address(&bound)?;
            bench.pause(100)?;
            let later = address(&bench.must(CASE, &format!("dl-address {fd}"))?)?;
            ensure!(
                is_address(&told) && told == later,
                "{device}, {round} time: bound with {told}, later {later}"
            );
            let info = bench.must(CASE, &format!("dl-info {fd}"))?;
            ensure!(info.number("media") == Some(0x1a), "{device} is no InfiniBand link: {}", info.text);
            bench.must(CASE, &format!("close {fd}"))?;
            let us = Bench::number(&bound, "us")?;
            findings = findings.and(format!(
                "{device}, {round} time: {told} after {us} us, {} bytes",
                info.get("sdu").unwrap_or_default()
            ));
        }
    }
    Ok(findings)
}

/// Packets of all sizes arrive as they were sent, both ways, with their receiver's address: IPoIB's header does not name the sender.
pub fn unicast(bench: &mut Bench) -> Result<Findings> {
    let mut ends = Vec::new();
    for side in 0..2 {
        let device = bench.sides[side].device.clone();
        let fd = open(bench, &device)?;
        let bound = bench.must(CASE, &format!("dl-bind {fd} 0x800"))?;
        ends.push((fd, address(&bound)?));
    }
    let mut packets = 0;
    // On more than one processor mac spreads packets by their headers, and drops those that have none, whatever the driver.
    let sizes = u32::from(bench.cpus > 1)..;
    for size in
        [0_u32, 1, 46, 64, 500, 1000, 1499, 2043, 2044].into_iter().filter(|size| sizes.contains(size))
    {
        for (from, to) in [(0, 1), (1, 0)] {
            let ((sender, _), (receiver, to_address)) = (&ends[from], &ends[to]);
            let seed = size + from as u32;
            let sent = bench.must(CASE, &format!("dl-send {sender} {to_address} 0x800 {size} {seed}"))?;
            let came = bench.must(CASE, &format!("dl-receive {receiver} 5000"))?;
            let right = came.get("sum") == sent.get("sum")
                && came.number("length") == Some(size.into())
                && came.get("to").is_some_and(|address| address.starts_with(to_address.as_str()));
            ensure!(right, "{size} bytes: sent '{}', came '{}'", sent.text, came.text);
            packets += 1;
        }
    }
    let (sender, _) = &ends[0];
    let too_large = bench.ask(CASE, &format!("dl-send {sender} {} 0x800 2045 1", ends[1].1))?;
    let none = bench.must(CASE, &format!("dl-count {} 500", ends[1].0))?;
    ensure!(
        none.number("packets") == Some(0),
        "a packet that is too large arrived: {too_large:?} {}",
        none.text
    );
    for (fd, _) in &ends {
        bench.must(CASE, &format!("close {fd}"))?;
    }
    Ok(Findings::new(format!("{packets} packets of {} to 2044 bytes both ways, none of 2045", sizes.start))
        .fact("packets", packets))
}

/// The first packet right behind a bind arrives, each time two links are opened.
///
/// Our driver answers a bind when it knows the address, and asks for the group after that. What is sent before the link is up is dropped
/// and counted, as on any link; sent again when it is up, it has to arrive. The C driver keeps the bind waiting.
pub fn first_packet(bench: &mut Bench) -> Result<Findings> {
    let rounds = if bench.suite == Suite::Full { 100 } else { 10 };
    let devices = bench.sides.clone().map(|side| side.device);
    let (mut lost, mut again) = (Vec::new(), 0);
    let mut dropped = dropped_early(bench)?;
    for round in 0..rounds {
        let (sender, receiver) = (open(bench, &devices[0])?, open(bench, &devices[1])?);
        bench.must(CASE, &format!("dl-bind {sender} 0x800"))?;
        let to = address(&bench.must(CASE, &format!("dl-bind {receiver} 0x800"))?)?;
        let words = format!("dl-send {sender} {to} 0x800 64 {round}");
        if !arrives(bench, &words, receiver)? {
            let before = std::mem::replace(&mut dropped, dropped_early(bench)?);
            let early = dropped == before + 1;
            let counted = counted(bench)?;
            if early && arrives(bench, &words, receiver)? {
                again += 1;
            } else {
                lost.push(format!("{round} ({counted})"));
            }
        }
        for fd in [sender, receiver] {
            bench.must(CASE, &format!("close {fd}"))?;
        }
    }
    ensure!(
        lost.is_empty(),
        "of {rounds} first packets {} were lost, in rounds {}",
        lost.len(),
        lost.join(" ")
    );
    Ok(Findings::new(format!("{rounds} of {rounds} arrived, {again} of them when the link was up"))
        .fact("rounds", rounds)
        .fact("again", again))
}

fn arrives(bench: &mut Bench, words: &str, receiver: u64) -> Result<bool> {
    let sent = bench.must(CASE, words)?;
    let came = bench.ask(CASE, &format!("dl-receive {receiver} 1000"))?;
    Ok(came.is_ok_and(|came| came.get("sum") == sent.get("sum")))
}

/// How many packets the first link has dropped because it was not up; the C driver does not count it.
fn dropped_early(bench: &mut Bench) -> Result<u64> {
    if bench.driver == Driver::C { Ok(0) } else { Bench::number(&datagram(bench, 0)?, "tx_drop_link_down") }
}

/// What the two links and the adapter have counted, but for what is 0: where a packet was lost.
fn counted(bench: &mut Bench) -> Result<String> {
    let mut said = Vec::new();
    for side in 0..2 {
        let device = bench.sides[side].device.clone();
        said.push((device.clone(), datagram(bench, side)?));
        said.push((format!("link {device}"), bench.must("0", &format!("kstat link 0 {device}"))?));
    }
    said.push(("swhca".to_owned(), bench.must("0", "kstat swhca 0 statistics")?));
    let some = said.iter().map(|(of, fields)| {
        let some =
            fields.pairs().filter(|(_, value)| *value != "0").map(|(name, value)| format!("{name} {value}"));
        format!("{of}: {}", some.collect::<Vec<_>>().join(", "))
    });
    Ok(some.collect::<Vec<_>>().join("; "))
}

/// A stream in raw mode sees the link's header; what is sent to the broadcast address arrives.
pub fn raw(bench: &mut Bench) -> Result<Findings> {
    let devices = bench.sides.clone().map(|side| side.device);
    let (sender, receiver) = (open(bench, &devices[0])?, open(bench, &devices[1])?);
    bench.must(CASE, &format!("dl-bind {sender} 0x800"))?;
    bench.must(CASE, &format!("dl-raw {receiver}"))?;
    bench.must(CASE, &format!("dl-bind {receiver} 0x800"))?;
    let broadcast = bench.must(CASE, &format!("dl-info {sender}"))?;
    let broadcast = broadcast.get("broadcast").context("no broadcast address")?.to_owned();
    let to = broadcast.get(..40).context("the broadcast address is too short")?;
    let sent = bench.must(CASE, &format!("dl-send {sender} {to} 0x800 100 7"))?;
    let came = bench.must(CASE, &format!("dl-receive {receiver} 5000"))?;
    let begin = came.get("begin").unwrap_or_default();
    // The header of RFC 4391: type and two reserved octets.
    let length = Bench::number(&came, "length")?;
    if length != 104 || !begin.starts_with("08000000") {
        bail!("sent '{}', came '{}'", sent.text, came.text);
    }
    for fd in [sender, receiver] {
        bench.must(CASE, &format!("close {fd}"))?;
    }
    Ok(Findings::new(format!("100 bytes to the broadcast group came as {length}, with the header"))
        .fact("length", length))
}

/// Properties: what cannot be set is refused and unchanged, what can be is taken and shown.
pub fn properties(bench: &mut Bench) -> Result<Findings> {
    let link = bench.sides[0].link;
    let value = |bench: &mut Bench, name: &str| -> Result<String> {
        let answer = bench.must("0", &format!("prop-get {link} {name}"))?;
        Ok(answer.get("value").unwrap_or_default().to_owned())
    };
    let mtu = value(bench, "mtu")?;
    let mut said = vec![format!("mtu {mtu}")];
    for name in ["speed", "state", "duplex", "linkmode"] {
        said.push(match bench.ask("0", &format!("prop-get {link} {name}"))? {
            Ok(answer) => format!("{name} {}", answer.get("value").unwrap_or_default()),
            Err(refusal) => format!("{name} refused with {}", refusal.errno),
        });
    }
    let refusal = bench.refused("0", &format!("prop-set {link} mtu 9000"))?;
    ensure!(value(bench, "mtu")? == mtu, "the MTU was refused with {} and changed", refusal.errno);
    if bench.driver == Driver::Rust {
        for ring in ["_ibd_ud_num_swqe", "_ibd_ud_num_rwqe"] {
            let before = value(bench, ring)?;
            bench.refused("0", &format!("prop-set {link} {ring} 1"))?;
            bench.refused("0", &format!("prop-set {link} {ring}x 1024"))?;
            bench.must("0", &format!("prop-set {link} {ring} 1024"))?;
            ensure!(value(bench, ring)? == "1024", "{ring} was set and is not shown");
            bench.must("0", &format!("prop-set {link} {ring} {before}"))?;
            said.push(format!("{ring} {before}"));
        }
        bench.must("0", &format!("prop-set {link} linkmode 1"))?;
        let connected = value(bench, "mtu")?;
        ensure!(connected == "65520", "in connected mode the MTU is {connected}");
        bench.must("0", &format!("prop-set {link} linkmode 0"))?;
        // As of a link that has had no group yet.
        let datagrams = value(bench, "mtu")?;
        ensure!(datagrams == "4092", "in datagram mode the MTU is {datagrams}");
        bench.refused("0", &format!("prop-set {link} linkmode 7"))?;
    }
    Ok(Findings::new(said.join(", ")).fact("mtu", mtu))
}

/// The nexus made the links; the C driver is told to use datagrams.
pub fn ready(bench: &mut Bench) -> Result<Findings> {
    make_links(bench)?;
    let names = bench.sides.clone().map(|side| side.device).join(", ");
    Ok(Findings::new(format!("{names}, made by the nexus")).fact("links", names))
}

/// A link of the nexus's own on one port and a partition on the other reach each other: either name of the driver attaches to its nodes.
pub fn side_by_side(bench: &mut Bench) -> Result<Findings> {
    ensure!(bench.is_loaded("ibd")? && bench.is_loaded("ibp")?, "not both are loaded");
    let made = bench.sides[1].device.clone();
    let mut ends = Vec::new();
    for device in ["ibd0", made.as_str()] {
        let fd = open(bench, device)?;
        ends.push((fd, address(&bench.must(CASE, &format!("dl-bind {fd} 0x800"))?)?));
    }
    for (from, to) in [(0, 1), (1, 0)] {
        let ((sender, _), (receiver, to)) = (&ends[from], &ends[to]);
        let sent = bench.must(CASE, &format!("dl-send {sender} {to} 0x800 1000 {from}"))?;
        let came = bench.must(CASE, &format!("dl-receive {receiver} 5000"))?;
        ensure!(came.get("sum") == sent.get("sum"), "sent '{}', came '{}'", sent.text, came.text);
    }
    for (fd, _) in &ends {
        bench.must(CASE, &format!("close {fd}"))?;
    }
    let nodes = walk(bench)?;
    Ok(Findings::new(format!("ibd0 and {made} reach each other; the nodes: {nodes}")).fact("nodes", nodes))
}
