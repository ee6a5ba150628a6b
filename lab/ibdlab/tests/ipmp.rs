//! What the driver owes to IP network multipathing: a link that fails says so in time, sends nothing until it is back, and joins
//! its groups again. In virtual time, by the commands of an administrator.

mod rig;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use fabric::{Guid, PKey};
use fakekernel::Nanos;
use ibdlab::desk::rehearsal::{Rehearsal, rehearse};
use ibdlab::scenario::load;
use lab_ip::apps::{GroupHear, Outcome, Ping, TcpReceive, TcpSend};
use sm::fault::FaultAction;
use sm::mad::{Attribute, Method, Status};
use sm::{Fault, partition};

/// From the cause to the moment when the group has moved the address: what the driver and IP take together.
const FAILS_WITHIN: Nanos = Nanos::from_millis(10);
/// From the end of the cause until the link is up, its broadcast group joined.
const RETURNS_WITHIN: Nanos = Nanos::from_secs(1);

/// The same until its port is in the groups that IP hears. A join that was out when the cable was pulled waits for its answer first.
const HEARS_WITHIN: Nanos = Nanos::from_secs(5);

/// Ports of alice.
const PORTS: [Guid; 2] = [Guid(0x0002_c903_000a_1b2d), Guid(0x0002_c903_000a_1b2e)];
const SEEDS: std::ops::Range<u64> = 1..9;

/// Runs a script under some seeds.
fn under_seeds(file: &str, script: fn(&Rehearsal) -> Result<()>) {
    for seed in SEEDS {
        let root = tempfile::tempdir().expect("a directory");
        let scenario = load(&rig::data(file)).expect("a scenario");
        let done = rehearse(scenario, &rig::proto(), seed, root.path().to_owned(), script);
        done.unwrap_or_else(|why| panic!("seed {seed}: {why:#}"));
    }
}

/// Command lines that succeed and say nothing.
fn all_well(desk: &Rehearsal, host: &str, lines: &[&str]) -> Result<()> {
    for line in lines {
        let (said, code) = desk.run(host, line);
        ensure!((said.as_str(), code) == ("", 0), "{host}: {line}: {said}");
    }
    Ok(())
}

/// Who serves the first data address.
fn server(desk: &Rehearsal, host: &str) -> String {
    let (said, _) = desk.run(host, "ipmpstat -anP -o inbound");
    said.lines().next().unwrap_or_default().to_owned()
}

/// Who hears groups and broadcasts for all.
fn nominated(desk: &Rehearsal, host: &str) -> Option<String> {
    let (said, _) = desk.run(host, "ipmpstat -iP -o interface,flags");
    said.lines().find_map(|line| line.strip_suffix(":--mbM--")).map(str::to_owned)
}

fn is_up(desk: &Rehearsal, host: &str, link: &str) -> bool {
    desk.run(host, "ipmpstat -iP -o interface,state").0.contains(&format!("{link}:ok\n"))
}

fn reaches(desk: &Rehearsal, host: &str, to: &str) -> bool {
    desk.run(host, &format!("ping {to} 1")).1 == 0
}

/// Packets that a link has sent.
fn sent(desk: &Rehearsal, host: &str, link: &str) -> u64 {
    lab_gldv3::mac_statistics(&desk.host(host).kernel, link).expect("a link").opackets
}

/// A cause of a link's failure, and its end.
type Switch<'a> = &'a dyn Fn(bool);

/// Lets the link that serves the address fail and come back. The address moves in time and the failed link is silent.
fn fails_over(desk: &Rehearsal, host: &str, peer: &str, switch: Switch<'_>) -> Result<()> {
    let failed = server(desk, host);
    switch(false);
    let moved = || ![failed.as_str(), ""].contains(&server(desk, host).as_str());
    ensure!(desk.until(FAILS_WITHIN, moved).is_some(), "{failed} still serves after {FAILS_WITHIN}");
    let before = sent(desk, host, &failed);
    let until = desk.until(Nanos::from_secs(5), || reaches(desk, host, peer));
    ensure!(until.is_some(), "{peer} does not answer {}", server(desk, host));
    fakekernel::sleep(Nanos::from_millis(500));
    ensure!(sent(desk, host, &failed) == before, "{failed} has sent something after it failed");
    switch(true);
    let back = desk.until(RETURNS_WITHIN, || is_up(desk, host, &failed));
    ensure!(back.is_some(), "{failed} is not back after {RETURNS_WITHIN}");
    ensure!(server(desk, host) != failed, "one address moves without need");
    Ok(())
}

