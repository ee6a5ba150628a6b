//! Faults of a link, drawn from one seeded generator, and the reasons for which frames are dropped.

use crate::Direction;
use crate::wire::Frame;
use crate::{Guid, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// A chance in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability(0);
    /// Always.
    pub const ALWAYS: Probability = Probability(1_000_000);

    /// `n` in a million; more than a million is always.
    #[must_use]
    pub const fn per_million(n: u32) -> Probability {
        Probability(if n > 1_000_000 { 1_000_000 } else { n })
    }
}

/// Which frames a fault is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// All of them.
    #[default]
    All,
    /// Those with this opcode in the BTH.
    Opcode(u8),
    /// Management datagrams of this class and attribute.
    Management {
        /// `MgmtClass`.
        class: u8,
        /// `AttributeID`.
        attribute: u16,
    },
}

impl Only {
    pub(crate) fn admits(self, frame: &Frame) -> bool {
        match self {
            Only::All => true,
            Only::Opcode(opcode) => frame.opcode() == Some(opcode),
            Only::Management { class, attribute } => frame.management() == Some((class, attribute)),
        }
    }
}

/// Frames to be lost: of those that it is about some pass first, then some are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Which ones.
    pub only: Only,
    /// So many pass.
    pub skip: u32,
    /// Then so many are lost.
    pub times: u32,
}

/// Faults of one direction of one link. The default is a perfect link without delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// Frames that these faults happen to; others are carried as if there were none.
    pub only: Only,
    /// The frame vanishes.
    pub loss: Probability,
    /// The frame arrives twice.
    pub duplicate: Probability,
    /// One bit flips on the wire: the next hop's VCRC check drops the frame.
    pub corrupt: Probability,
    /// One bit flips inside the switch, which computes a fresh VCRC: the receiver's ICRC check drops it.
    pub corrupt_inside: Probability,
    /// The frame is held back by `reorder_by` while later ones pass it.
    pub reorder: Probability,
    /// How long a reordered frame is held back.
    pub reorder_by: Nanos,
    /// Latency of every frame; 0 delivers inside the post.
    pub delay: Nanos,
    /// Up to this much more, evenly drawn; order is kept.
    pub jitter: Nanos,
}

impl LinkFaults {
    fn delays(&self) -> bool {
        self.delay.0 != 0 || self.jitter.0 != 0 || self.reorder != Probability::NEVER
    }
}

/// Why a frame, or one QP's copy of it, was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A link fault.
    Loss,
    /// The sending port is not ACTIVE.
    SenderPortDown,
    /// The receiving port is not ACTIVE.
    ReceiverPortDown,
    /// The sending QP's P_Key table entry is empty.
    SenderPkey,
    /// The HCA was removed.
    HcaGone,
    /// The switch has no port for the destination LID, or a router none for the destination GID.
    NoRoute,
    /// The switch found the variant CRC wrong.
    VcrcAtSwitch,
    /// The receiving port found a CRC wrong.
    CrcAtPort,
    /// The receiving port could not parse it.
    Malformed,
    /// The destination LID is not the receiving port's.
    WrongLid,
    /// Multicast without GRH, or a GRH whose destination is not the port's.
    WrongGid,
    /// Payload longer than the receiving port's MTU.
    Mtu,
    /// No QP of that number, or none attached to the group.
    NoQp,
    /// The QP is not in a state to receive, or on another port.
    QpState,
    /// Partition mismatch.
    Pkey,
    /// Queue key mismatch.
    Qkey,
    /// A datagram for a connection's queue pair, or the other way round.
    Service,
    /// A packet for a connection that is not its peer's.
    Stranger,
    /// The sender's own multicast, kept back by the loopback block.
    OwnMulticast,
    /// No receive was posted.
    NoReceive,
    /// A router got a packet that may go no further.
    HopLimit,
    /// A router got a packet that does not say which subnet it is for.
    NoGrh,
}

impl Reason {
    /// A short name, stable for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Loss => "loss",
            Reason::SenderPortDown => "sender_port_down",
            Reason::ReceiverPortDown => "receiver_port_down",
            Reason::SenderPkey => "sender_pkey",
            Reason::HcaGone => "hca_gone",
            Reason::NoRoute => "no_route",
            Reason::VcrcAtSwitch => "vcrc_at_switch",
            Reason::CrcAtPort => "crc_at_port",
            Reason::Malformed => "malformed",
            Reason::WrongLid => "wrong_lid",
            Reason::WrongGid => "wrong_gid",
            Reason::Mtu => "mtu",
            Reason::NoQp => "no_qp",
            Reason::QpState => "qp_state",
            Reason::Pkey => "pkey",
            Reason::Qkey => "qkey",
            Reason::Service => "service",
            Reason::Stranger => "stranger",
            Reason::OwnMulticast => "own_multicast",
            Reason::NoReceive => "no_receive",
            Reason::HopLimit => "hop_limit",
            Reason::NoGrh => "no_grh",
        }
    }
}

