//! What was to be reached, and whether it was. None is left out.

use super::bare_kernel::Path;
use super::bulk::{Carried, WITHOUT};
use super::processors::{ADDRESSES, Senders};
use super::report::{Report, Target};
use super::traffic::Way;
use super::{Driver, own};

/// Memory of a link at rest.
const MEMORY_MIB: f64 = 4.0;
/// Waiting until every group is joined again, in round trips.
const ROUND_TRIPS: f64 = 10.0;

/// Judges what a run found.
pub fn judge(report: &Report, drivers: &[Driver], mtu: u32, sa_delay_ns: u64) -> Vec<Target> {
    let ours = &drivers[0].name;
    let peer = drivers.get(1).map(|driver| driver.name.as_str());
    let mut targets = Vec::new();
    for (way, name) in [(Way::Transmit, "transmit"), (Way::Receive, "receive")] {
        let ratio = |delay| ratio(report, ours, peer?, way, 1, 64, delay);
        targets.push(target(format!("{name} of 64 bytes against the peer"), 2.0, ratio(0), "times"));
    }
    for delay in [0, sa_delay_ns] {
        let ratio = peer.and_then(|peer| ratio(report, ours, peer, Way::Transmit, 10_000, 64, delay));
        let what = format!("10,000 peers in turn against the peer, SA delay {} us", delay / 1000);
        targets.push(target(what, 50.0, ratio, "times"));
    }
    for len in [64, mtu as usize - 4] {
        let row = report.row(ours, Way::Transmit, 1, len, 0);
        let bare = report.bare.iter().find(|bare| bare.len == len);
        let ratio = row.zip(bare).map(|(row, bare)| row.ns_per_packet / bare.ns_per_packet);
        let what = format!("transmit of {len} bytes against the bare loop");
        targets.push(most(what, 1.5, ratio, "times its time"));
    }
    let of_ours = |begin: &str| {
        report
            .facts
            .iter()
            .find(|fact| fact.what.starts_with(begin) && fact.driver == *ours)
            .map(|fact| fact.value)
    };
    targets.push(most("kernel memory of a link at rest".into(), MEMORY_MIB, of_ours("kernel memory"), "MiB"));
    targets.push(most(
        "waiting until 1,000 groups are joined again after a new subnet manager came".into(),
        ROUND_TRIPS,
        of_ours("waiting until"),
        "SA round trips",
    ));
    targets.extend(of_own(report, drivers));
    targets
}

/// How many times what the peer carries on connections, and what we carry in datagrams.
const BULK: f64 = 1.5;

/// What was to be reached with bulk TCP, and what could be by a driver that costs nothing.
pub fn of_bulk(report: &Report, drivers: &[Driver]) -> Vec<Target> {
    let of = |what: &str, driver: &str| {
        let fact = report.facts.iter().find(|fact| fact.driver == driver && fact.what == what);
        fact.map(|fact| fact.value)
    };
    let (ours, peer) = (drivers[0].name.as_str(), drivers.get(1).map(|peer| peer.name.as_str()));
    let ratio =
        |carried: Carried, to: Option<f64>| of(carried.what(), ours).zip(to).map(|(ours, to)| ours / to);
    let of_peer = |carried: Carried| peer.and_then(|peer| of(carried.what(), peer));
    let against = |carried: Carried, to: &str| format!("{} against {to}", carried.what());
    let tcp = Carried::Connections;
    let free = of(WITHOUT, "none").zip(of_peer(tcp)).map(|(without, peer)| without / peer);
    vec![
        target(against(tcp, "the peer's"), BULK, ratio(tcp, of_peer(tcp)), "times"),
        target(format!("{WITHOUT} against the peer's on connections"), BULK, free, "times"),
        target(
            against(Carried::Messages, "the peer's"),
            BULK,
            ratio(Carried::Messages, of_peer(Carried::Messages)),
            "times",
        ),
        target(
            against(tcp, "our own datagrams with large sends"),
            1.0,
            ratio(tcp, of(Carried::Datagrams.what(), ours)),
            "times",
        ),
    ]
}

/// What the figure of memory for a neighbour is called.
pub const PEERS: &str = "memory of a neighbour with a connection each way";
/// KiB of a neighbour.
const PEER_KIB: f64 = 160.0;

/// What was to be reached with neighbours that have connections.
pub fn of_peers(report: &Report, drivers: &[Driver]) -> Target {
    let ours = |fact: &&super::report::Fact| fact.driver == drivers[0].name && fact.what.starts_with(PEERS);
    let found = report.facts.iter().find(ours).map(|fact| fact.value);
    most(format!("{PEERS}, beyond what all share"), PEER_KIB, found, "KiB")
}

