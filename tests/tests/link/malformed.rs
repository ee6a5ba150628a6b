//! Packets that nobody should send: where each of them ends, and that nothing else happens.

use fabric::{Hca, Reason};
use ibdlab::packets::{Content, Target, inject};
use ibdlab::scenario::trouble::Malformed;
use lab_gldv3::{Promiscuity, ReceiveQueue, Stream};

use crate::bench::{Bench, holds};

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The adapter drops it, for this reason.
    Adapter(Reason),
    /// The driver drops it and counts it here.
    Driver(&'static str),
    /// It goes up as it is, with so many bytes behind the IPoIB header: its fault is the business of whoever reads it.
    Up(usize),
}

/// A bench's links have the fabric's MTU of 2048 bytes, IPoIB header included.
const MTU: usize = 2048;
const IPOIB_HEADER: usize = 4;
const IPV4: usize = 20;
/// The counter of multicasts that came back to their sender.
const OWN: &str = "rx_drop_own_multicast";
/// Fixed parts of a solicitation, IPv6 header included.
const SOLICITATION: usize = 40 + 24;

fn end_of(kind: Malformed) -> End {
    match kind {
        Malformed::Empty | Malformed::ThreeBytes => End::Driver("rx_drop_short"),
        Malformed::HeaderOnly => End::Up(0),
        Malformed::LengthBeyondEnd => End::Up(IPV4),
        // The fabric gives every sender its own multicast back, so this is no error.
        Malformed::FromItself => End::Driver(OWN),
        Malformed::Largest => End::Up(MTU - IPOIB_HEADER),
        Malformed::LongerThanLink => End::Driver("rx_drop_completion"),
        Malformed::Oversize => End::Adapter(Reason::Mtu),
        Malformed::WrongQkey => End::Adapter(Reason::Qkey),
        Malformed::WrongPkey => End::Adapter(Reason::Pkey),
        Malformed::WrongEthertype => End::Up(40),
        Malformed::NdOptionCut => End::Up(SOLICITATION + 5),
        Malformed::NdOptionEmpty | Malformed::NdOptionTooLong => End::Up(SOLICITATION + 8),
        Malformed::NdWithoutOption => End::Up(SOLICITATION),
        Malformed::ArpCut | Malformed::ArpAddressTooLong => End::Driver("rx_drop_neighbour_form"),
        Malformed::MulticastWithoutGrh | Malformed::GrhOtherPort => End::Adapter(Reason::WrongGid),
        Malformed::GrhOtherGroup | Malformed::GroupOfOtherPartition | Malformed::GroupOfOtherScope => {
            End::Adapter(Reason::NoQp)
        }
        Malformed::GrhVersion | Malformed::GrhLength | Malformed::GrhNextHeader | Malformed::GrhMissing => {
            End::Adapter(Reason::Malformed)
        }
    }
}

struct Victim<'a> {
    bench: &'a Bench,
    hca: Hca,
    heard: ReceiveQueue,
    _stream: Stream,
}

impl Victim<'_> {
    fn counters(&self) -> Vec<(String, String)> {
        let all = self.bench.beta.counters();
        // How a packet came up is not what this is about.
        let counted = all.into_iter().filter(|(name, _)| !["rx_copied", "rx_lent"].contains(&name.as_str()));
        counted.map(|(name, value)| (name, format!("{value:?}"))).collect()
    }

    fn receives_posted(&self) -> Vec<Option<usize>> {
        self.hca.qpns().into_iter().map(|qpn| self.hca.receives_posted(qpn)).collect()
    }

    /// Sends one, and looks at everything it could have changed.
    fn suffers(&self, kind: Malformed) {
        let (console, posted) = (self.bench.beta.console(), self.receives_posted());
        let (counters, statistics) = (self.counters(), self.bench.beta.statistics());
        let drops = self.bench.world.fabric().drops();
        let target = Target { hca: self.hca.guid(), port: self.bench.beta.port(), pkey: 0xffff };
        inject(&self.bench.world, &self.bench.sm, target, &Content::Malformed(kind));
        self.bench.settle();
        let expected = end_of(kind);
        let heard: Vec<usize> =
            std::iter::from_fn(|| self.heard.try_next()).map(|packet| packet.payload.len()).collect();
        let after = self.bench.beta.statistics();
        let errors = u64::from(matches!(expected, End::Driver(name) if name != OWN));
        assert_eq!(after.ierrors - statistics.ierrors, errors, "input errors for {kind:?}");
        match expected {
            End::Up(bytes) => {
                assert_eq!(heard, [bytes], "{kind:?} goes up once, as long as it is");
                assert_eq!(after.rbytes - statistics.rbytes, (bytes + IPOIB_HEADER) as u64);
            }
            End::Driver(name) => {
                assert_eq!(heard, [0; 0], "{kind:?} goes nowhere");
                let before = counters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
                let now = self.bench.beta.counter(name);
                assert_ne!(before, Some(format!("U64({now})")), "{kind:?} is counted in {name}");
            }
            End::Adapter(reason) => {
                assert_eq!(heard, [0; 0], "{kind:?} does not reach the driver");
                let count = |drops: &fabric::Drops| drops.get(&reason).copied().unwrap_or(0);
                assert_eq!(
                    count(&self.bench.world.fabric().drops()) - count(&drops),
                    1,
                    "{kind:?}: {reason:?}"
                );
            }
        }
        if !matches!(expected, End::Driver(_)) {
            assert_eq!(self.counters(), counters, "{kind:?}: no counter of the driver moves");
        }
        assert_eq!(self.receives_posted(), posted, "{kind:?}: the ring is as full as before");
        assert_eq!(self.bench.beta.console(), console, "{kind:?}: nobody can fill a log from outside");
    }
}

#[test]
fn every_malformed_packet_ends_in_one_place_and_costs_the_ring_nothing() {
    holds(|bench| {
        let (_beta, heard) = bench.beta.open_up(0x0800);
        _beta.set_promiscuous(Promiscuity::Sap, true).expect("every type can be asked for");
        bench.settle();
        while heard.try_next().is_some() {}
        let hca = bench.world.fabric().hca(fabric::Guid(bench.beta.port().0 - 1)).expect("it is there");
        let victim = Victim { bench, hca, heard, _stream: _beta };
        for kind in Malformed::ALL {
            victim.suffers(kind);
        }
    });
}