/// Dropped frames by reason, in a fixed order.
pub type Drops = BTreeMap<Reason, u64>;

/// One copy of a frame that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// When it arrives; `None` = now, without passing the delay queue.
    pub(crate) due: Option<Nanos>,
    /// Bit to flip on the wire, modulo the frame's length.
    pub(crate) flip: Option<u32>,
    /// Bit to flip inside the switch.
    pub(crate) flip_inside: Option<u32>,
}

#[derive(Default)]
struct Link {
    plan: LinkFaults,
    /// Arrival of the last frame that kept its place.
    last_due: Option<Nanos>,
}

pub(crate) struct Faults {
    rng: ChaCha8Rng,
    links: BTreeMap<(Guid, Direction), Link>,
    picks: Vec<(Guid, Direction, Pick)>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Faults { rng: ChaCha8Rng::seed_from_u64(seed), links: BTreeMap::new(), picks: Vec::new() }
    }

    pub(crate) fn set(&mut self, port: Guid, direction: Direction, plan: LinkFaults) {
        self.links.entry((port, direction)).or_default().plan = plan;
    }

    pub(crate) fn lose(&mut self, port: Guid, direction: Direction, pick: Pick) {
        self.picks.push((port, direction, pick));
    }

    /// Nothing that was to be lost of this port is, from now on.
    pub(crate) fn lose_no_more(&mut self, port: Guid) {
        self.picks.retain(|(of, ..)| *of != port);
    }

    /// Whether the frame is one of those that are to be lost.
    fn is_picked(&mut self, port: Guid, direction: Direction, frame: &Frame) -> bool {
        let about = |(of, way, pick): &&mut (Guid, Direction, Pick)| {
            *of == port && *way == direction && pick.times > 0 && pick.only.admits(frame)
        };
        let Some((_, _, pick)) = self.picks.iter_mut().find(about) else { return false };
        if pick.skip > 0 {
            pick.skip -= 1;
            return false;
        }
        pick.times -= 1;
        true
    }

    fn hit(rng: &mut ChaCha8Rng, p: Probability) -> bool {
        // A link without faults draws nothing, so adding a fault to one link leaves the others' draws alone in kind.
        p != Probability::NEVER && rng.random_range(0..1_000_000u32) < p.0
    }

    /// A number in `min..=max`.
    pub(crate) fn between(&mut self, min: Nanos, max: Nanos) -> Nanos {
        if max <= min { min } else { Nanos(self.rng.random_range(min.0..=max.0)) }
    }

    /// What becomes of a frame that enters a link now: no, one or two copies.
    pub(crate) fn carry(
        &mut self,
        port: Guid,
        direction: Direction,
        now: Nanos,
        frame: &Frame,
    ) -> Vec<Carried> {
        const CLEAN: Carried = Carried { due: None, flip: None, flip_inside: None };
        if self.is_picked(port, direction, frame) {
            return Vec::new();
        }
        let rng = &mut self.rng;
        let Some(link) = self.links.get_mut(&(port, direction)) else { return vec![CLEAN] };
        let plan = link.plan;
        if !plan.only.admits(frame) {
            return vec![CLEAN];
        }
        if Self::hit(rng, plan.loss) {
            return Vec::new();
        }
        let copies = if Self::hit(rng, plan.duplicate) { 2 } else { 1 };
        (0..copies)
            .map(|_| Carried {
                due: link.arrival(rng, now),
                flip: Self::hit(rng, plan.corrupt).then(|| rng.random()),
                flip_inside: Self::hit(rng, plan.corrupt_inside).then(|| rng.random()),
            })
            .collect()
    }
}

impl Link {
    fn arrival(&mut self, rng: &mut ChaCha8Rng, now: Nanos) -> Option<Nanos> {
        let plan = self.plan;
        if !plan.delays() && self.last_due.is_none_or(|last| last < now) {
            return None;
        }
        let jitter = if plan.jitter.0 == 0 { 0 } else { rng.random_range(0..=plan.jitter.0) };
        let due = now.after(plan.delay).after(Nanos(jitter));
        if Faults::hit(rng, plan.reorder) {
            return Some(due.after(plan.reorder_by));
        }
        let due = self.last_due.map_or(due, |last| last.max(due));
        self.last_due = Some(due);
        Some(due)
    }
}
