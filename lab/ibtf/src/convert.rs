//! Between C structures and the fabric's types.

use fabric::{AddressVector, Gid, GlobalRoute, Lid, PortNum, Rate, Sl};
use illumos_sys_hdrs::{B_FALSE, B_TRUE, boolean_t, ib_gid_t, ibt_adds_vect_t};

/// A GID of the interface; both halves are host order.
pub(crate) fn gid_to_c(gid: Gid) -> ib_gid_t {
    let mut out = ib_gid_t::default();
    out.gid.ucast_gid.ugid_prefix = gid.prefix;
    out.gid.ucast_gid.ugid_guid = gid.guid;
    out
}

/// From a GID of the interface.
pub(crate) fn gid_from_c(gid: ib_gid_t) -> Gid {
    // SAFETY: both members of the union are two 64-bit integers, for which every pattern is a value.
    let halves = unsafe { gid.gid.ucast_gid };
    Gid { prefix: halves.ugid_prefix, guid: halves.ugid_guid }
}

/// An address vector as the interface has it; its source GID is looked up elsewhere.
pub(crate) fn vector_to_c(vector: &AddressVector, sgid: Gid) -> ibt_adds_vect_t {
    let mut av = ibt_adds_vect_t {
        av_sgid: gid_to_c(sgid),
        av_srate: illumos_sys_hdrs::ibt_srate_e(u32::from(vector.rate.code())),
        av_port_num: vector.port.0,
        av_opaque1: boolean(vector.grh.is_some()),
        av_opaque2: vector.dlid.0,
        av_opaque3: vector.src_path,
        ..Default::default()
    };
    av.set_av_srvl(vector.sl.get());
    if let Some(grh) = vector.grh {
        av.av_dgid = gid_to_c(grh.dgid);
        av.av_opaque4 = u32::from(grh.sgid_ix);
        av.set_av_flow(grh.flow_label);
        av.av_tclass = grh.tclass;
        av.av_hop = grh.hop_limit;
    }
    av
}

pub(crate) fn boolean(value: bool) -> boolean_t {
    if value { B_TRUE } else { B_FALSE }
}

/// The address vector a client gave; `None` if its static rate is no code.
pub(crate) fn vector_from_c(av: &ibt_adds_vect_t) -> Option<AddressVector> {
    let rate = Rate::new(u8::try_from(av.av_srate.0).ok()?)?;
    let grh = (av.av_opaque1 != B_FALSE).then(|| GlobalRoute {
        dgid: gid_from_c(av.av_dgid),
        sgid_ix: u16::try_from(av.av_opaque4).unwrap_or(u16::MAX),
        flow_label: av.av_flow(),
        tclass: av.av_tclass,
        hop_limit: av.av_hop,
    });
    Some(AddressVector {
        port: PortNum(av.av_port_num),
        dlid: Lid(av.av_opaque2),
        sl: Sl::truncating(av.av_srvl()),
        src_path: av.av_opaque3,
        rate,
        grh,
    })
}
