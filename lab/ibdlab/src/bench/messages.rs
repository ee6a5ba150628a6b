//! The longest packets that a connection carries, from one driver to another of the same kind: no TCP, and nobody looks at what is in them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use fakekernel::{Config, Machine, Nanos};
use lab_gldv3::{LinkAddress, Packets, Stream, TimedLink};
use lab_world::{Host, World};

use super::traffic::{Clock, PATIENCE, udp};
use super::{Bench, Driver};
use crate::objects::Objects;
use crate::report::SmKind;
use crate::scenario::{ModuleOverride, parse};
use crate::setup;

/// The hosts, by name.
pub const HOSTS: [&str; 2] = ["sender", "receiver"];
/// Bytes of an IP packet: the MTU of a link with `linkmode=cm`.
pub const LONGEST: usize = 65_520;
/// Packets that are sent before they are waited for: fewer than either driver has places for.
const BURST: u64 = 16;
const IPV4: u16 = 0x0800;
/// How long a link may take to come up, and a connection to stand.
const UP: Nanos = Nanos::from_secs(30);

/// A host with its started link. The link's stream is closed last, which stops the driver.
struct End {
    link: TimedLink,
    address: LinkAddress,
    _stream: Stream,
    _host: Arc<Host>,
}

/// Packets of [`LONGEST`] bytes, MB for each second of the processors, waiting included. All arrive, or it is an error.
///
/// # Errors
///
/// What is missing, or what went wrong on the way.
pub fn rate(bench: &Bench, driver: &Driver, mib: u64) -> Result<f64> {
    let mtu = bench.mtu;
    let mut text = format!(
        "name = \"messages\"\n[fabric]\nmtu = {mtu}\nsa_delay_ms = 0\n[[partition]]\npkey = 0xffff\nmtu = {mtu}\n"
    );
    for (n, host) in (1..).zip(HOSTS) {
        text += &format!(
            "[[host]]\nname = \"{host}\"\ndriver = \"ibp\"\naddresses = [\"192.168.76.{n}/24\"]\nproperties = {{ linkmode = \"cm\" }}\n"
        );
    }
    let scenario = parse(Path::new("messages"), &(text + "[[step]]\nattach = {}\n"))?;
    let objects = Objects::find(&scenario, &bench.proto, &overrides(driver))?;
    let machine = Machine::new(Config::timed(bench.seed));
    let (inner, seed) = (machine.clone(), bench.seed);
    let outcome = machine.run(move || {
        let world = setup::hosts(&inner, &scenario, &objects, seed)?;
        setup::start_sm(&world.infiniband, &scenario, SmKind::Embedded)?;
        carry(&inner, &world, (mib << 20) / LONGEST as u64)
    });
    outcome.map_err(|halt| anyhow!("{halt}"))?
}

/// Both hosts have the driver's objects.
pub fn overrides(driver: &Driver) -> Vec<ModuleOverride> {
    let objects = driver.objects.iter();
    objects
        .flat_map(|object| HOSTS.map(|host| ModuleOverride { host: host.into(), ..object.clone() }))
        .collect()
}

fn carry(machine: &Machine, world: &World, packets: u64) -> Result<f64> {
    let [sender, receiver] = HOSTS.map(|name| end(world, name));
    let (sender, receiver) = (sender?, receiver?);
    connect(machine, &sender, &receiver)?;
    let mut clock = Clock::new(machine);
    let (before, mut sent) = (receiver.link.received().0, 0);
    while sent < packets {
        let burst = burst(&sender, &receiver, BURST, LONGEST);
        clock.run(|| {
            sender.link.send(burst, PATIENCE);
            fakekernel::idle();
        });
        sent += BURST;
    }
    let arrived = receiver.link.received().0 - before;
    ensure!(arrived == sent, "{arrived} of {sent} packets on a connection arrived");
    Ok((arrived * LONGEST as u64) as f64 / 1e6 / (clock.work + clock.waited).as_secs_f64())
}

/// Sends until the longest packets arrive, and then a few, so that nothing is made for the first time any more.
fn connect(machine: &Machine, sender: &End, receiver: &End) -> Result<()> {
    let deadline = machine.now() + UP;
    let mut in_turn = 0;
    while in_turn < 8 {
        let before = receiver.link.received().0;
        sender.link.send(burst(sender, receiver, 1, 64), PATIENCE);
        sender.link.send(burst(sender, receiver, BURST, LONGEST), PATIENCE);
        fakekernel::sleep(Nanos::from_millis(100));
        in_turn = if receiver.link.received().0 - before == BURST + 1 { in_turn + 1 } else { 0 };
        ensure!(machine.now() < deadline, "no connection carries packets of {LONGEST} bytes");
    }
    Ok(())
}

fn burst(sender: &End, receiver: &End, packets: u64, len: usize) -> Packets {
    let mut burst = sender.link.packets();
    let payload = udp(len);
    (0..packets).for_each(|_| burst.push(receiver.address, IPV4, &payload));
    burst
}

fn end(world: &World, name: &str) -> Result<End> {
    let host =
        world.hosts.iter().find(|host| host.name == name).cloned().context("the scenario names its hosts")?;
    host.make_link()?;
    let stream =
        Stream::open(&host.kernel, &host.link()).map_err(|errno| anyhow!("open {}: {errno}", host.link()))?;
    stream.bind(IPV4.into()).map_err(|errno| anyhow!("bind: {errno}"))?;
    ensure!(host.wait_up(UP), "the link of {name} does not come up: {:?}", host.console());
    let address = stream.details().address;
    Ok(End { link: stream.timed(), address, _stream: stream, _host: host })
}
