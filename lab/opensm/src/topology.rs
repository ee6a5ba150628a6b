//! The subnet that ibsim plays: one switch, OpenSM's own host, and the adapters, as its netfile says it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sm::Guid;

use crate::Error;

/// ibsim has room for ten clients, and OpenSM is one of them.
pub const MAX_ADAPTERS: usize = 9;

/// Name of the host that OpenSM has for itself: requests of its clients and another client's reports would meet at one LID.
pub(crate) const MANAGER: &str = "manager";

/// Longest node name in a connection request, less room for a number that tells equal names apart.
const NAME_LEN: usize = 24;

/// An adapter with one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// What people call it.
    pub name: String,
    /// Its node GUID.
    pub node: Guid,
    /// Its port's.
    pub port: Guid,
    /// Its cable to the switch.
    pub link: Link,
}

/// What a cable carries at most; both its ends are set to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Lanes: 1, 2, 4, 8 or 12.
    pub lanes: u8,
    /// How fast each signals.
    pub speed: Speed,
}

/// The speeds that ibsim 0.10 knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the field's own words")]
pub enum Speed {
    Sdr,
    Ddr,
    Qdr,
    Fdr10,
    Fdr,
    Edr,
    Hdr,
}

impl Speed {
    const fn name(self) -> &'static str {
        match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
        }
    }
}

/// Four lanes of 10 Gb/s.
impl Default for Link {
    fn default() -> Self {
        Self { lanes: 4, speed: Speed::Qdr }
    }
}

/// As ibnetdiscover writes it, which is how ibsim is told: `4xQDR`.
impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.lanes, self.speed.name())
    }
}

/// One switch, OpenSM's host at its port 1, adapters from port 2 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    adapters: Vec<Adapter>,
    lmc: u8,
}

impl Topology {
    /// A subnet of these adapters. Their names are made unique and fit for a netfile.
    ///
    /// # Errors
    /// [`Error::TooManyAdapters`], [`Error::NoAdapter`].
    pub fn new(adapters: impl IntoIterator<Item = Adapter>) -> Result<Self, Error> {
        let mut adapters: Vec<Adapter> = adapters.into_iter().collect();
        if adapters.is_empty() {
            return Err(Error::NoAdapter);
        }
        if adapters.len() > MAX_ADAPTERS {
            return Err(Error::TooManyAdapters(adapters.len()));
        }
        let mut taken = BTreeSet::from([MANAGER.to_owned(), SWITCH.to_owned()]);
        for (n, adapter) in adapters.iter_mut().enumerate() {
            adapter.name = plain(&adapter.name);
            if adapter.name.is_empty() || !taken.insert(adapter.name.clone()) {
                adapter.name = format!("{}-{n}", adapter.name);
                taken.insert(adapter.name.clone());
            }
        }
        Ok(Self { adapters, lmc: 0 })
    }

    /// The same, and OpenSM gives each port of an adapter 2^`lmc` LIDs, 0 to 7.
    #[must_use]
    pub fn with_lmc(self, lmc: u8) -> Self {
        Self { lmc: lmc & 7, ..self }
    }

    /// LID mask control of the adapters' ports.
    pub fn lmc(&self) -> u8 {
        self.lmc
    }

    /// The adapters, in the order of the switch's ports.
    pub fn adapters(&self) -> &[Adapter] {
        &self.adapters
    }

    /// The port behind a port of the switch; `None` for OpenSM's own and for those without a cable.
    pub fn behind(&self, switch_port: usize) -> Option<Guid> {
        let index = switch_port.checked_sub(FIRST_ADAPTER)?;
        self.adapters.get(index).map(|adapter| adapter.port)
    }

    /// The port OpenSM runs on.
    pub fn manager(&self) -> Guid {
        Guid(self.manager_node().0 + 1)
    }

    /// A node GUID that no adapter has, nor the one after it.
    fn manager_node(&self) -> Guid {
        self.free(0xf000, 2)
    }

    fn switch_node(&self) -> Guid {
        self.free(0xe000, 1)
    }

