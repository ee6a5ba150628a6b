//! IP over the links: two zones with a stack of their own, so that packets have to cross.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::adapter::datagram;
use crate::machine::Fields;
use crate::machine::options::Driver;
use crate::suite::bench::{Bench, Sizes};
use crate::suite::report::Findings;
use crate::suite::{Linkmode, Suite};

/// What the interface carries in connected mode.
pub const CONNECTED_MTU: u32 = 65_520;

const MANY_SECONDS: Duration = Duration::from_secs(900);

/// Two zones, each with a link of its own, an IPv4 address and an IPv6 one.
pub fn setup(bench: &mut Bench) -> Result<Findings> {
    for side in 0..2 {
        make_zone(bench, side)?;
        plumb(bench, side)?;
    }
    let mut findings = Findings::new("two zones with an exclusive IP stack");
    for side in bench.sides.clone() {
        let shown = bench.until(side.name, "interface ib0", 10_000, is_running)?;
        let address = side.v6.map(|(address, _)| address).unwrap_or_default();
        findings = findings.and(format!(
            "{}: {} and {address}, mtu {}",
            side.name,
            side.address,
            shown.get("mtu").unwrap_or_default()
        ));
    }
    Ok(findings)
}

/// Up, running, and the address is nobody else's.
fn is_running(fields: &Fields) -> bool {
    fields.number("up") == Some(1)
        && fields.number("running") == Some(1)
        && fields.number("duplicate") == Some(0)
}

/// A zone with the side's link, and a process in it.
pub fn make_zone(bench: &mut Bench, side: usize) -> Result<()> {
    let (name, link) = (bench.sides[side].name, bench.sides[side].link);
    let device = bench.sides[side].device.clone();
    let root = format!("/etc/svc/volatile/{name}");
    let zone = Bench::number(&bench.must("0", &format!("zone-create {name} {root}"))?, "zone")?;
    bench.sides[side].zone = Some(zone);
    bench.must("0", &format!("zone-link {zone} {link} on"))?;
    bench.must("0", &format!("node {root}/link /dev/net/{device}"))?;
    bench.must("0", &format!("prop-zone {link} {zone}"))?;
    bench.must("0", &format!("node {root}/udp /devices/pseudo/udp@0:udp"))?;
    bench.must("0", &format!("node {root}/udp6 /devices/pseudo/udp6@0:udp6"))?;
    bench.must("0", &format!("node {root}/kstat /devices/pseudo/kstat@0:kstat"))?;
    bench.must("router", &format!("spawn {name}"))?;
    bench.must(name, &format!("enter {zone}")).map(drop)
}

/// Both families on the side's link.
pub fn plumb(bench: &mut Bench, side: usize) -> Result<()> {
    let (name, address, link) = (bench.sides[side].name, bench.sides[side].address, bench.sides[side].link);
    if bench.linkmode == Linkmode::Cm {
        // The C driver is told each time before it is opened.
        bench.must("0", &format!("prop-set {link} linkmode 1"))?;
    }
    bench.must(name, "plumb ib0 /link")?;
    bench.must(name, &format!("address ib0 {address} 24"))?;
    bench.must(name, "plumb ib0 /link 6")?;
    bench.must(name, "up ib0 6")?;
    let local = |fields: &Fields| fields.get("hex").is_some_and(|address| address.starts_with("fe80"));
    let shown = bench.until(name, "interface ib0 6", 5_000, local)?;
    let address = shown.get("address").context("no IPv6 address")?.to_owned();
    bench.sides[side].v6 = Some((address, Bench::number(&shown, "index")?));
    Ok(())
}

/// Takes both families off it.
pub fn unplumb(bench: &mut Bench, side: usize) -> Result<()> {
    let name = bench.sides[side].name;
    bench.must(name, "unplumb ib0 6")?;
    bench.must(name, "unplumb ib0")?;
    bench.sides[side].v6 = None;
    Ok(())
}