const GROUP: [&str; 3] =
    ["ipadm create-if ibd0", "ipadm create-if ibd1", "ipadm create-ipmp -i ibd0 -i ibd1 ipmp0"];

fn two_ports(desk: &Rehearsal) -> Result<()> {
    all_well(desk, "alice", &GROUP)?;
    all_well(desk, "alice", &["ipadm create-addr -T static -a 10.0.0.1/24 ipmp0/v4"])?;
    let both = || is_up(desk, "alice", "ibd0") && is_up(desk, "alice", "ibd1");
    ensure!(desk.until(Nanos::from_secs(5), both).is_some(), "the links do not come up");
    ensure!(desk.until(Nanos::from_secs(5), || reaches(desk, "alice", "10.0.0.2")).is_some(), "no neighbour");
    Ok(())
}

/// The port below a link of alice.
fn port_of(link: &str) -> Guid {
    PORTS[usize::from(link == "ibd1")]
}

/// From one port to the other and back, each time by that cause.
fn there_and_back(desk: &Rehearsal, cause: fn(&Rehearsal, Guid, bool)) -> Result<()> {
    two_ports(desk)?;
    let first = server(desk, "alice");
    for _ in 0..2 {
        let port = port_of(&server(desk, "alice"));
        fails_over(desk, "alice", "10.0.0.2", &|works| cause(desk, port, works))?;
    }
    ensure!(server(desk, "alice") == first, "it is not where it was");
    Ok(())
}

fn cable(desk: &Rehearsal, port: Guid, plugged: bool) {
    desk.infiniband.set_cable(port, plugged);
}

/// Another P_Key stands where the link's was.
fn pkey(desk: &Rehearsal, port: Guid, present: bool) {
    let key = if present { PKey(0xffff) } else { PKey(0x9999) };
    desk.infiniband.fabric().set_pkeys(port, &[key]).expect("a port of the fabric");
}

#[test]
fn a_pulled_cable_moves_the_address_in_time_and_back() {
    under_seeds("ipmp-ports.toml", |desk| there_and_back(desk, cable));
}

#[test]
fn a_lost_pkey_moves_the_address_in_time_and_back() {
    under_seeds("ipmp-ports.toml", |desk| there_and_back(desk, pkey));
}

/// The broadcast group is gone, and this port alone may not join it again.
fn broadcast_group(desk: &Rehearsal, port: Guid, there: bool) {
    let sm = desk.infiniband.sm().expect("the embedded manager");
    if there {
        sm.faults(|script| script.clear());
        return;
    }
    let ports = desk.infiniband.fabric().subnet_ports();
    let view = ports.iter().find(|view| view.attr.guid == port).expect("a port of the fabric");
    let refuse = Fault {
        attribute: Some(Attribute::MC_MEMBER_RECORD),
        method: Some(Method::SET),
        from: Some(view.attr.lid),
        ..Fault::always(FaultAction::Refuse(Status::REQ_DENIED))
    };
    sm.faults(|script| script.push_front(refuse));
    let mgid = partition::broadcast_mgid(sm::PKey(0xffff), partition::SCOPE_LINK_LOCAL);
    assert!(sm.delete_group(mgid), "there was a group");
}

#[test]
fn a_lost_broadcast_group_moves_the_address_in_time_and_back() {
    under_seeds("ipmp-ports.toml", |desk| there_and_back(desk, broadcast_group));
}

/// Bytes that go over while the address goes there and back.
const BYTES: u64 = 16 << 20;
const PATIENCE: Nanos = Nanos::from_secs(300);

