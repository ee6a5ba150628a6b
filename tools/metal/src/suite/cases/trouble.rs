//! What happens to ports, subnet managers and partitions while traffic flows.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::adapter::{as_many_objects, objects};
use super::ip::answers;
use super::link::partition;
use crate::machine::archive::Identity;
use crate::machine::options::Driver;
use crate::suite::Suite;
use crate::suite::bench::{Bench, CASE, Event, Sizes};
use crate::suite::report::Findings;

/// A port goes down and comes up: the interface says so both times, and traffic flows again by itself.
pub fn port_bounce(bench: &mut Bench) -> Result<Findings> {
    let rounds = if bench.suite == Suite::Full { 10 } else { 2 };
    let name = bench.sides[0].name;
    for _ in 0..rounds {
        bench.event(Event::PortDown, &[1])?;
        bench.until(name, "interface ib0", 10_000, |fields| fields.number("running") == Some(0))?;
        bench.event(Event::PortUp, &[1])?;
        bench.until(name, "interface ib0", 20_000, |fields| fields.number("running") == Some(1))?;
        answers(bench, 0, 20_000)?;
        answers(bench, 1, 20_000)?;
        bench.all_answered(0, 4, Sizes::one(56, 20))?;
    }
    let fd = Bench::number(&bench.must(name, "open /link")?, "fd")?;
    bench.must(name, &format!("dl-notify {fd}"))?;
    // How things are is told first.
    bench.must(name, &format!("dl-notes {fd} 200"))?;
    let (_, flap) = paced(bench, 0, Event::PortDown, &[1], Some((Event::PortUp, &[1])))?;
    let told = bench.must(name, &format!("dl-notes {fd} 200"))?.text;
    bench.must(name, &format!("close {fd}"))?;
    let told: Vec<&str> = told.split_whitespace().collect();
    let flap = format!("{flap}; told {}", told.join(" "));
    // IP takes all addresses of the interface down when it is told one, the same as before or not.
    ensure!(!flap.contains("phys-addr"), "an address that has not changed was told: {flap}");
    Ok(Findings::new(format!("{rounds} times; a flap under echoes every 10 ms: {flap}")).fact("flap", flap))
}

/// Echoes every 10 ms, something happens meanwhile: to how many objects, how many echoes were lost, and the longest time without an
/// answer.
pub fn paced(
    bench: &mut Bench,
    from: usize,
    event: Event,
    with: &[u64],
    then: Option<(Event, &[u64])>,
) -> Result<(u64, String)> {
    let (name, to) = (bench.sides[from].name, bench.sides[1 - from].address);
    let count = if bench.suite == Suite::Full { 300 } else { 150 };
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 {count} 10"))?;
    bench.pause(300)?;
    let hit = bench.event(event, with)?;
    if let Some((event, with)) = then {
        bench.event(event, with)?;
    }
    let answer = bench.end(pinging, Duration::from_secs(60))?;
    let (sent, answered) = (Bench::number(&answer, "sent")?, Bench::number(&answer, "answered")?);
    ensure!(answered > 0, "none of {sent} echoes was answered");
    let hole = answer.get("hole_ms").unwrap_or_default();
    Ok((hit, format!("{answered} of {sent}, longest hole {hole} ms")))
}

/// Another subnet manager takes over: memberships are made again and no echo is lost for long.
pub fn sm_restart(bench: &mut Bench) -> Result<Findings> {
    let mut findings = Findings::new("memberships are made again");
    for (port, lid) in [(1_u64, 78_u64), (2, 79)] {
        let (_, said) = paced(bench, 0, Event::MoveManager, &[port, lid], None)?;
        answers(bench, 0, 20_000)?;
        answers(bench, 1, 20_000)?;
        findings = findings.and(format!("port {port}: {said}")).fact(format!("port{port}"), said);
    }
    bench.all_answered(0, 6, Sizes::one(1000, 10))?;
    Ok(findings)
}

/// A port gets another LID: its link goes and comes, and both ends find each other.
pub fn lid_changes(bench: &mut Bench) -> Result<Findings> {
    let mut findings = Findings::new("both ends find each other");
    for (port, lid) in [(1_u64, 0x51_u64), (2, 0x52), (1, 1), (2, 2)] {
        let (_, said) = paced(bench, 0, Event::SetLid, &[port, lid], None)?;
        for from in 0..2 {
            answers(bench, from, 20_000).with_context(|| format!("port {port} with LID {lid}"))?;
            bench.all_answered(from, 4, Sizes::one(500, 10))?;
            bench.all_answered(from, 6, Sizes::one(500, 10))?;
        }
        findings = findings.and(format!("port {port}, LID {lid}: {said}"));
    }
    Ok(findings)
}

