//! What an adapter and its subnet say by themselves: errors of queues, notices of what happened elsewhere.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::ip::{answers, full_echo, reach_with, set_linkmode, udp_pair};
use super::link::walk;
use super::trouble::paced;
use crate::machine::Fields;
use crate::machine::archive::Identity;
use crate::machine::options::Driver;
use crate::suite::bench::{Bench, Event, Sizes};
use crate::suite::report::Findings;
use crate::suite::{Linkmode, Suite};

/// The completion queues of a link fail: it is built anew, under the same number of queues, and reached again.
pub fn cq_error(bench: &mut Bench) -> Result<Findings> {
    queues_fail(bench, Event::FailCqs)
}

/// Its queue pair goes to the error state by itself: the same.
pub fn qp_error(bench: &mut Bench) -> Result<Findings> {
    queues_fail(bench, Event::FailQps)
}

fn queues_fail(bench: &mut Bench, event: Event) -> Result<Findings> {
    let rounds = if bench.suite == Suite::Full { 10 } else { 2 };
    let before = objects(bench)?;
    let mut holes = Vec::new();
    for round in 0..rounds {
        let port = 1 + round % 2;
        if round >= 2 {
            // What fails again before it has been well for ten seconds is left alone for a while.
            bench.pause(11_000)?;
        }
        let (hit, hole) = paced(bench, 0, event, &[port], None).with_context(|| format!("port {port}"))?;
        ensure!(hit >= 1, "port {port} has no link whose queues could fail");
        holes.push(hole);
        for from in 0..2 {
            answers(bench, from, 20_000).with_context(|| format!("after port {port}"))?;
            bench.all_answered(from, 4, Sizes::one(1000, 10))?;
            bench.all_answered(from, 6, Sizes::one(1000, 10))?;
        }
    }
    as_many_objects(bench, before)?;
    let said = holes.join("; ");
    Ok(Findings::new(format!("{rounds} times, echoes every 10 ms meanwhile: {said}")).fact("holes", said))
}

/// The adapter has as many objects as before, soon: what is not needed any more is freed by a thread of the driver's, and of a connection that is
/// closed when the communication manager says so.
pub fn as_many_objects(bench: &mut Bench, before: [u64; 4]) -> Result<()> {
    connect_anew(bench)?;
    let patience = if bench.linkmode == Linkmode::Cm { 150 } else { 50 };
    for _ in 0..patience {
        if objects_now(bench)? == before {
            return Ok(());
        }
        bench.pause(100)?;
    }
    let after = objects_now(bench)?;
    bail!("the adapter had {before:?} and has {after:?}")
}

/// What clients have of the adapter: with connections both ways, if there are to be any, and none that is still being closed.
pub fn objects(bench: &mut Bench) -> Result<[u64; 4]> {
    connect_anew(bench)?;
    if bench.linkmode == Linkmode::Cm { objects_at_last(bench, None) } else { objects_now(bench) }
}

/// If links are to have connections, they have none but one each way: those to a neighbour that has another address since would stay until
/// they were idle for four minutes.
fn connect_anew(bench: &mut Bench) -> Result<()> {
    if bench.linkmode == Linkmode::Ud {
        return Ok(());
    }
    set_linkmode(bench, Linkmode::Cm)?;
    for from in 0..2 {
        reach_with(bench, from, 4, full_echo(bench, 4))?;
    }
    Ok(())
}

