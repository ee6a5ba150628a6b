//! Steps that send something.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use fakekernel::Nanos;
use lab_gldv3::{Promiscuity, Stream};
use lab_ip::apps::{App, GroupHear, GroupSay, Outcome, TcpReceive, TcpSend};

use crate::host::{AppId, IpThread};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::{EavesdropStep, MulticastStep, PingStep, TcpStep};

const TCP_PORT: u16 = 5001;
const FIRST_LOCAL_PORT: u16 = 49152;
const GROUP_INTERVAL: Duration = Duration::from_millis(10);
/// What came up has been looked at by IP after so long.
const IP_LOOKS: Nanos = Nanos::from_millis(20);
/// No step that sends may take longer, in the machine's time.
const PATIENCE: Nanos = Nanos::from_secs(300);

/// Every host resolves the first address of every host that it can reach.
pub fn resolve(world: &mut World) -> Result<Findings> {
    let mut lines = Vec::new();
    let mut findings = Findings::default();
    for (from, _, address) in world.ways() {
        let_neighbours_be_sought(world, address);
        let ping = world.ping(from, address, 1, vec![0])?;
        expect_pings(&finish(world, from.ip()?, Box::new(ping))?, 1)?;
        let link = from
            .ip()?
            .with_upper(|upper| upper.link().neighbours().get(&address))
            .ok_or_else(|| anyhow!("{}: {address} answered but is in no neighbour table", from.name))?;
        lines.push(format!("{}: {address} is at {link}", from.name));
        findings = findings.fact(format!("{} -> {address}", from.name), link.to_string());
    }
    findings.text = lines.join("\n");
    Ok(findings)
}

/// Echo requests of the wanted sizes; each must be answered, byte for byte.
pub fn ping(world: &mut World, step: &PingStep) -> Result<Findings> {
    let from = world.host(step.from.get_ref())?;
    let to = *step.to.get_ref();
    let sizes =
        if step.sizes.is_empty() { spread(step.count, largest(from, to)?) } else { step.sizes.clone() };
    let (least, most) = (sizes.iter().min().copied(), sizes.iter().max().copied());
    let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
    let before = drops(world);
    let_neighbours_be_sought(world, to);
    let outcome = finish(world, from.ip()?, Box::new(world.ping(from, to, step.count, sizes)?))?;
    expect_pings(&outcome, step.count)?;
    let dropped = drops(world) - before;
    let text =
        format!("{} -> {to}: {} of {} answered, {least} to {most} bytes", from.name, step.count, step.count);
    let findings = Findings::new(text).fact("answered", step.count).fact("dropped", dropped);
    Ok(findings.fact("least", least).fact("most", most))
}

/// A neighbour of IPv6 is sought in a group of its own, whose join may be among what went with a subnet manager.
fn let_neighbours_be_sought(world: &World, address: IpAddr) {
    if address.is_ipv6() {
        world.let_lost_questions_end();
    }
}

/// What all drivers have dropped so far.
fn drops(world: &World) -> u64 {
    world.hosts.iter().map(|host| host.drops()).sum()
}

fn expect_pings(outcome: &Outcome, count: u32) -> Result<()> {
    match outcome {
        Outcome::Ping { sent, answered } if *sent == count && *answered == count => Ok(()),
        Outcome::Ping { sent, answered } => {
            bail!("{answered} of {sent} echo requests answered, expected all {count}")
        }
        other => bail!("unexpected end: {other:?}"),
    }
}

/// Payload of the largest echo that fits the link: SDU less IP and ICMP headers.
fn largest(host: &HostRun, to: IpAddr) -> Result<usize> {
    let sdu = host.ip()?.with_upper(|upper| upper.link().info().sdu);
    let headers = if to.is_ipv4() { 28 } else { 48 };
    sdu.checked_sub(headers).ok_or_else(|| anyhow!("an SDU of {sdu} bytes has no room for an echo"))
}

/// `count` sizes from 0 to `most`, both included, evenly spread.
fn spread(count: u32, most: usize) -> Vec<usize> {
    let last = count.saturating_sub(1).max(1) as usize;
    (0..count as usize).map(|i| i * most / last).collect()
}