/// How many times what one ring carries two have to.
const TWO_RINGS: f64 = 1.7;

/// What was to be reached on two processors.
pub fn of_processors(report: &Report) -> Vec<Target> {
    let found = |what: &str| report.facts.iter().find(|fact| fact.what == what).map(|fact| fact.value);
    let against = |senders: Senders, addresses| {
        let one = found(&Senders::OneRing.what(addresses))?;
        Some(found(&senders.what(addresses))? / one)
    };
    let of = |addresses| {
        let what = format!("{}, against one", Senders::TwoRings.what(addresses));
        target(what, TWO_RINGS, against(Senders::TwoRings, addresses), "times")
    };
    ADDRESSES.map(of).into()
}

/// How many times what the peer carries where kernel and adapter do next to nothing.
const BARE_KERNEL: [(Path, f64); 3] =
    [(Path::Sent(64), 2.28), (Path::Received(64), 2.28), (Path::InTurn, 142.5)];

/// What was to be reached there.
pub fn on_bare_kernel(report: &Report, drivers: &[Driver]) -> Vec<Target> {
    let of = |path: Path, driver: &Driver| {
        let fact = report.facts.iter().find(|fact| fact.what == path.what() && fact.driver == driver.name);
        fact.map(|fact| fact.value)
    };
    let ratio = |path| Some(of(path, &drivers[0])? / of(path, drivers.get(1)?)?);
    let wanted = BARE_KERNEL.into_iter();
    wanted
        .map(|(path, least)| {
            target(format!("{}, against the peer", path.what()), least, ratio(path), "times")
        })
        .collect()
}

/// What was to be reached in the driver's own text.
pub fn of_own(report: &Report, drivers: &[Driver]) -> Vec<Target> {
    let ours = &drivers[0].name;
    let found = |what| report.own(ours, what);
    let most_of = |what: &str, of: &str, limit: f64, figure: Option<f64>| {
        most(format!("{what}: of our own per packet"), limit, figure, of)
    };
    let mut targets = vec![
        most_of(own::SENT, "instructions", 450.0, found(own::SENT).map(|own| own.instructions)),
        most_of(own::COPIED, "instructions", 250.0, found(own::COPIED).map(|own| own.instructions)),
        most_of(
            own::SENT_IN_CHAINS,
            "locked instructions",
            1.0,
            found(own::SENT_IN_CHAINS).map(|own| own.locked),
        ),
        most_of(own::LENT, "locked instructions", 5.0, found(own::LENT).map(|own| own.locked)),
        most_of(own::ALONE, "locks", 3.0, found(own::ALONE).map(|own| own.locks)),
    ];
    for what in [own::SENT, own::SENT_LARGE] {
        let paths = report.path(ours, what).zip(report.path(own::BARE, what));
        let ratio = paths.map(|(ours, bare)| ours.instructions / bare.instructions);
        let what = format!("{what}: instructions of the whole path to the bare loop's");
        targets.push(most(what, 1.5, ratio, "times"));
    }
    for what in [own::SENT, own::COPIED] {
        let peer = drivers.get(1).and_then(|peer| report.own(&peer.name, what));
        let ratio = peer.zip(found(what)).map(|(peer, ours)| peer.instructions / ours.instructions);
        targets.push(target(format!("{what}: the peer's own instructions to ours"), 3.0, ratio, "times"));
    }
    targets
}

/// How many times more packets per second we have than the peer.
fn ratio(
    report: &Report,
    ours: &str,
    peer: &str,
    way: Way,
    addresses: usize,
    len: usize,
    delay: u64,
) -> Option<f64> {
    let ours = report.row(ours, way, addresses, len, delay)?;
    let peer = report.row(peer, way, addresses, len, delay)?;
    Some(ours.packets_per_second / peer.packets_per_second)
}

fn target(what: String, least: f64, figure: Option<f64>, unit: &str) -> Target {
    judged(what, format!("at least {least} {unit}"), figure, unit, |figure| figure >= least)
}

fn most(what: String, most: f64, figure: Option<f64>, unit: &str) -> Target {
    judged(what, format!("at most {most} {unit}"), figure, unit, |figure| figure <= most)
}

fn judged(
    what: String,
    wanted: String,
    figure: Option<f64>,
    unit: &str,
    met: impl Fn(f64) -> bool,
) -> Target {
    Target {
        what,
        wanted,
        figure: figure.map_or_else(|| "not measured".into(), |figure| format!("{figure:.2} {unit}")),
        met: figure.map(met),
    }
}

impl Target {
    /// As a line.
    pub fn line(&self) -> String {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "-",
        };
        format!("{verdict:<8} {}: {} (wanted {})", self.what, self.figure, self.wanted)
    }
}
