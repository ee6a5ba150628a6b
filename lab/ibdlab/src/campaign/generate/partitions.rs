//! What the broadcast group of a partition is like, as site administrators configure it.

use rand::RngExt;

use super::fabrics::Link;
use super::{Generator, at};
use crate::report::SmKind;
use crate::scenario::{HostSpec, PartitionSpec, Speed};

/// The usual Q_Key and others, also with the bit that has a sender use its own queue pair's.
const QKEYS: [u32; 4] = [0xb1b, 0x8000_0b1b, 0x1234_5678, 0x8000_0001];

/// Rates by their code in the SA's records, with the payload in Mb/s, as far as a group is likely to have them.
const RATES: [(u8, u32); 8] =
    [(2, 2_000), (5, 4_000), (3, 8_000), (6, 16_000), (4, 24_000), (7, 32_000), (12, 54_500), (16, 100_000)];
/// The payload of 10 Gb/s, four lanes of SDR.
pub(super) const TEN_GIGABIT: u32 = 8_000;
/// The least MTU that is drawn.
const LEAST_MTU: u32 = 1024;

impl Generator<'_> {
    /// A rate that such a port can send at, mostly the usual one.
    pub(super) fn rate_up_to(&mut self, slowest: u32) -> u8 {
        let codes: Vec<u8> =
            RATES.into_iter().filter(|(_, rate)| *rate <= slowest).map(|(code, _)| code).collect();
        if slowest >= TEN_GIGABIT && self.rng.random() { 3 } else { self.pick(&codes) }
    }

    /// Gives a host a port that is too small or too slow for the group of the link. The group gets faster where no port is slower than it is.
    pub(super) fn shut_out(&mut self, host: &mut HostSpec, link: &mut Link, most: u32, sm: SmKind) {
        host.stays_down = at(true);
        host.mtu = (link.least < most).then(|| at(link.least));
        if sm == SmKind::Embedded && link.mtu > LEAST_MTU && self.rng.random_range(0..5) > 0 {
            host.mtu = Some(at(LEAST_MTU));
            (host.speed, host.width) = (self.pick(&[Speed::Ddr, Speed::Edr]), at(4));
            return;
        }
        let faster = |(_, rate): &&(u8, u32)| *rate > RATES[0].1 && *rate <= link.slowest;
        let codes: Vec<u8> = RATES.iter().filter(faster).map(|(code, _)| *code).collect();
        match codes.is_empty() {
            // Its members are as slow as a port can be: it is in the group like them.
            true => {
                host.stays_down = at(false);
                link.members.extend(link.outsider.take());
                host.mtu = (link.least < most).then(|| at(link.least));
            }
            false => link.partition.rate = at(self.pick(&codes)),
        }
        (host.speed, host.width) = (Speed::Sdr, at(1));
    }

    /// Every third group that the subnet manager makes has something of its own.
    pub(super) fn group_of(&mut self, pkey: u16, ready_made: bool, sm: SmKind) -> PartitionSpec {
        let spec = PartitionSpec::new(at(pkey), ready_made);
        if !ready_made || self.rng.random_range(0..3) > 0 {
            return spec;
        }
        // OpenSM gives a group the hop limit of its scope.
        let hop_limit = self.pick(&[None, None, Some(0), Some(1), Some(64)]);
        PartitionSpec {
            sl: self.pick(&[None, Some(1), Some(7), Some(15)]).map(at),
            qkey: Some(at(self.pick(&QKEYS))),
            tclass: self.pick(&[None, Some(0x28), Some(0xff)]).map(at),
            flow_label: self.pick(&[None, Some(5), Some(0xf_ffff)]).map(at),
            hop_limit: hop_limit.filter(|_| sm == SmKind::Embedded).map(at),
            scope: self.pick(&[None, None, Some(5), Some(8), Some(0xe)]).map(at),
            ..spec
        }
    }
}