/// One transfer, hashed at both ends.
pub fn tcp(world: &mut World, step: &TcpStep) -> Result<Findings> {
    Transfer::begin(world, step)?.finish(world, PATIENCE)
}

/// A transfer that is under way.
pub struct Transfer<'a> {
    step: &'a TcpStep,
    send: AppId,
    receive: AppId,
}

impl<'a> Transfer<'a> {
    pub fn begin(world: &World, step: &'a TcpStep) -> Result<Self> {
        let from = world.host(step.from.get_ref())?;
        let address = *step.to.get_ref();
        let receive = owner(world, from, address)?.ip()?.start(Box::new(TcpReceive::new(TCP_PORT)));
        let send = TcpSend::new((address, TCP_PORT), FIRST_LOCAL_PORT, step.bytes.get_ref().0);
        let send = from.ip()?.start(Box::new(send));
        Ok(Self { step, send, receive })
    }

    /// Waits for both ends, each as long as this.
    pub fn finish(self, world: &World, patience: Nanos) -> Result<Findings> {
        let Self { step, send, receive } = self;
        let (from, address) = (world.host(step.from.get_ref())?, *step.to.get_ref());
        let to = owner(world, from, address)?;
        let total = step.bytes.get_ref().0;
        let sent = from.ip()?.finish(send, world.machine.now() + patience);
        let sent = sent.ok_or_else(|| anyhow!("not done after {patience}"))?;
        if let Outcome::Failed(why) = &sent {
            bail!("{}: {why}", from.name);
        }
        let received = to
            .ip()?
            .finish(receive, world.machine.now() + patience)
            .ok_or_else(|| anyhow!("{}: the connection was never closed", to.name))?;
        let (Outcome::Tcp { bytes, sha256 }, Outcome::Tcp { bytes: got, sha256: hash }) = (&sent, &received)
        else {
            bail!("{}: {sent:?}; {}: {received:?}", from.name, to.name);
        };
        ensure!(bytes == got && *got == total, "{total} bytes to send, {bytes} sent, {got} received");
        ensure!(sha256 == hash, "SHA-256 {sha256} sent, {hash} received");
        let text =
            format!("{} -> {address}: {total} bytes, SHA-256 {}... at both ends", from.name, &hash[..16]);
        Ok(Findings::new(text).fact("bytes", total).fact("sha256", hash.clone()))
    }
}

/// A group is joined and heard, then left and not heard any more.
pub fn multicast(world: &mut World, step: &MulticastStep) -> Result<Findings> {
    let (from, to) = (world.host(step.from.get_ref())?, world.host(step.to.get_ref())?);
    let group = (*step.group.get_ref(), world.group_port());
    // The listener's own driver drops what says that it leaves, because nobody has the routers' group.
    let before = from.drops();
    let heard = hear(world, from, to, group, step.count)?;
    let dropped = from.drops() - before;
    let expected: Vec<u32> = (0..step.count).collect();
    ensure!(
        heard == expected || heard.strip_prefix(&[0]) == Some(&expected),
        "{} heard {heard:?}, expected perhaps one, then every one of {} once and in order",
        to.name,
        step.count
    );
    let late = group_packets(to, || {
        say(world, from, group, 3)?;
        fakekernel::sleep(Nanos::from_millis(100));
        Ok(())
    })?;
    ensure!(late == 0, "{} still received {late} datagrams of a group it has left", to.name);
    let text = format!(
        "{} -> {}: {} of {} heard by {}, none after it left",
        from.name, group.0, step.count, step.count, to.name
    );
    Ok(Findings::new(text).fact("heard", step.count).fact("dropped", dropped))
}

