//! Statistics of a mac (`M/mac_stat.c`).

use std::ffi::c_int;
use std::sync::Arc;

use fakekernel::genunix::{KstatId, KstatValue};
use fakekernel::{Cx, Export, Rule, cx, export};
use illumos_sys_hdrs::{mac_handle_t, uint_t};

use super::{Mac, Ring, mac_of};
use crate::types::{LinkState, MacStatistics, RingStatistics};

pub(crate) fn exports() -> Vec<Export> {
    export! { UKS: mac_stat_get; }
}

const LINK_STATE: u32 = 0;
const LINK_UP: u32 = 1;
const PROMISC: u32 = 2;
const LOWLINK_STATE: u32 = 3;
pub(crate) const IFSPEED: u32 = 1000;
/// Statistics of plugins start here.
const PLUGIN: u32 = 2000;

/// `ifspeed` to `overflows`, in the order of their numbers.
const NAMES: [&str; 17] = [
    "ifspeed",
    "multircv",
    "brdcstrcv",
    "multixmt",
    "brdcstxmt",
    "norcvbuf",
    "ierrors",
    "unknowns",
    "noxmtbuf",
    "oerrors",
    "collisions",
    "rbytes",
    "ipackets",
    "obytes",
    "opackets",
    "uflo",
    "oflo",
];

/// The order in which the kstat shows what is not 64 bits wide.
const SHOWN: [&str; 16] = [
    "multircv",
    "brdcstrcv",
    "multixmt",
    "brdcstxmt",
    "norcvbuf",
    "ierrors",
    "unknowns",
    "noxmtbuf",
    "oerrors",
    "collisions",
    "uflo",
    "oflo",
    "rbytes",
    "ipackets",
    "obytes",
    "opackets",
];
const WIDE: [&str; 4] = ["rbytes", "ipackets", "obytes", "opackets"];

fn number(state: LinkState) -> i64 {
    match state {
        LinkState::Unknown => -1,
        LinkState::Down => 0,
        LinkState::Up => 1,
    }
}

impl Mac {
    /// `mac_stat_get`: the framework's own, or the driver's; what the driver does not count is 0.
    pub(crate) fn statistic(&self, cx: &Cx, stat: u32) -> u64 {
        let (link, low, promiscuous) = {
            let state = self.state.lock();
            (state.link_state, state.low_state, state.promiscuous)
        };
        match stat {
            LINK_STATE => number(link) as u64,
            LINK_UP => u64::from(link == LinkState::Up),
            PROMISC => u64::from(promiscuous > 0),
            LOWLINK_STATE => number(low) as u64,
            _ => self.call_getstat(stat).unwrap_or_else(|| {
                // The C framework would index the plugin's table, which for InfiniBand has no entry.
                cx.check(
                    stat < PLUGIN || self.plugin.statistics > (stat - PLUGIN) as usize,
                    Rule::AbsurdArgument,
                    || format!("statistic {stat} is in no table of {}", self.plugin.ident),
                );
                0
            }),
        }
    }

    /// Bits per second, by the driver.
    pub(crate) fn speed(&self) -> u64 {
        self.call_getstat(IFSPEED).unwrap_or(0)
    }

    fn named(&self, name: &str) -> u64 {
        let at = NAMES.iter().position(|known| *known == name);
        at.and_then(|at| self.call_getstat(IFSPEED + at as u32)).unwrap_or(0)
    }

    /// What each transmit ring has sent.
    pub(crate) fn transmit_ring_statistics(&self) -> Vec<RingStatistics> {
        let number =
            |name: &str| NAMES.iter().position(|known| *known == name).map_or(0, |at| IFSPEED + at as u32);
        let (packets, bytes) = (number("opackets"), number("obytes"));
        let of = |ring: &Arc<Ring>| RingStatistics {
            packets: self.call_ring_stat(ring, packets),
            bytes: self.call_ring_stat(ring, bytes),
        };
        self.rings().transmit.iter().map(of).collect()
    }

