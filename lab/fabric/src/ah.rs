//! Address handles.

use crate::{Gid, Lid, Pd, PortNum, Rate, Sl};
use std::sync::Arc;

use lab_lock::Mutex;
/// The part of an address vector that makes a GRH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Destination, unicast or multicast.
    pub dgid: Gid,
    /// Index of the source in the port's GID table.
    pub sgid_ix: u16,
    /// 20 bits.
    pub flow_label: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// Where a datagram goes, as far as the address handle says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    /// The port it leaves by; must be the QP's.
    pub port: PortNum,
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Source path bits, masked with the port's LMC when sent.
    pub src_path: u8,
    /// Static rate: taken or refused as the HCA's attributes say, and not simulated.
    pub rate: Rate,
    /// Present: a GRH is sent.
    pub grh: Option<GlobalRoute>,
}

impl AddressVector {
    /// What a new handle holds until it is modified: port 1, LID 0, no GRH.
    pub const PLACEHOLDER: AddressVector = AddressVector {
        port: PortNum(1),
        dlid: Lid::NONE,
        sl: Sl::truncating(0),
        src_path: 0,
        rate: match Rate::new(2) {
            Some(rate) => rate,
            None => panic!("2 is a rate code"),
        },
        grh: None,
    };
}

/// An address handle. Clones name the same one; a work request copies the vector when it is posted.
#[derive(Clone)]
pub struct Ah(pub(crate) Arc<AhInner>);

pub(crate) struct AhInner {
    pub(crate) pd: Pd,
    /// `None` once freed.
    pub(crate) vector: Mutex<Option<AddressVector>>,
}

impl Ah {
    /// The vector now; `None` once freed.
    #[must_use]
    pub fn vector(&self) -> Option<AddressVector> {
        *self.0.vector.lock()
    }
}