/// Promiscuous mode: groups of the link that the host has not joined are heard while it is on, and only then.
pub fn eavesdrop(world: &mut World, step: &EavesdropStep) -> Result<Findings> {
    let (from, to) = (world.host(step.from.get_ref())?, world.host(step.to.get_ref())?);
    let by = world.host(step.by.get_ref())?;
    let talk = || hear(world, from, to, (*step.group.get_ref(), world.group_port()), step.count).map(drop);
    let refused = |why| anyhow!("{}: {why}", by.name);
    let stream =
        Stream::open_passive(&by.kernel, &by.link()).map_err(|errno| anyhow!("{}: {errno}", by.name))?;
    stream.set_promiscuous(Promiscuity::Physical, true).map_err(refused)?;
    let overheard = group_packets(by, talk)?;
    // Of a group that it is not told of, a driver can hear nothing.
    ensure!(
        overheard >= u64::from(step.count) || !lab_ibtf::is_subscribed(&by.kernel, by.port),
        "{} received {overheard} group packets in promiscuous mode, expected the {} of {}",
        by.name,
        step.count,
        step.group
    );
    stream.set_promiscuous(Promiscuity::Physical, false).map_err(refused)?;
    drop(stream);
    // The memberships of promiscuous mode are given back first.
    fakekernel::sleep(Nanos(world.head_start().as_nanos() as u64));
    let after = group_packets(by, talk)?;
    ensure!(after == 0, "{} still received {after} group packets after promiscuous mode", by.name);
    let text = format!(
        "{} overheard {overheard} group packets, those to {} among them, and none once promiscuous mode was off",
        by.name, step.group
    );
    Ok(Findings::new(text).fact("overheard", overheard))
}

/// Group packets that `by` receives while the others talk, but for those of ARP and neighbour discovery. illumos's C driver takes
/// broadcasts for multicasts: both are counted.
fn group_packets(by: &HostRun, talk: impl FnOnce() -> Result<()>) -> Result<u64> {
    let count = || {
        let statistics = by.statistics()?;
        Ok::<_, anyhow::Error>((statistics.multircv + statistics.brdcstrcv, by.ip()?.discovery_by_group()))
    };
    // What the link has counted and IP has not looked at yet.
    fakekernel::sleep(IP_LOOKS);
    let (received, discovery) = count()?;
    talk()?;
    fakekernel::sleep(IP_LOOKS);
    let (received_now, discovery_now) = count()?;
    Ok((received_now - received).saturating_sub(discovery_now - discovery))
}

fn hear(world: &World, from: &HostRun, to: &HostRun, group: (IpAddr, u16), count: u32) -> Result<Vec<u32>> {
    world.let_lost_questions_end();
    let deadline = now(world) + world.head_start() * 3 + GROUP_INTERVAL * count;
    let listen = to.ip()?.start(Box::new(GroupHear::new(group, count + 1, deadline)));
    // With the first one the speaker becomes a member. The switch's routes follow the SA's answer, so it may be lost.
    say(world, from, group, 1)?;
    say(world, from, group, count)?;
    match to.ip()?.finish(listen, world.machine.now() + PATIENCE) {
        Some(Outcome::Heard(heard)) => Ok(heard),
        other => bail!("{}: the listener ended with {other:?}", to.name),
    }
}

fn say(world: &World, from: &HostRun, group: (IpAddr, u16), count: u32) -> Result<()> {
    let first = now(world) + world.head_start();
    match finish(world, from.ip()?, Box::new(GroupSay::new(group, count, GROUP_INTERVAL, first)))? {
        Outcome::Said => Ok(()),
        other => bail!("{}: the speaker ended with {other:?}", from.name),
    }
}

fn finish(world: &World, ip: &IpThread, app: Box<dyn App>) -> Result<Outcome> {
    let id = ip.start(app);
    ip.finish(id, world.machine.now() + PATIENCE).ok_or_else(|| anyhow!("not done after {PATIENCE}"))
}

/// The host of the sender's partition that has the address.
pub fn owner<'a>(world: &'a World, from: &HostRun, address: IpAddr) -> Result<&'a HostRun> {
    let mut link = world.hosts.iter().filter(|host| host.partition() == from.partition());
    link.find(|host| host.addresses.iter().any(|cidr| IpAddr::from(cidr.address()) == address))
        .ok_or_else(|| anyhow!("no host has the address {address}"))
}

fn now(world: &World) -> Duration {
    Duration::from_nanos(world.machine.now().0)
}