    /// Every generic statistic, asked one by one.
    pub(crate) fn statistics(&self) -> MacStatistics {
        MacStatistics {
            ifspeed: self.named("ifspeed"),
            multircv: self.named("multircv"),
            brdcstrcv: self.named("brdcstrcv"),
            multixmt: self.named("multixmt"),
            brdcstxmt: self.named("brdcstxmt"),
            norcvbuf: self.named("norcvbuf"),
            ierrors: self.named("ierrors"),
            unknowns: self.named("unknowns"),
            noxmtbuf: self.named("noxmtbuf"),
            oerrors: self.named("oerrors"),
            collisions: self.named("collisions"),
            rbytes: self.named("rbytes"),
            ipackets: self.named("ipackets"),
            obytes: self.named("obytes"),
            opackets: self.named("opackets"),
            underflows: self.named("uflo"),
            overflows: self.named("oflo"),
        }
    }

    /// The entries of the `mac` kstat, in its order: each asked from the driver once, so `rbytes` and `rbytes64` may differ.
    fn kstat_entries(&self) -> Vec<(String, KstatValue)> {
        let (link, promiscuous) = {
            let state = self.state.lock();
            (state.link_state, state.promiscuous)
        };
        let mut entries = vec![
            ("link_state".to_owned(), KstatValue::U32(number(link) as u32)),
            ("link_up".to_owned(), KstatValue::U32(u32::from(link == LinkState::Up))),
            ("promisc".to_owned(), KstatValue::U32(u32::from(promiscuous > 0))),
            ("ifspeed".to_owned(), KstatValue::U64(self.speed())),
        ];
        entries.extend(SHOWN.map(|name| (name.to_owned(), KstatValue::U32(self.named(name) as u32))));
        entries.extend(WIDE.map(|name| (format!("{name}64"), KstatValue::U64(self.named(name)))));
        entries
    }

    /// The entries of the `link` kstat, with the packets DLS had no stream for.
    pub(crate) fn link_kstat_entries(&self, unknowns: u32) -> Vec<(String, KstatValue)> {
        const SHOWN: [&str; 13] = [
            "multircv",
            "brdcstrcv",
            "multixmt",
            "brdcstxmt",
            "norcvbuf",
            "ierrors",
            "noxmtbuf",
            "oerrors",
            "collisions",
            "rbytes",
            "ipackets",
            "obytes",
            "opackets",
        ];
        let link = self.state.lock().link_state;
        let mut entries = vec![("ifspeed".to_owned(), KstatValue::U64(self.speed()))];
        entries.extend(SHOWN.map(|name| (name.to_owned(), KstatValue::U32(self.named(name) as u32))));
        entries.extend(WIDE.map(|name| (format!("{name}64"), KstatValue::U64(self.named(name)))));
        entries.push(("link_state".to_owned(), KstatValue::U32(number(link) as u32)));
        entries.push(("link_duplex".to_owned(), KstatValue::U32(0)));
        entries.push(("unknowns".to_owned(), KstatValue::U32(unknowns)));
        entries
    }

    fn kstat_id(&self) -> KstatId {
        KstatId {
            module: self.driver_name().to_owned(),
            instance: self.instance as c_int,
            name: "mac".to_owned(),
        }
    }
}

/// Installs the `mac` kstat.
pub(super) fn install(mac: &Arc<Mac>) {
    let shown = Arc::downgrade(mac);
    let reader = move || shown.upgrade().map_or_else(Vec::new, |mac| mac.kstat_entries());
    mac.kernel.add_kstat(mac.kstat_id(), Arc::new(reader));
}

/// Removes it.
pub(super) fn remove(mac: &Mac) {
    mac.kernel.remove_kstat(&mac.kstat_id());
}

unsafe extern "C" fn mac_stat_get(handle: mac_handle_t, stat: uint_t) -> u64 {
    let cx = cx();
    mac_of(&cx, handle).map_or(0, |mac| mac.statistic(&cx, stat))
}