/// The zone ends; its link is the global zone's again.
pub fn end_zone(bench: &mut Bench, side: usize) -> Result<()> {
    let (name, link) = (bench.sides[side].name, bench.sides[side].link);
    let zone = bench.sides[side].zone.take().context("no zone")?;
    bench.must("router", &format!("end {name}"))?;
    bench.must("0", &format!("zone-shutdown {zone}"))?;
    bench.must("0", &format!("zone-link {zone} {link} off"))?;
    bench.must("0", &format!("prop-zone {link} 0"))?;
    bench.must("0", &format!("zone-destroy {zone}")).map(drop)
}

/// How long it may take until a neighbour is found.
pub const NEIGHBOUR: u64 = 20_000;

/// Every echo over IPv4 is answered, from none to as many bytes as a packet holds, both ways.
pub fn ping(bench: &mut Bench) -> Result<Findings> {
    let full = full_echo(bench, 4);
    echoes(bench, 4, full)
}

/// The same over IPv6; who answers was found by neighbour discovery.
///
/// An echo that fills a datagram panics a kernel with its checks on through the C driver (`id_lso != NULL`, where the adapter has no
/// large sends), so the control stays below it.
pub fn ipv6(bench: &mut Bench) -> Result<Findings> {
    let control = bench.driver == Driver::C && bench.linkmode == Linkmode::Ud;
    let full = if control { 1984 } else { full_echo(bench, 6) };
    echoes(bench, 6, full)
}

fn echoes(bench: &mut Bench, family: u8, full: u32) -> Result<Findings> {
    let (step, each) = match (bench.suite, bench.linkmode) {
        (Suite::Quick, Linkmode::Ud) => (16, 1),
        (Suite::Quick, Linkmode::Cm) => (499, 1),
        (Suite::Full, Linkmode::Ud) => (1, 2),
        (Suite::Full, Linkmode::Cm) => (31, 2),
    };
    let mut count = 0;
    for from in 0..2 {
        reach_with(bench, from, family, full)?;
        count += bench.all_answered(from, family, Sizes { from: 0, to: full, step, each })?;
        count += bench.all_answered(from, family, Sizes::one(full, 4))?;
    }
    Ok(Findings::new(format!("{count} of {count} answered, 0 to {full} bytes, both ways"))
        .fact("echoes", count))
}

/// The other side answers an echo of this size: at the first ones, connections may still be made.
pub fn reach_with(bench: &mut Bench, from: usize, family: u8, size: u32) -> Result<()> {
    answers_in(bench, from, family, NEIGHBOUR)?;
    let words = format!("{} {size} {size} 1 1 1000", bench.echo_to(from, family)?);
    for _ in 0..20 {
        if bench.must(bench.sides[from].name, &words)?.number("answered") == Some(1) {
            return Ok(());
        }
        bench.pause(250)?;
    }
    bail!("no echo of {size} bytes is answered")
}

/// What does not fit is cut by IP and put together again.
pub fn fragments(bench: &mut Bench) -> Result<Findings> {
    let mut count = 0;
    let mut most = 9000;
    for family in [4, 6] {
        let mut step = if bench.suite == Suite::Full { 7 } else { 499 };
        if bench.linkmode == Linkmode::Cm {
            // A packet has no more than 65,535 bytes, with its header in this kernel, which is little more than fits a message.
            (most, step) = (65_535 - if family == 4 { 28 } else { 48 }, 2);
        }
        let full = full_echo(bench, family);
        for from in 0..2 {
            count += bench.all_answered(from, family, Sizes { from: full + 1, to: most, step, each: 1 })?;
            count += bench.all_answered(from, family, Sizes::one(most, 1))?;
        }
    }
    Ok(Findings::new(format!("{count} of {count} answered, up to {most} bytes, both families, both ways"))
        .fact("echoes", count))
}