    fn free(&self, from: u64, width: u64) -> Guid {
        let taken: BTreeSet<u64> = self.adapters.iter().flat_map(|a| [a.node.0, a.port.0]).collect();
        let mut all = (from..).step_by(2);
        Guid(all.find(|guid| (*guid..*guid + width).all(|g| !taken.contains(&g))).unwrap_or(from))
    }

    /// What ibsim reads.
    pub fn netfile(&self) -> String {
        let count = self.adapters.len() + FIRST_ADAPTER;
        let mut text = format!("switchguids={:#x}\nSwitch {count} \"{SWITCH}\"\n", self.switch_node().0);
        let (name, link) = (MANAGER.to_owned(), Link::default());
        let manager = Adapter { name, node: self.manager_node(), port: self.manager(), link };
        let hosts: Vec<&Adapter> = std::iter::once(&manager).chain(&self.adapters).collect();
        // Writing to a String cannot fail.
        for (n, host) in hosts.iter().enumerate() {
            let _ =
                writeln!(text, "[{}] \"{}\"[1] # \"{}\" lid 0 {}", n + 1, host.name, host.name, host.link);
        }
        for (n, Adapter { name, node, port, link }) in hosts.iter().enumerate() {
            let _ = write!(
                text,
                "\ncaguid={:#x}\nHca 1 \"{name}\"\n[1]({:x}) \"{SWITCH}\"[{}] # lid 0 lmc 0 \"{SWITCH}\" lid 0 {link}\n",
                node.0,
                port.0,
                n + 1
            );
        }
        text
    }
}

const SWITCH: &str = "switch";

/// The switch's port of the first adapter; the one before it is OpenSM's.
const FIRST_ADAPTER: usize = 2;

/// What is left of a name that ibsim's parser and console can read.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(NAME_LEN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, n: u64) -> Adapter {
        let link = Link { lanes: 2, speed: Speed::Edr };
        Adapter { name: name.to_owned(), node: Guid(0x100 + n * 0x10), port: Guid(0x101 + n * 0x10), link }
    }

    #[test]
    fn a_tenth_client_besides_opensm_is_refused_before_anything_starts() {
        let adapters = |n| (0..n).map(|n| adapter("host", n)).collect::<Vec<_>>();
        assert!(Topology::new(adapters(9)).is_ok());
        let refused = Topology::new(adapters(10)).expect_err("ten adapters and OpenSM are eleven clients");
        assert_eq!(refused.to_string(), "ibsim serves 10 clients: OpenSM and 9 adapters; this fabric has 10");
    }

    #[test]
    fn names_are_made_unique_and_plain() {
        let named =
            Topology::new([adapter("a b\"", 1), adapter("ab", 2), adapter("manager", 3), adapter("", 4)]);
        let names: Vec<String> = named.unwrap().adapters().iter().map(|a| a.name.clone()).collect();
        assert_eq!(names, ["ab", "ab-1", "manager-2", "-3"]);
    }

    #[test]
    fn the_netfile_cables_every_adapter_to_the_switch_with_its_own_guids() {
        let topology = Topology::new([adapter("alice", 0), adapter("bob", 1)]).unwrap();
        let text = topology.netfile();
        let of_switch = [
            "Switch 4 \"switch\"",
            "[1] \"manager\"[1] # \"manager\" lid 0 4xQDR",
            "[2] \"alice\"[1] # \"alice\" lid 0 2xEDR",
            "[3] \"bob\"[1] # \"bob\" lid 0 2xEDR",
        ];
        assert!(text.contains(&of_switch.join("\n")), "{text}");
        let of_bob =
            "caguid=0x110\nHca 1 \"bob\"\n[1](111) \"switch\"[3] # lid 0 lmc 0 \"switch\" lid 0 2xEDR\n";
        assert!(text.contains(of_bob), "{text}");
        assert_eq!(topology.behind(3), Some(Guid(0x111)));
        assert_eq!(topology.behind(1), None, "OpenSM's own");
    }

    #[test]
    fn the_manager_takes_guids_nobody_has() {
        let clash = Adapter { node: Guid(0xf000), port: Guid(0xf001), ..adapter("x", 0) };
        assert_eq!(Topology::new([clash]).unwrap().manager(), Guid(0xf003));
    }
}
