//! An SA that is late or silent, many neighbours at once, packets that nobody reads: who has to wait, and who must not.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::adapter::{asked, is_c, own_kstat};
use super::ip::{answers, answers_in, udp_pair};
use super::link::{address, is_address, open};
use super::trouble::{bind_on_spare_link, with_spare_link};
use crate::machine::Fields;
use crate::suite::bench::{Bench, CASE, Event};
use crate::suite::report::Findings;

/// How late the SA answers, in milliseconds.
const LATE: u64 = 1000;

/// The SA is late when a link is opened: the address that DL_BIND_ACK tells is the link's all the same, and no other follows.
pub fn late_sa(bench: &mut Bench) -> Result<Findings> {
    bench.event(Event::DelaySa, &[1, LATE])?;
    let bound = with_spare_link(bench, 1, bound_while_late);
    // Whatever happened.
    bench.event(Event::DelaySa, &[1, 0])?;
    let (us, told, later, notes) = bound?;
    ensure!(
        is_address(&told) && told == later && !notes.contains("phys-addr"),
        "bound with {told}, {later} when the SA had answered; told meanwhile:{notes}"
    );
    Ok(Findings::new(format!("each answer {LATE} ms late: bound after {us} us with the address that stays"))
        .fact("us", us))
}

fn bound_while_late(bench: &mut Bench, device: &str) -> Result<(u64, String, String, String)> {
    let opened = bench.must(CASE, &format!("open /dev/net/{device}"))?;
    let fd = Bench::number(&opened, "fd")?;
    let bound = bench.must(CASE, &format!("dl-bind {fd} 0x800"))?;
    let us = Bench::number(&opened, "us")? + Bench::number(&bound, "us")?;
    let told = address(&bound)?;
    bench.must(CASE, &format!("dl-notify {fd} 1"))?;
    // What it was asked for is told first, and that is the address as it is now.
    bench.must(CASE, &format!("dl-notes {fd} 100"))?;
    // Three answers bring a link up.
    let notes = bench.must(CASE, &format!("dl-notes {fd} {}", 4 * LATE))?.text;
    let later = address(&bench.must(CASE, &format!("dl-address {fd}"))?)?;
    // Or closing takes as long as leaving the groups does.
    bench.event(Event::DelaySa, &[1, 0])?;
    bench.must(CASE, &format!("close {fd}"))?;
    Ok((us, told, later, notes))
}

/// More neighbours than are asked for at a time.
const MANY: u32 = 48;

/// Where many neighbours are.
enum Where {
    /// On the other port: the SA is asked for the first one, and the others follow.
    OnePort,
    /// Each on a port of its own, which is not there.
    PortsOfTheirOwn,
}

/// A stream on the first link that has sent a packet to each of many neighbours: queue pairs that there are not.
fn many_neighbours(bench: &mut Bench, first: u32, at: &Where) -> Result<u64> {
    let device = bench.sides[1].device.clone();
    let fd = open(bench, &device)?;
    let peer = address(&bench.must(CASE, &format!("dl-bind {fd} 0x88b5"))?)?;
    bench.must(CASE, &format!("close {fd}"))?;
    let gid = peer.get(8..).context("the address is too short")?;
    let prefix = gid.get(..16).context("the address is too short")?;
    let device = bench.sides[0].device.clone();
    let fd = open(bench, &device)?;
    bench.must(CASE, &format!("dl-bind {fd} 0x88b5"))?;
    for number in first..first + MANY {
        let gid = match at {
            Where::OnePort => gid.to_owned(),
            Where::PortsOfTheirOwn => format!("{prefix}{number:016x}"),
        };
        bench.must(CASE, &format!("dl-send {fd} {number:08x}{gid} 0x88b5 64 1"))?;
    }
    Ok(fd)
}

/// The SA of one port is silent and a link there asks for many neighbours: a link on the other port is bound, soon, all the same.
pub fn many_unanswered(bench: &mut Bench) -> Result<Findings> {
    bench.event(Event::SilenceSa, &[1, 1])?;
    let asking = many_neighbours(bench, 0x70_0000, &Where::PortsOfTheirOwn);
    let other = asking.and_then(|fd| {
        bench.pause(1000)?;
        let us = bind_on_spare_link(bench, 2)?;
        bench.must(CASE, &format!("close {fd}")).map(|_| us)
    });
    // Whatever happened, the SA answers again.
    bench.event(Event::SilenceSa, &[1, 0])?;
    let us = other?;
    answers(bench, 0, 60_000)?;
    answers(bench, 1, 20_000)?;
    ensure!(us < 5_000_000, "a bind on port 2 took {} ms", us / 1000);
    Ok(Findings::new(format!("{MANY} neighbours; a link on the other port was opened and bound in {us} us"))
        .fact("us", us))
}