/// What the adapter has when nothing has gone for ten seconds, or when it is as wished: a connection that is being closed has its queue pair until
/// the other side answers, or long enough does not.
pub fn objects_at_last(bench: &mut Bench, wished: Option<[u64; 4]>) -> Result<[u64; 4]> {
    let mut last = objects_now(bench)?;
    let mut since = 0;
    while since < 10 && Some(last) != wished {
        bench.pause(1000)?;
        let now = objects_now(bench)?;
        since = if now == last { since + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

/// The adapter's own driver is asked to go while links on it carry traffic: it stays, and nothing is lost, as would be if a link were told
/// that its HCA goes.
///
/// None is: the kernel detaches the nodes below an adapter, which the links hold, before the adapter itself.
pub fn adapter_in_use(bench: &mut Bench) -> Result<Findings> {
    answers(bench, 0, 20_000)?;
    let before = objects(bench)?;
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    let driver = bench.adapter.split('@').next().unwrap_or_default().to_owned();
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 50 20"))?;
    let refusal = bench.refused("0", &format!("unload {driver}"))?;
    let answer = bench.end(pinging, Duration::from_secs(60))?;
    ensure!(answer.get("answered") == answer.get("sent"), "echoes were lost meanwhile: {}", answer.text);
    ensure!(refusal.errno == EBUSY, "{driver} refused otherwise: {refusal}");
    // Nodes whose links nobody has open were detached on the way.
    walk(bench)?;
    as_many_objects(bench, before)?;
    for from in 0..2 {
        bench.all_answered(from, 4, Sizes::one(1000, 10))?;
        bench.all_answered(from, 6, Sizes::one(1000, 10))?;
    }
    Ok(Findings::new(format!("{driver} does not go ({refusal}); no echo was lost"))
        .fact("errno", refusal.errno))
}

/// A client of the adapter that has nothing to do with IP comes and goes: the agent of device management, which opens the adapter when it
/// is loaded, sets a bit of each port and is registered for a class of management there. It takes no queue of its own.
pub fn another_client(bench: &mut Bench) -> Result<Findings> {
    const ROUNDS: u32 = 3;
    let before = objects(bench)?;
    let agents = |bench: &mut Bench| -> Result<usize> {
        let shown = bench.must("0", "kstats ibmf")?;
        Ok(shown.text.split_whitespace().filter(|name| name.contains(AGENT)).count())
    };
    ensure!(agents(bench)? == 0, "there is an agent of device management already");
    for _ in 0..ROUNDS {
        bench.must("0", "load misc/ibdma")?;
        let registered = agents(bench)?;
        ensure!(registered == PORTS, "{registered} of {PORTS} ports have an agent of device management");
        answers(bench, 0, 20_000)?;
        bench.must("0", "unload ibdma")?;
        ensure!(agents(bench)? == 0, "an agent of device management is left");
    }
    as_many_objects(bench, before)?;
    for from in 0..2 {
        bench.all_answered(from, 4, Sizes::one(1000, 10))?;
    }
    Ok(Findings::new(format!(
        "{ROUNDS} times: device management is registered with {PORTS} ports, and not any more"
    )))
}

/// Of its class in the names of `ibmf`'s statistics (`DEV_MGT_AGENT`).
const AGENT: &str = "_10006_";
const PORTS: usize = 2;

const EBUSY: u32 = 16;

/// What clients have of the adapter: queue pairs, CQs, memory regions, protection domains. Address handles come and go with traffic.
fn objects_now(bench: &mut Bench) -> Result<[u64; 4]> {
    let shown = bench.must("0", "kstat swhca 0 statistics")?;
    let mut values = [0; 4];
    for (value, name) in values.iter_mut().zip(["qps", "cqs", "regions", "pds"]) {
        *value = Bench::number(&shown, name)?;
    }
    Ok(values)
}

/// Traps of the subnet manager's, by their numbers.
const PORT_CAME: u64 = 64;
const PORT_WENT: u64 = 65;
const GROUP_MADE: u64 = 66;
const GROUP_GONE: u64 = 67;

/// 239.9.9.9 in the default partition (RFC 4391, 4).
const GROUP: (&str, [u64; 2]) = ("239.9.9.9", [0xff12_401b_ffff_0000, 0x0f09_0909]);
const BROADCAST: [u64; 2] = [0xff12_401b_ffff_0000, 0xffff_ffff];
const PREFIX: u64 = 0xfe80 << 48;

/// Notices of the subnet manager: who sends to a group joins it as soon as it is made and goes on when it is deleted; false ones, ones
/// about other hosts, and many at once lose nothing.
pub fn notices(bench: &mut Bench) -> Result<Findings> {
    let joined = group_comes_and_goes(bench)?;
    let paths = peer_changes(bench)?;
    let [prefix, guid] = BROADCAST;
    for trap in [GROUP_GONE, GROUP_MADE, GROUP_GONE] {
        bench.event(Event::Notice, &[trap, prefix, guid])?;
    }
    answers(bench, 0, 20_000).context("after notices about the broadcast group")?;
    answers(bench, 1, 20_000).context("after notices about the broadcast group")?;
    let told = storm(bench)?;
    Ok(Findings::new(format!("a group that was made is joined ({joined} joins) and left when it is gone"))
        .and(format!("a port that went and came: {paths} paths asked for, no echo lost"))
        .and(format!("{told} notices about others under echoes: none lost")))
}

/// The sender was there first: it is told when somebody makes the group.
fn group_comes_and_goes(bench: &mut Bench) -> Result<u64> {
    let (group, [prefix, guid]) = GROUP;
    let pair = udp_pair(bench, 1, "4", 7700)?;
    let joins = |bench: &mut Bench| asked(bench, 1, "sa_joins");
    pair.send(bench, group)?;
    bench.pause(500)?;
    let before = joins(bench)?;
    pair.member(bench, group, true)?;
    bench.pause(1000)?;
    for _ in 0..10 {
        pair.send(bench, group)?;
    }
    ensure!(pair.heard(bench, 10)? == 10, "not every datagram was heard after the group was made");
    let after = joins(bench)?;
    ensure!(
        after > before || is_c(bench),
        "the group was made and its sender did not join: {before} joins before and after"
    );
    // A false one: the group is there, and whoever is in it hears on.
    bench.event(Event::Notice, &[GROUP_GONE, prefix, guid])?;
    bench.pause(500)?;
    for _ in 0..10 {
        pair.send(bench, group)?;
    }
    ensure!(pair.heard(bench, 10)? == 10, "not every datagram was heard after a false notice");
    pair.member(bench, group, false)?;
    bench.pause(500)?;
    pair.send(bench, group)?;
    ensure!(pair.heard(bench, 1)? == 0, "{group} is heard after leaving");
    pair.close(bench)?;
    Ok(after - before)
}

/// The peer's port goes and comes, so the notices say: its path is asked for again.
fn peer_changes(bench: &mut Bench) -> Result<u64> {
    let peer = bench.sides[1].v6.clone().context("without IPv6")?.0;
    let paths = |bench: &mut Bench| asked(bench, 0, "sa_paths");
    let before = paths(bench)?;
    let guid = guid_of(bench, 1)?;
    for trap in [PORT_WENT, PORT_CAME] {
        bench.event(Event::Notice, &[trap, PREFIX, guid])?;
        bench.pause(500)?;
        bench
            .all_answered(0, 4, Sizes::one(1000, 10))
            .with_context(|| format!("trap {trap} about {peer}"))?;
    }
    let after = paths(bench)?;
    ensure!(
        after > before || is_c(bench),
        "the peer's port went and came, and its path was not asked for again"
    );
    Ok(after - before)
}

/// Port and group notices about hosts that nobody knows, as many as the SM can keep, under echoes.
fn storm(bench: &mut Bench) -> Result<u64> {
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 300 10"))?;
    let mut told = 0;
    for number in 0..100 {
        let (trap, gid) = match number % 4 {
            0 => (PORT_CAME, [PREFIX, 0x9900 + number]),
            1 => (PORT_WENT, [PREFIX, 0x9900 + number]),
            2 => (GROUP_MADE, [0xff12_401b_ffff_0000, 0x0f0a_0000 + number]),
            // Not of IPoIB, and once no group at all.
            _ => (GROUP_GONE, [if number == 3 { PREFIX } else { 0xff15_1234_0000_0000 }, number]),
        };
        bench.event(Event::Notice, &[trap, gid[0], gid[1]])?;
        told += 1;
    }
    let answer = bench.end(pinging, Duration::from_secs(60))?;
    ensure!(
        answer.get("answered") == answer.get("sent"),
        "notices about others cost echoes: {}",
        answer.text
    );
    Ok(told)
}

/// How often a side's link has asked the SA for something; the C driver does not count it.
pub fn asked(bench: &mut Bench, side: usize, what: &str) -> Result<u64> {
    if is_c(bench) { Ok(0) } else { Bench::number(&datagram(bench, side)?, what) }
}

/// The control.
pub fn is_c(bench: &Bench) -> bool {
    bench.driver == Driver::C
}

/// The driver's own statistics of a side's link.
pub fn datagram(bench: &mut Bench, side: usize) -> Result<Fields> {
    own_kstat(bench, side, "datagram")
}

/// One of the driver's own statistics of a side's link.
pub fn own_kstat(bench: &mut Bench, side: usize, name: &str) -> Result<Fields> {
    let (driver, number) = (bench.identity.name(), number_of(bench, side));
    bench.must("0", &format!("kstat {driver} {number} {name}"))
}

/// The number under which the driver publishes a side's link.
pub fn number_of(bench: &Bench, side: usize) -> u32 {
    let link = bench.sides[side].link;
    match bench.identity {
        Identity::Ibp | Identity::Both => link,
        // The nexus numbers its nodes from 0, and dls its links from 1.
        Identity::Ibd => link - 1,
    }
}

/// The GUID of a side's port, which the last octets of its link's address are.
fn guid_of(bench: &mut Bench, side: usize) -> Result<u64> {
    let name = bench.sides[side].name;
    let fd = Bench::number(&bench.must(name, "open /link")?, "fd")?;
    let told = bench.must(name, &format!("dl-address {fd}"));
    bench.must(name, &format!("close {fd}"))?;
    let told = told?;
    let digits = told.get("address").and_then(|address| address.get(24..40)).context("no address")?;
    Ok(u64::from_str_radix(digits, 16)?)
}