/// The interface has the group's MTU, and an echo that fills a packet is one packet.
pub fn mtu(bench: &mut Bench) -> Result<Findings> {
    let mtu = interface_mtu(bench)?;
    match bench.linkmode {
        Linkmode::Ud => {
            ensure!([2044, 4092, 1020].contains(&mtu), "{mtu} is 4 less than no MTU of InfiniBand")
        }
        Linkmode::Cm => ensure!(mtu == u64::from(CONNECTED_MTU), "in connected mode it is {mtu}"),
    }
    reach_with(bench, 0, 4, u32::try_from(mtu)? - 28)?;
    let before = sent_packets(bench, 0)?;
    bench.all_answered(0, 4, Sizes::one(u32::try_from(mtu)? - 28, 100))?;
    let sent = sent_packets(bench, 0)? - before;
    ensure!((100..150).contains(&sent), "100 full packets went out as {sent}");
    Ok(Findings::new(format!("{mtu}; 100 full echoes went out as {sent} packets")).fact("mtu", mtu))
}

/// What a link's own statistics say of a side.
pub fn link_kstat(bench: &mut Bench, side: usize) -> Result<Fields> {
    let (name, device) = (bench.sides[side].name, bench.sides[side].device.clone());
    // A link that was given to a zone has a statistic there.
    bench.must(name, &format!("kstat link 0 {device}"))
}

fn sent_packets(bench: &mut Bench, side: usize) -> Result<u64> {
    Bench::number(&link_kstat(bench, side)?, "opackets64")
}

/// Statistics count what passed: at both ends the same.
///
/// After plumbing IPv6 IP reports its groups to the routers' group a few times. Nobody is in that, so there is no such group in the
/// subnet, the packets cannot be sent, and `oerrors` counts them, as it should: our driver says of each why. For the C driver, which
/// does not, only what is counted later is judged.
pub fn kstats(bench: &mut Bench) -> Result<Findings> {
    if bench.driver == Driver::C {
        quiet(bench)?;
    }
    for from in 0..2 {
        answers(bench, from, NEIGHBOUR)?;
    }
    let before = [link_kstat(bench, 0)?, link_kstat(bench, 1)?];
    bench.all_answered(0, 4, Sizes::one(1000, 50))?;
    let after = [link_kstat(bench, 0)?, link_kstat(bench, 1)?];
    let dropped = explained_drops(bench)?;
    let moved = |side: usize, name: &str| -> Result<u64> {
        Ok(Bench::number(&after[side], name)? - Bench::number(&before[side], name)?)
    };
    for (sender, receiver) in [(0, 1), (1, 0)] {
        let (out, into) = (moved(sender, "opackets64")?, moved(receiver, "ipackets64")?);
        ensure!(out >= 50 && out.abs_diff(into) <= 4, "{out} packets went out and {into} came in");
        let octets = moved(sender, "obytes64")?;
        ensure!(octets >= 50 * 1028, "{octets} bytes for 50 echoes of 1000");
    }
    ensure!(bench.driver == Driver::Rust || moved(0, "oerrors")? == 0, "packets were dropped");
    for name in ["ierrors", "norcvbuf", "noxmtbuf"] {
        ensure!(moved(0, name)? == 0, "{name} moved from {:?}; dropped: {dropped}", before[0].get(name));
    }
    let names: Vec<&str> = after[0].pairs().map(|(name, _)| name).collect();
    Ok(Findings::new(format!("both ends count the same; {} numbers", names.len()))
        .fact("names", names.join(" "))
        .fact("oerrors_before", before[0].number("oerrors").unwrap_or_default())
        .fact("dropped", dropped))
}

/// Waits until nothing was dropped for three seconds.
fn quiet(bench: &mut Bench) -> Result<()> {
    let mut last = None;
    for _ in 0..10 {
        let mut now = Vec::new();
        for side in 0..2 {
            now.push(Bench::number(&link_kstat(bench, side)?, "oerrors")?);
        }
        if last.replace(now.clone()) == Some(now) {
            return Ok(());
        }
        bench.pause(3000)?;
    }
    anyhow::bail!("packets are dropped all the time: {last:?}")
}