/// The partition's P_Key moves to another place in the port's table, goes and comes back.
pub fn pkey_moves(bench: &mut Bench) -> Result<Findings> {
    let moved = pkey_at_another_place(bench);
    // Whatever happened, the cases after this one find the table as it was.
    bench.event(Event::SetPkey, &[1, 2, 0])?;
    let gone = moved.and_then(|()| {
        bench
            .until(bench.sides[0].name, "interface ib0", 10_000, |fields| fields.number("running") == Some(0))
    });
    bench.event(Event::SetPkey, &[1, 0, 0xffff])?;
    gone?;
    let name = bench.sides[0].name;
    bench.until(name, "interface ib0", 20_000, |fields| fields.number("running") == Some(1))?;
    answers(bench, 0, 20_000)?;
    bench.all_answered(1, 4, Sizes::one(500, 20))?;
    Ok(Findings::new("moved, gone and come back; traffic flows each time"))
}

fn pkey_at_another_place(bench: &mut Bench) -> Result<()> {
    // With another P_Key in the first place ibmf does not reach the SA: what is known of the neighbours has to be known before.
    answers(bench, 0, 20_000)?;
    answers(bench, 1, 20_000)?;
    bench.event(Event::SetPkey, &[1, 2, 0xffff])?;
    bench.event(Event::SetPkey, &[1, 0, 0x8003])?;
    // A machine with much to do hears of it late, and an echo on its way then is lost.
    bench.pause(1000)?;
    answers(bench, 0, 20_000)?;
    answers(bench, 1, 20_000)?;
    bench.all_answered(0, 4, Sizes::one(500, 20)).map(drop)
}

/// The SA of one port is silent: a new link on the other port is bound all the same, soon, and when it answers again both work.
pub fn silent_sa(bench: &mut Bench) -> Result<Findings> {
    bench.event(Event::SilenceSa, &[1, 1])?;
    bench.event(Event::PortDown, &[1])?;
    bench.event(Event::PortUp, &[1])?;
    // Whatever happens to the other port, the SA must answer again.
    let other = bind_on_spare_link(bench, 2);
    bench.event(Event::SilenceSa, &[1, 0])?;
    let us = other?;
    answers(bench, 0, 60_000)?;
    answers(bench, 1, 20_000)?;
    ensure!(us < 5_000_000, "with a silent SA on port 1, a bind on port 2 took {} ms", us / 1000);
    Ok(Findings::new(format!("a link on the other port was opened and bound in {us} us")).fact("us", us))
}

/// A link on that port that nobody else uses; how long it takes to open and bind it, in microseconds.
pub fn bind_on_spare_link(bench: &mut Bench, port: u64) -> Result<u64> {
    with_spare_link(bench, port, bind_once)
}

/// Makes a link on that port, does something with it by its name below /dev/net, and takes it away.
pub fn with_spare_link<T>(
    bench: &mut Bench,
    port: u64,
    act: impl FnOnce(&mut Bench, &str) -> Result<T>,
) -> Result<T> {
    if bench.identity == Identity::Ibd {
        // The nexus made a second link on each port.
        return act(bench, if port == 1 { "ibd1" } else { "ibd3" });
    }
    bench.event(Event::SetPkey, &[port, 5, 0x8007])?;
    bench.must("0", &format!("part-create 120 {port} {} 0x8007", port - 1))?;
    if bench.driver == Driver::C {
        bench.must("0", "prop-set 120 linkmode 0")?;
    }
    let done = act(bench, "part120")?;
    bench.must("0", &format!("part-delete 120 {port} {} 0x8007", port - 1))?;
    bench.event(Event::SetPkey, &[port, 5, 0])?;
    Ok(done)
}

fn bind_once(bench: &mut Bench, device: &str) -> Result<u64> {
    let opened = bench.must(CASE, &format!("open /dev/net/{device}"))?;
    let fd = Bench::number(&opened, "fd")?;
    let bound = bench.must(CASE, &format!("dl-bind {fd} 0x800"))?;
    bench.must(CASE, &format!("close {fd}"))?;
    Ok(Bench::number(&opened, "us")? + Bench::number(&bound, "us")?)
}

/// A second partition of a port comes and goes while the first one carries traffic, and loses nothing.
pub fn second_partition(bench: &mut Bench) -> Result<Findings> {
    let rounds = if bench.suite == Suite::Full { 20 } else { 3 };
    let (name, to) = (bench.sides[0].name, bench.sides[1].address);
    bench.event(Event::SetPkey, &[1, 5, 0x8005])?;
    // Of what waits for a neighbour to be found, IP keeps the last four packets.
    answers(bench, 0, 20_000)?;
    let pinging = bench.begin(name, &format!("ping-paced {to} 56 {} 20", rounds * 50))?;
    for _ in 0..rounds {
        bench.must("0", "part-create 121 1 0 0x8005")?;
        bench.must("0", "part-delete 121 1 0 0x8005")?;
    }
    let answer = bench.end(pinging, Duration::from_secs(120))?;
    bench.event(Event::SetPkey, &[1, 5, 0])?;
    let (sent, answered) = (Bench::number(&answer, "sent")?, Bench::number(&answer, "answered")?);
    ensure!(sent == answered, "the first partition lost packets: {}", answer.text);
    Ok(Findings::new(format!("{rounds} times; {answered} of {sent} echoes of the first one answered"))
        .fact("rounds", rounds))
}