#[test]
fn a_transfer_and_a_listener_live_through_it_there_and_back() {
    under_seeds("ipmp-ports.toml", |desk| {
        two_ports(desk)?;
        let (alice, bob) = (desk.ip("alice"), desk.ip("bob"));
        let group: IpAddr = "239.1.2.3".parse()?;
        let hear = GroupHear::new((group, 7000), u32::MAX, Duration::from_secs(10_000));
        alice.start("ipmp0", Box::new(hear))?;
        let receive = bob.start("ibd0", Box::new(TcpReceive::new(5001)))?;
        let send = TcpSend::new(("10.0.0.2".parse()?, 5001), 49152, BYTES);
        let send = alice.start("ipmp0", Box::new(send))?;
        let manager = desk.infiniband.subnet_manager().expect("a manager");
        // ff12:401b:ffff::f01:203
        let mgid = sm::Gid { prefix: 0xff12_401b_ffff_0000, guid: 0x0f01_0203 };
        for _ in 0..4 {
            let port = port_of(&server(desk, "alice"));
            fails_over(desk, "alice", "10.0.0.2", &|works| cable(desk, port, works))?;
            let hears = || {
                let nominated = nominated(desk, "alice").map(|link| port_of(&link));
                nominated.is_some_and(|port| manager.is_member(mgid, port).unwrap_or(false))
            };
            ensure!(desk.until(HEARS_WITHIN, hears).is_some(), "nobody hears for the group");
        }
        let deadline = fakekernel::now() + PATIENCE;
        let [sent, received] = [alice.finish("ipmp0", send, deadline), bob.finish("ibd0", receive, deadline)];
        ensure!(sent.is_some() && sent == received, "{sent:?} and {received:?}");
        ensure!(matches!(sent, Some(Outcome::Tcp { bytes: BYTES, .. })), "{sent:?}");
        Ok(())
    });
}

#[test]
fn an_active_active_group_uses_both_links_and_shows_itself() {
    under_seeds("ipmp-ports.toml", |desk| {
        two_ports(desk)?;
        all_well(desk, "alice", &["ipadm create-addr -T static -a 10.0.0.3/24 ipmp0/more"])?;
        for to in ["10.0.0.1", "10.0.0.3"] {
            let ping = Ping::new("10.0.0.2".parse()?, to.parse()?, 50, vec![0, 1000, 2016]);
            let ping = desk.ip("bob").start("ibd0", Box::new(ping))?;
            let outcome = desk.ip("bob").finish("ibd0", ping, fakekernel::now() + PATIENCE);
            ensure!(outcome == Some(Outcome::Ping { sent: 50, answered: 50 }), "{to}: {outcome:?}");
        }
        let counts = ["ibd0", "ibd1"].map(|link| sent(desk, "alice", link));
        ensure!(counts.iter().all(|count| *count >= 50), "{counts:?}");
        for (line, expected) in [
            ("ipmpstat -gP -o group,state,interfaces", "ipmp0:ok:ibd0 ibd1\n"),
            ("ipadm show-if -p -o ifname,class,state ipmp0", "ipmp0:IPMP:ok\n"),
            ("ipadm show-addr -p -o addrobj,state ipmp0/", "ipmp0/v4:ok\nipmp0/more:ok\n"),
        ] {
            let (said, _) = desk.run("alice", line);
            ensure!(said == expected, "{line}: {said}");
        }
        for port in PORTS {
            cable(desk, port, false);
        }
        let state = || desk.run("alice", "ipmpstat -gP -o state,interfaces").0;
        ensure!(desk.until(FAILS_WITHIN, || state() == "failed:[ibd0] [ibd1]\n").is_some(), "{}", state());
        let (said, _) = desk.run("alice", "ipadm show-addr -p -o state ipmp0/v4");
        ensure!(said == "inaccessible\n", "{said}");
        for (line, why) in [
            ("ipadm delete-if ibd0", "Interface already in use"),
            ("ipadm delete-ipmp ipmp0", "Interface already in use"),
            ("ipadm create-addr -T static -a 10.0.0.4/24 ibd0/test", "Operation not supported"),
            ("ipadm add-ipmp -i ibd0 ipmp0", "Interface already in use"),
            ("ipadm remove-ipmp -i ibd7 ipmp0", "Interface does not exist"),
            ("ipadm create-ipmp ipmp0", "Interface already exists"),
            ("ipadm create-ipmp group", "Invalid argument provided"),
        ] {
            let (said, code) = desk.run("alice", line);
            ensure!(code == 1 && said.contains(why), "{line}: {said}");
        }
        all_well(desk, "alice", &["ipadm remove-ipmp -i ibd0,ibd1 ipmp0", "ipadm delete-ipmp ipmp0"])?;
        ensure!(desk.run("alice", "ipadm show-if -p -o ifname").0 == "lo0\nibd0\nibd1\n", "what is left");
        Ok(())
    });
}