/// What was not sent since the links were made, by its reason: as many as `oerrors` says, and none that somebody was waiting for.
fn explained_drops(bench: &mut Bench) -> Result<String> {
    let mut said = Vec::new();
    if bench.driver == Driver::C {
        return Ok(said.join(", "));
    }
    for side in 0..2 {
        let errors = Bench::number(&link_kstat(bench, side)?, "oerrors")?;
        let own = datagram(bench, side)?;
        // One may be dropped while they are read.
        let errors = errors..=Bench::number(&link_kstat(bench, side)?, "oerrors")?;
        let is_drop = |name: &str| name.starts_with("tx_drop_") || name == "tx_failed";
        let drops: Vec<(String, u64)> = own
            .pairs()
            .filter(|(name, _)| is_drop(name))
            .filter_map(|(name, value)| {
                Some((name.to_owned(), value.parse().ok().filter(|count| *count > 0)?))
            })
            .collect();
        let named: u64 = drops.iter().map(|(_, count)| count).sum();
        let device = &bench.sides[side].device;
        ensure!(errors.contains(&named), "{device}: oerrors is {errors:?}, its reasons are {drops:?}");
        let groups = drops.iter().all(|(name, _)| name == "tx_drop_unreachable");
        ensure!(groups, "{device}: only packets to groups without members may be dropped, not {drops:?}");
        said.extend(drops.iter().map(|(name, count)| format!("{device}: {name} {count}")));
    }
    Ok(said.join(", "))
}

/// Random data arrives as it was sent, both ways.
pub fn tcp(bench: &mut Bench) -> Result<Findings> {
    let mib = 1 << 20;
    let plan: &[(usize, u64, u32)] = match bench.suite {
        Suite::Quick => &[(0, 4 * mib, 65_536), (1, 2 * mib, 8_192)],
        Suite::Full => &[(0, 64 * mib, 65_536), (1, 64 * mib, 65_536), (0, mib, 100)],
    };
    let findings = streams(bench, plan, 5001)?;
    Ok(offloaded(bench, findings))
}

/// Streams of random data, one after the other, at ports from this one on: who sends, how many bytes, in writes of how many.
pub fn streams(bench: &mut Bench, plan: &[(usize, u64, u32)], first_port: usize) -> Result<Findings> {
    let mut findings = Findings::default();
    for (turn, &(from, octets, chunk)) in plan.iter().enumerate() {
        let (sender, receiver) = (bench.sides[from].name, bench.sides[1 - from].name);
        let port = first_port + turn;
        let fd = Bench::number(&bench.must(receiver, &format!("tcp-listen {port}"))?, "fd")?;
        let receiving = bench.begin(receiver, &format!("tcp-receive {fd}"))?;
        let to = bench.sides[1 - from].address;
        let sent = bench.must_within(
            sender,
            &format!("tcp-send {to} {port} {octets} {chunk} {port}"),
            MANY_SECONDS,
        )?;
        let came = bench.end(receiving, MANY_SECONDS)?;
        ensure!(
            came.number("octets") == Some(octets) && came.get("sum") == sent.get("sum"),
            "sent '{}', came '{}'",
            sent.text,
            came.text
        );
        let us = Bench::number(&came, "us")?.max(1);
        let line = format!(
            "{sender} -> {to}: {octets} bytes in writes of {chunk}, equal sums, {:.1} MB/s",
            octets as f64 / us as f64
        );
        findings =
            if turn == 0 { Findings::new(line) } else { findings.and(line) }.fact(format!("us_{turn}"), us);
    }
    Ok(findings)
}

/// A link has its mode from before it is opened.
pub fn set_linkmode(bench: &mut Bench, mode: Linkmode) -> Result<()> {
    bench.linkmode = mode;
    for side in 0..2 {
        let link = bench.sides[side].link;
        unplumb(bench, side)?;
        bench.must("0", &format!("prop-set {link} linkmode {}", u32::from(mode == Linkmode::Cm)))?;
        plumb(bench, side)?;
    }
    Ok(())
}

