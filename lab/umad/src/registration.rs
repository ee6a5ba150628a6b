//! `IB_USER_MAD_REGISTER_AGENT`: what a program asks to hear.

use rustix::io::Errno;
use sm::Method;

/// A number that a file gives to an agent, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentId(pub u32);

/// Methods of a management class, 0 to 127: which unsolicited MADs an agent takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(u128);

impl Methods {
    /// None: a client that asks only.
    pub const NONE: Self = Self(0);

    /// These. A method's response bit does not count.
    pub const fn of(methods: &[Method]) -> Self {
        let (mut mask, mut at) = (0, 0);
        while at < methods.len() {
            mask |= 1 << (methods[at].0 & 0x7f);
            at += 1;
        }
        Self(mask)
    }

    /// Whether it is one of them.
    pub const fn has(self, method: Method) -> bool {
        self.0 & (1 << (method.0 & 0x7f)) != 0
    }

    /// Whether both have one.
    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// As two words, method 0 lowest.
    pub const fn words(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }
}

/// What an agent is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// 1, QP 1. QP 0 is not carried here.
    pub qpn: u8,
    /// Whose unsolicited MADs it takes; 0 if none.
    pub class: u8,
    /// Of that class.
    pub class_version: u8,
    /// Of that class.
    pub methods: Methods,
    /// 1: long messages are cut and put together by the device; 0: the agent sees segments.
    pub rmpp_version: u8,
}

/// Management class of subnet administration.
pub(crate) const SUBNET_ADMINISTRATION: u8 = 0x03;
/// Directed and LID-routed subnet management: QP 0's.
const SUBNET_MANAGEMENT: [u8; 2] = [0x01, 0x81];
/// Classes from here on are applications' or nobody's.
const CLASSES: u8 = 80;
const VERSIONS: u8 = 8;
/// Those of vendors with an organization's number, which this interface does not take.
const VENDORS: std::ops::RangeInclusive<u8> = 0x30..=0x4f;

impl Registration {
    /// A client of subnet administration: it asks, and takes the unsolicited MADs of `methods`.
    pub const fn subnet_administration(methods: Methods) -> Self {
        Self { qpn: 1, class: SUBNET_ADMINISTRATION, class_version: 2, methods, rmpp_version: 1 }
    }

    /// Whether an agent can be that, whatever others are.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let rmpp = match self.rmpp_version {
            0 => true,
            1 => self.class == 0 || self.class == SUBNET_ADMINISTRATION,
            _ => false,
        };
        let class = match self.class {
            0 => self.rmpp_version == 0 && self.methods == Methods::NONE,
            class => class < CLASSES && self.class_version < VERSIONS && !SUBNET_MANAGEMENT.contains(&class),
        };
        match self.qpn {
            0 => Err(Errno::OPNOTSUPP),
            1 if VENDORS.contains(&self.class) => Err(Errno::OPNOTSUPP),
            1 if rmpp && class => Ok(()),
            _ => Err(Errno::INVAL),
        }
    }

    /// Whether both would take the same unsolicited MAD.
    pub(crate) const fn clashes(&self, other: &Self) -> bool {
        self.class == other.class
            && self.class_version == other.class_version
            && self.methods.overlaps(other.methods)
    }
}