/// Another subnet manager comes while many neighbours are known: they are asked for again one by one, not all at once, and no echo is lost.
pub fn many_known(bench: &mut Bench) -> Result<Findings> {
    answers(bench, 0, 20_000)?;
    let fd = many_neighbours(bench, 0x71_0000, &Where::OnePort)?;
    bench.pause(2000)?;
    let known = if is_c(bench) { 0 } else { Bench::number(&own_kstat(bench, 0, "paths")?, "entries")? };
    let before = asked(bench, 0, "sa_paths")?;
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 200 10"))?;
    bench.event(Event::MoveManager, &[1, 80])?;
    let echoes = bench.end(pinging, Duration::from_secs(60))?;
    let again = asked(bench, 0, "sa_paths")? - before;
    bench.must(CASE, &format!("close {fd}"))?;
    ensure!(known >= MANY.into() || is_c(bench), "{known} of {MANY} neighbours are known");
    // Ten a second.
    ensure!(
        again <= u64::from(MANY) * 2 / 3,
        "{again} of {MANY} neighbours were asked for again within two seconds"
    );
    ensure!(echoes.get("answered") == echoes.get("sent"), "echoes were lost meanwhile: {}", echoes.text);
    answers(bench, 1, 20_000)?;
    Ok(Findings::new(format!(
        "of {MANY} neighbours {again} were asked for again within two seconds, and no echo was lost"
    ))
    .fact("again", again))
}

/// A queue pair fails while the SA is silent: groups are heard on and IPv6 flows on, for which nobody has to be asked.
pub fn qp_error_unanswered(bench: &mut Bench) -> Result<Findings> {
    let group = "239.1.2.9";
    for family in [4, 6] {
        answers_in(bench, 1, family, 20_000)?;
    }
    let pair = udp_pair(bench, 1, "4", 7900)?;
    pair.member(bench, group, true)?;
    bench.pause(1000)?;
    pair.send(bench, group)?;
    ensure!(pair.heard(bench, 1)? == 1, "{group} is not heard before anything fails");
    bench.event(Event::SilenceSa, &[1, 1])?;
    let after = failed_unanswered(bench, |bench| {
        for _ in 0..10 {
            pair.send(bench, group)?;
        }
        pair.heard(bench, 10)
    });
    bench.event(Event::SilenceSa, &[1, 0])?;
    pair.close(bench)?;
    let (four, six, heard) = after?;
    // A minute is IBTF's patience with an SA.
    answers(bench, 0, 60_000)?;
    answers_in(bench, 1, 6, 60_000)?;
    let said =
        format!("answered after {four} ms over IPv4 and {six} ms over IPv6, {heard} of 10 to a group heard");
    ensure!(heard == 10, "{said}");
    Ok(Findings::new(said).fact("ms", vec![four, six]))
}

fn failed_unanswered(
    bench: &mut Bench,
    group: impl Fn(&mut Bench) -> Result<u64>,
) -> Result<(u64, u64, u64)> {
    ensure!(bench.event(Event::FailQps, &[1])? >= 1, "port 1 has no link whose queues could fail");
    let four = answers_in(bench, 1, 4, 20_000)?;
    let heard = group(bench)?;
    let six = answers_in(bench, 1, 6, 20_000)
        .context(format!("IPv4 after {four} ms, {heard} of 10 to a group heard"))?;
    Ok((four, six, heard))
}

/// Groups of a link that is deleted while the SA is silent.
const GROUPS: u32 = 500;

/// How long a deletion may take in that silence: a question that is out takes `ibcm` and `ibmf` a minute.
const DELETED_WITHIN: u64 = 70_000_000;