/// Bytes of an echo that fills a packet over IPv4 or IPv6.
pub fn full_echo(bench: &Bench, family: u8) -> u32 {
    let mtu = if bench.linkmode == Linkmode::Cm { CONNECTED_MTU } else { 2044 };
    mtu - if family == 4 { 28 } else { 48 }
}

pub fn interface_mtu(bench: &mut Bench) -> Result<u64> {
    let name = bench.sides[0].name;
    Bench::number(&bench.must(name, "interface ib0")?, "mtu")
}

/// What the adapter has done of the stack's work, if it is one that says so.
fn offloaded(bench: &mut Bench, findings: Findings) -> Findings {
    let Ok(shown) = bench.must("0", "kstat swhca 0 statistics") else { return findings };
    let (Some(cut), Some(sums)) = (shown.number("large-sends"), shown.number("checksums")) else {
        return findings;
    };
    let line =
        format!("so far the adapter has cut {cut} large sends, and computed checksums of {sums} packets");
    findings.and(line).fact("large_sends", cut).fact("checksums", sums)
}

/// Who is in a group hears it, of both families; who left does not.
pub fn multicast(bench: &mut Bench) -> Result<Findings> {
    let mut heard = 0;
    for (family, group) in [("4", "239.1.2.3"), ("6", "ff02::1:76")] {
        for from in 0..2 {
            heard += one_group(bench, from, family, group)?;
        }
    }
    Ok(Findings::new(format!("{heard} of {heard} heard in groups of both families, none after leaving"))
        .fact("heard", heard))
}

fn one_group(bench: &mut Bench, from: usize, family: &str, group: &str) -> Result<u64> {
    let pair = udp_pair(bench, from, family, 7600)?;
    pair.member(bench, group, true)?;
    // The receiver joins at the subnet administrator, and the sender learns where the group is.
    bench.pause(500)?;
    for _ in 0..10 {
        pair.send(bench, group)?;
    }
    let heard = pair.heard(bench, 10)?;
    ensure!(heard == 10, "{group}: of 10 datagrams {heard} were heard");
    pair.member(bench, group, false)?;
    pair.send(bench, group)?;
    ensure!(pair.heard(bench, 1)? == 0, "{group} is heard after leaving");
    pair.close(bench)?;
    Ok(10)
}

/// Two sockets for datagrams to groups: one side's that sends, and the other's that hears.
pub struct UdpPair {
    sender: &'static str,
    to: u64,
    /// The interface that it sends through, and so for the receiver.
    out: String,
    receiver: &'static str,
    at: u64,
    into: String,
    port: u16,
}

/// Opens both; the receiver has the port.
pub fn udp_pair(bench: &mut Bench, from: usize, family: &str, port: u16) -> Result<UdpPair> {
    let (sender, receiver) = (bench.sides[from].name, bench.sides[1 - from].name);
    let interface = |side: usize| -> Result<String> {
        let side = &bench.sides[side];
        let index = || side.v6.as_ref().map(|(_, index)| index.to_string()).context("without IPv6");
        if family == "4" { Ok(side.address.to_owned()) } else { index() }
    };
    let (out, into) = (interface(from)?, interface(1 - from)?);
    let to = Bench::number(&bench.must(sender, &format!("udp-open {family} 0"))?, "fd")?;
    let at = Bench::number(&bench.must(receiver, &format!("udp-open {family} {port}"))?, "fd")?;
    Ok(UdpPair { sender, to, out, receiver, at, into, port })
}

impl UdpPair {
    /// One of 700 octets.
    pub fn send(&self, bench: &mut Bench, group: &str) -> Result<()> {
        let Self { sender, to, out, port, .. } = self;
        bench.must(sender, &format!("udp-send {to} {group} {port} {out} 700 9")).map(drop)
    }

    /// The receiver joins or leaves.
    pub fn member(&self, bench: &mut Bench, group: &str, on: bool) -> Result<()> {
        let Self { receiver, at, into, .. } = self;
        let on = if on { "on" } else { "off" };
        bench.must(receiver, &format!("udp-member {at} {group} {into} {on}")).map(drop)
    }

