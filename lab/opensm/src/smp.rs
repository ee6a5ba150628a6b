//! Subnet management packets: directed-route ones, which reach a node whatever its LID, and those sent to a LID.

use sm::mad::MAD_LEN;
use sm::records::{Record, SmInfo};
use sm::{Attribute, Guid, Lid, Mad, Method, Qpn, Status};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::protocol::Packet;

/// Bytes of an SMP's attribute.
pub(crate) const SMP_DATA: usize = 64;

/// Why an SMP has no answer to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmpError {
    /// ibsim gave it back: no link, or nobody there.
    #[error("nobody is there")]
    Undeliverable,
    /// Nothing came in time.
    #[error("no answer in time")]
    Timeout,
    /// An answer with an error.
    #[error("answered with {0:?}")]
    Refused(Status),
    /// The connection to ibsim is gone.
    #[error("the connection to ibsim is gone")]
    Disconnected,
}

/// How an SMP goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To the adapter it is sent from.
    Own,
    /// Out of the adapter's port, to the switch at the other end of the cable.
    Switch,
    /// To a LID.
    Lid(Lid),
}

/// Attributes of the subnet management class.
pub(crate) mod attribute {
    use sm::Attribute;

    pub const PORT_INFO: Attribute = Attribute(0x0015);
    pub const P_KEY_TABLE: Attribute = Attribute(0x0016);
    pub const LINEAR_FORWARDING_TABLE: Attribute = Attribute(0x0019);
    pub const MULTICAST_FORWARDING_TABLE: Attribute = Attribute(0x001b);
    pub const SM_INFO: Attribute = Attribute(0x0020);
}

const LID_ROUTED: u8 = 0x01;
const DIRECTED_ROUTE: u8 = 0x81;
/// The direction bit of a directed-route SMP, where others have their status.
const RETURNING: u16 = 0x8000;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    hop_pointer: u8,
    hop_count: u8,
    transaction: U64,
    attribute: U16,
    reserved1: U16,
    modifier: U32,
    m_key: U64,
    dr_slid: U16,
    dr_dlid: U16,
    reserved2: [u8; 28],
    data: [u8; SMP_DATA],
    initial_path: [u8; 64],
    return_path: [u8; 64],
}

const _: () = assert!(size_of::<Wire>() == MAD_LEN);

/// A Get of `attribute`, as a packet.
pub(crate) fn get(route: Route, attribute: Attribute, modifier: u32, transaction: u64) -> Packet {
    let hops = u8::from(route == Route::Switch);
    let mut wire = Wire {
        base_version: 1,
        class: DIRECTED_ROUTE,
        class_version: 1,
        method: Method::GET.0,
        status: 0.into(),
        hop_pointer: 0,
        hop_count: hops,
        transaction: transaction.into(),
        attribute: attribute.0.into(),
        reserved1: 0.into(),
        modifier: modifier.into(),
        m_key: 0.into(),
        dr_slid: Lid::PERMISSIVE.0.into(),
        dr_dlid: Lid::PERMISSIVE.0.into(),
        reserved2: [0; 28],
        data: [0; SMP_DATA],
        initial_path: [0; 64],
        return_path: [0; 64],
    };
    // Every adapter has one port.
    wire.initial_path[1] = hops;
    let qp = Qpn::truncating(0);
    if let Route::Lid(lid) = route {
        wire.class = LID_ROUTED;
        (wire.dr_slid, wire.dr_dlid) = (0.into(), 0.into());
        return Packet::to(lid, qp, Mad(transmute!(wire)));
    }
    Packet { slid: Lid::PERMISSIVE, ..Packet::to(Lid::PERMISSIVE, qp, Mad(transmute!(wire))) }
}

/// Whether a MAD is of the subnet management class.
pub(crate) fn is_smp(mad: &Mad) -> bool {
    matches!(mad.0[1], LID_ROUTED | DIRECTED_ROUTE)
}

/// The attribute in an answer.
pub(crate) fn answer(mad: &Mad) -> Result<[u8; SMP_DATA], SmpError> {
    let wire: Wire = transmute!(mad.0);
    match wire.status.get() & !RETURNING {
        0 => Ok(wire.data),
        status => Err(SmpError::Refused(Status(status))),
    }
}

/// The answer that a port marked as a subnet manager's owes another manager: it is not active. OpenSM's sweep does not end
/// before it has one. `None` if `packet` asks for something else.
pub(crate) fn answer_sm_info(packet: &Packet, own: Guid) -> Option<Packet> {
    let mut wire: Wire = transmute!(packet.mad.0);
    let asked = Method(wire.method) == Method::GET && Attribute(wire.attribute.get()) == attribute::SM_INFO;
    if !is_smp(&packet.mad) || !asked {
        return None;
    }
    wire.method = Method::GET_RESP.0;
    if wire.class == DIRECTED_ROUTE {
        wire.status = RETURNING.into();
        // ibsim takes the return path from the start and wants to see that.
        wire.hop_pointer = 0;
    }
    wire.data = [0; SMP_DATA];
    let info = SmInfo { guid: own, ..SmInfo::default() }.emit();
    for (to, from) in wire.data.iter_mut().zip(info) {
        *to = from;
    }
    Some(Packet { dlid: packet.slid, slid: packet.dlid, len: MAD_LEN, mad: Mad(transmute!(wire)), ..*packet })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directed_route_request_stands_as_ibsim_reads_it() {
        let Packet { dlid, slid, mad: Mad(bytes), .. } = get(Route::Switch, attribute::PORT_INFO, 3, 0x1122);
        assert_eq!((dlid, slid), (Lid::PERMISSIVE, Lid::PERMISSIVE));
        assert_eq!(bytes[..8], [1, 0x81, 1, 1, 0, 0, 0, 1]);
        assert_eq!(bytes[8..24], [0, 0, 0, 0, 0, 0, 0x11, 0x22, 0, 0x15, 0, 0, 0, 0, 0, 3]);
        assert_eq!(bytes[32..36], [0xff; 4]);
        assert_eq!(bytes[128..130], [0, 1]);
    }

    #[test]
    fn another_manager_is_told_that_this_port_has_none_that_is_active() {
        let request = Packet { slid: Lid(1), ..get(Route::Lid(Lid(7)), attribute::SM_INFO, 0, 9) };
        let Packet { dlid, mad, .. } = answer_sm_info(&request, Guid(0xa)).expect("an answer");
        assert_eq!(dlid, Lid(1));
        assert_eq!(mad.0[3], 0x81);
        let info = SmInfo::parse(&answer(&mad).unwrap()).unwrap();
        assert_eq!((info.guid, info.sm_key, info.state), (Guid(0xa), 0, 0));
        let other = get(Route::Own, attribute::PORT_INFO, 0, 9);
        assert_eq!(answer_sm_info(&other, Guid(0xa)), None);
    }
}