/// A link that is in use cannot be deleted, and works on.
pub fn in_use(bench: &mut Bench) -> Result<Findings> {
    let delete = partition(bench, 0, "delete", 0xffff);
    let refusal = bench.refused("0", &delete)?;
    bench.all_answered(0, 4, Sizes::one(56, 10))?;
    Ok(Findings::new(format!("deleting is refused: {refusal}")).fact("errno", refusal.errno))
}

/// A partition that was there cannot be made again while something that it needs is not: it is refused for that reason, nothing is left
/// of the attempt, and as soon as all is there again it is made and bound.
pub fn made_again(bench: &mut Bench) -> Result<Findings> {
    let before = objects(bench)?;
    bench.event(Event::SetPkey, &[1, 6, 0x8009])?;
    make_bind_delete(bench)?;
    let mut said = Vec::new();
    bench.event(Event::SetPkey, &[1, 6, 0])?;
    said.push(not_made(bench, "its P_Key has gone", MADE, (EINVAL, PKEY_NOT_PRESENT))?);
    bench.event(Event::SetPkey, &[1, 6, 0x8009])?;
    bench.event(Event::PortDown, &[1])?;
    said.push(not_made(bench, "its port is down", MADE, (ENETDOWN, PORT_DOWN))?);
    bench.event(Event::PortUp, &[1])?;
    // These two dls refuses, after the link has been made; so that is unmade.
    said.push(not_made(bench, "its id is another link's", 1, (EEXIST, 0))?);
    said.push(not_made(bench, "dlmgmtd does not know its id", 50, (ENOENT, 0))?);
    make_bind_delete(bench)?;
    bench.event(Event::SetPkey, &[1, 6, 0])?;
    as_many_objects(bench, before)?;
    answers(bench, 0, 20_000)?;
    answers(bench, 1, 20_000)?;
    let said = said.join("\n");
    Ok(Findings::new("refused for four reasons, made again each time they were gone")
        .and(&said)
        .fact("refused", said))
}

/// The partition's id, and what dladm has words for (`ibd_part_err_t`).
const MADE: u32 = 130;
const PORT_DOWN: u32 = 2;
const PKEY_NOT_PRESENT: u32 = 3;
const ENOENT: u32 = 2;
const EEXIST: u32 = 17;
const EINVAL: u32 = 22;
const ENOTSUP: u32 = 48;
const ENETDOWN: u32 = 127;

fn make_bind_delete(bench: &mut Bench) -> Result<()> {
    bench.must("0", &format!("part-create {MADE} 1 0 0x8009"))?;
    if bench.driver == Driver::C {
        bench.must("0", &format!("prop-set {MADE} linkmode 0"))?;
    }
    bind_once(bench, &format!("part{MADE}"))?;
    bench.must("0", &format!("part-delete {MADE} 1 0 0x8009")).map(drop)
}

fn not_made(bench: &mut Bench, why: &str, id: u32, (errno, status): (u32, u32)) -> Result<String> {
    let refusal =
        bench.refused("0", &format!("part-create {id} 1 0 0x8009")).with_context(|| why.to_owned())?;
    let right = refusal.errno == errno && refusal.what.ends_with(&format!("status={status}"));
    ensure!(right, "{why}: refused for another reason: {refusal}");
    // Had it left something, there would be a partition that can be deleted.
    let nothing =
        bench.refused("0", &format!("part-delete {id} 1 0 0x8009")).with_context(|| why.to_owned())?;
    ensure!(nothing.errno == ENOENT, "{why}: something is left: {nothing}");
    let words = match status {
        PORT_DOWN => ", for dladm 'port is down'",
        PKEY_NOT_PRESENT => ", for dladm 'PKEY is not present on the port'",
        _ => "",
    };
    Ok(format!("{why}: {refusal}{words}"))
}

/// A machine with the driver attached does not suspend to memory: this one cannot, and when the kernel has all devices suspended and
/// resumed as a test, the link refuses the one, takes the other, and loses nothing.
pub fn suspend(bench: &mut Bench) -> Result<Findings> {
    let refusal = bench.refused("0", "suspend")?;
    let before = bench.session.console().text()?.len();
    if let Err(no) = bench.ask("0", "suspend-devices")? {
        ensure!(no.errno == ENOTSUP, "devices as a test: {no}");
        let text = format!("to memory: {refusal}; devices as a test: only a DEBUG kernel can");
        return Ok(Findings::new(text).fact("errno", refusal.errno));
    }
    let console = bench.session.console().text()?;
    let said = console.get(before..).unwrap_or_default();
    let refused = said.lines().filter(|line| line.contains("Unable to suspend device ibport@")).count();
    ensure!(!said.contains("Unable to resume"), "a device could not be resumed:\n{said}");
    if bench.driver == Driver::Rust {
        ensure!(refused >= 2, "{refused} nodes were asked and refused:\n{said}");
    }
    for from in 0..2 {
        bench.all_answered(from, 4, Sizes::one(56, 10))?;
        bench.all_answered(from, 6, Sizes::one(56, 10))?;
    }
    Ok(Findings::new(format!(
        "to memory: {refusal}; {refused} nodes refused when asked, and were resumed; traffic flows on"
    ))
    .fact("errno", refusal.errno)
    .fact("refused", refused))
}