    /// How many have come, each as it was sent, until so many have or none comes for half a second.
    pub fn heard(&self, bench: &mut Bench, enough: u32) -> Result<u64> {
        let came = bench.must(self.receiver, &format!("udp-receive {} 500 700 9 {enough}", self.at))?;
        let (right, all) = (Bench::number(&came, "right")?, Bench::number(&came, "came")?);
        ensure!(right == all, "datagrams came that are not as they were sent: {}", came.text);
        Ok(right)
    }

    /// Closes both.
    pub fn close(self, bench: &mut Bench) -> Result<()> {
        bench.must(self.sender, &format!("close {}", self.to))?;
        bench.must(self.receiver, &format!("close {}", self.at)).map(drop)
    }
}

/// A promiscuous stream sees both ways of an echo; the link works on while it looks and after it.
pub fn snoop(bench: &mut Bench) -> Result<Findings> {
    let name = bench.sides[1].name;
    let fd = Bench::number(&bench.must(name, "open /link")?, "fd")?;
    bench.must(name, &format!("dl-raw {fd}"))?;
    for level in ["phys", "sap", "multi"] {
        bench.must(name, &format!("dl-promisc {fd} {level} on"))?;
    }
    bench.must(name, &format!("dl-bind {fd} 0x4000"))?;
    bench.all_answered(0, 4, Sizes::one(56, 10))?;
    let seen = bench.must(name, &format!("dl-count {fd} 500"))?;
    let packets = Bench::number(&seen, "packets")?;
    ensure!(packets >= 20, "of 10 echoes {packets} packets were seen, not both ways");
    bench.must(name, &format!("dl-promisc {fd} phys off"))?;
    bench.must(name, &format!("close {fd}"))?;
    bench.all_answered(0, 4, Sizes::one(56, 20))?;
    Ok(Findings::new(format!("{packets} packets of 10 echoes were seen")).fact("packets", packets))
}

/// An interface goes and comes; the other side is reached every time.
pub fn plumb_again(bench: &mut Bench) -> Result<Findings> {
    let rounds = if bench.suite == Suite::Full { 10 } else { 2 };
    let before = bench.sides[1].v6.clone();
    for round in 1..=rounds {
        unplumb(bench, 1)?;
        let to = bench.sides[1].address;
        let answer = bench.must(bench.sides[0].name, &format!("ping4 {to} 56 56 1 1 300"))?;
        ensure!(answer.number("answered") == Some(0), "round {round}: without an interface it answers");
        plumb(bench, 1)?;
        let running = bench.sides[1].name;
        bench.until(running, "interface ib0", 10_000, is_running)?;
        let address = |v6: &Option<(String, u64)>| v6.as_ref().map(|(address, _)| address.clone());
        ensure!(
            address(&bench.sides[1].v6) == address(&before),
            "round {round}: another interface identifier"
        );
        answers(bench, 0, 20_000).with_context(|| format!("round {round}"))?;
        answers(bench, 1, 20_000).with_context(|| format!("round {round}"))?;
    }
    Ok(Findings::new(format!("{rounds} times; both sides are reached again")).fact("rounds", rounds))
}

/// The other side answers within so long.
pub fn answers(bench: &mut Bench, from: usize, milliseconds: u64) -> Result<()> {
    answers_in(bench, from, 4, milliseconds).map(drop)
}

/// After how many milliseconds the other side answers over IPv4 or IPv6; the kernel's clock.
pub fn answers_in(bench: &mut Bench, from: usize, family: u8, milliseconds: u64) -> Result<u64> {
    let name = bench.sides[from].name;
    let words = format!("{} 56 {milliseconds}", bench.echo_to(from, family)?.replacen("ping", "reach", 1));
    let answer = bench.must(name, &words)?;
    ensure!(answer.number("answered") == Some(1), "{name} {words}: nobody answers within {milliseconds} ms");
    Bench::number(&answer, "ms")
}