/// A link in many groups is deleted while the SA is silent: soon all the same, and when the SA answers again the link is in no group.
pub fn deleted_unanswered(bench: &mut Bench) -> Result<Findings> {
    let before = bench.event(Event::CountGroups, &[2])?;
    let part = "126 2 1 0x8009";
    bench.event(Event::SetPkey, &[2, 6, 0x8009])?;
    bench.must("0", &format!("part-create {part}"))?;
    if is_c(bench) {
        bench.must("0", "prop-set 126 linkmode 0")?;
    }
    let fd = open(bench, "part126")?;
    bench.must(CASE, &format!("dl-bind {fd} 0x88b5"))?;
    for number in 0..GROUPS {
        bench.must(CASE, &format!("dl-group {fd} {} on", group(number)))?;
    }
    let joined = groups_until(bench, |groups| groups >= before + u64::from(GROUPS))?;
    bench.event(Event::SilenceSa, &[2, 1])?;
    let patience = Duration::from_secs(300);
    let closed = bench.must_within(CASE, &format!("close {fd}"), patience);
    let deleted = closed.and_then(|closed| {
        let deleted = bench.must_within("0", &format!("part-delete {part}"), patience)?;
        Ok(Bench::number(&closed, "us")? + Bench::number(&deleted, "us")?)
    });
    // Whatever happened.
    bench.event(Event::SilenceSa, &[2, 0])?;
    let us = deleted?;
    ensure!(us <= DELETED_WITHIN, "closed and deleted in {} s", us / 1_000_000);
    groups_until(bench, |groups| groups <= before)?;
    bench.event(Event::SetPkey, &[2, 6, 0])?;
    answers(bench, 0, 60_000)?;
    Ok(Findings::new(format!(
        "in {joined} groups: closed and deleted within {} ms in silence, and in {before} when the SA answered",
        us / 1000
    ))
    .fact("us", us))
}

/// The link-layer address of a group of the partition.
fn group(number: u32) -> String {
    let [a, b, c, d] = number.to_be_bytes();
    format!("00ffffffff12401b80090000000000000{a:x}{b:02x}{c:02x}{d:02x}")
}

/// Waits, as long as the driver may ask about one of them, until the SA has the second port in so many groups.
fn groups_until(bench: &mut Bench, enough: impl Fn(u64) -> bool) -> Result<u64> {
    for _ in 0..120 {
        let groups = bench.event(Event::CountGroups, &[2])?;
        if enough(groups) {
            return Ok(groups);
        }
        bench.pause(1000)?;
    }
    bail!("after two minutes the SA has the port in {} groups", bench.event(Event::CountGroups, &[2])?)
}

/// A partition of the first side's, on the other port, with an address in the global zone.
const READERS: u32 = 125;
const READER: &str = "10.0.0.9";

/// An application has not read what came, which is in buffers of the link's, when the link is to be deleted, and dlmgmtd knows none of its
/// name: deleting is refused and leaves the link as it was, and with both mended it is done.
pub fn unread(bench: &mut Bench) -> Result<Findings> {
    let part = format!("{READERS} 2 1 0xffff");
    bench.must("0", &format!("part-create {part}"))?;
    if is_c(bench) {
        bench.must("0", &format!("prop-set {READERS} linkmode 0"))?;
    }
    let fd = Bench::number(&bench.must(CASE, "udp-open 4 7950")?, "fd")?;
    ten_unread(bench)?;
    bench.must("0", "dls-names off")?;
    let refusal = bench.refused("0", &format!("part-delete {part}"));
    bench.must("0", "dls-names on")?;
    let refusal = refusal?;
    let came = bench.must(CASE, &format!("udp-receive {fd} 500 700 9 10"))?;
    ensure!(came.number("right") == Some(10), "{refusal}; of 10 datagrams could be read: {}", came.text);
    let deleted = bench.must("0", &format!("part-delete {part}"));
    deleted.with_context(|| format!("{refusal}; and for good"))?;
    bench.must("0", &format!("part-create {part}"))?;
    bench.must("0", &format!("part-delete {part}"))?;
    Ok(Findings::new(format!("deleting is refused: {refusal}; all 10 are read, and the link goes and comes"))
        .fact("errno", refusal.errno))
}

fn ten_unread(bench: &mut Bench) -> Result<()> {
    bench.must(CASE, &format!("plumb ib9 /dev/net/part{READERS}"))?;
    bench.must(CASE, &format!("address ib9 {READER} 24"))?;
    let running = |fields: &Fields| fields.number("running") == Some(1) && fields.number("up") == Some(1);
    bench.until(CASE, "interface ib9", 10_000, running)?;
    let from = bench.sides[0].name;
    let reached = bench.must(from, &format!("reach4 {READER} 56 20000"))?;
    ensure!(reached.number("answered") == Some(1), "nobody answers at {READER}");
    let sender = Bench::number(&bench.must(from, "udp-open 4 0")?, "fd")?;
    for _ in 0..10 {
        bench.must(from, &format!("udp-send {sender} {READER} 7950 {} 700 9", bench.sides[0].address))?;
    }
    bench.must(from, &format!("close {sender}"))?;
    bench.pause(500)?;
    bench.must(CASE, "unplumb ib9").map(drop)
}
