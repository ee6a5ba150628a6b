//! MADs of a port: sent, received, and their places in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::{Lid, ManagementPeer, PKey, PortState, Sl};
use illumos_sys_hdrs::{
    IBT_NEXT_COMPLETION, IBT_UD_SRV, IBT_WRC_SEND, ibt_adds_vect_t, ibt_recv_wr_t, ibt_send_wr_t,
    ibt_ud_dest_t, ibt_wc_t, ibt_wr_ds_t,
};
use sm::{Arrival, Mad, Qpn, SmAddress};

use super::port::{Made, Port};
use super::{MAD, PLACE, QKEY, RECEIVES};
use crate::adapter::driver::Cq;

impl Port {
    /// The number of a receive is its place; of a send, too.
    pub(super) fn post_receive(&self, made: &Made, place: usize) {
        let qp = if place < RECEIVES { &made.gsi } else { &made.qp };
        let mut piece =
            ibt_wr_ds_t { ds_va: made.memory.at(place), ds_key: made.mr.lkey, ds_len: PLACE as u32 };
        let request = ibt_recv_wr_t { wr_id: place as u64, wr_nds: 1, wr_sgl: &raw mut piece };
        if made.closing.load(Ordering::Acquire) {
            return;
        }
        made.posting();
        // SAFETY: the list is above.
        let (_, posted) = unsafe { self.driver.post_recv(qp, vec![request]) };
        if posted.is_err() {
            made.is_back();
        }
    }

    /// Any context. A MAD for which there is no place is lost.
    pub(super) fn send(&self, made: &Made, to: SmAddress, mad: &Mad) {
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.number));
        if attr.is_none_or(|attr| attr.state != PortState::Active) {
            return;
        }
        if made.closing.load(Ordering::Acquire) {
            return;
        }
        let Some((place, handle)) = made.free.lock().pop() else { return };
        let mut vector = ibt_adds_vect_t { av_port_num: self.number, ..Default::default() };
        vector.set_av_dlid(to.lid.0);
        vector.set_av_srvl(to.sl.get());
        // ibmf leaves garbage there, and no GRH is sent.
        vector.set_av_sgid_ix(0xa5a5_a5a5);
        made.memory.write(place, &mad.0);
        let mut piece =
            ibt_wr_ds_t { ds_va: made.memory.at(place), ds_key: made.mr.lkey, ds_len: MAD as u32 };
        let request = ibt_send_wr_t {
            wr_id: place as u64,
            wr_trans: IBT_UD_SRV,
            wr_opcode: IBT_WRC_SEND,
            wr_nds: 1,
            wr_sgl: &raw mut piece,
            ..Default::default()
        };
        let dest = ibt_ud_dest_t {
            ud_ah: handle.get().cast(),
            ud_dst_qpn: to.qpn.get(),
            ud_qkey: QKEY.0,
            ..Default::default()
        };
        // Once for the request, which may be back before the post is over, and once for the post.
        made.posting();
        made.posting();
        let posted = self.driver.modify_ah(handle, vector).and_then(|()| {
            // SAFETY: the list is above.
            unsafe { self.driver.post_send(&made.qp, vec![request], vec![dest]) }.1
        });
        if posted.is_err() {
            made.free.lock().push((place, handle));
            made.is_back();
        }
        made.is_back();
    }

    /// The handler of a CQ: all there is, then it is armed and looked into once more.
    pub(super) fn completed(self: &Arc<Self>, which: usize) {
        let Some(made) = self.made() else { return };
        let Some(cq) = made.cqs.get(which) else { return };
        self.take(&made, cq);
        let _ = self.driver.notify_cq(cq, IBT_NEXT_COMPLETION);
        self.take(&made, cq);
    }

    fn take(&self, made: &Made, cq: &Cq) {
        const MOST: usize = 8;
        loop {
            let mut room = [ibt_wc_t::default(); MOST];
            // SAFETY: there is room for so many.
            let (count, _) = unsafe { self.driver.poll_cq(cq, room.as_mut_ptr(), MOST as u32) };
            room.iter().take(count as usize).for_each(|wc| self.one(made, wc));
            if (count as usize) < MOST {
                return;
            }
        }
    }

    fn one(&self, made: &Made, wc: &ibt_wc_t) {
        let place = wc.wc_id as usize;
        if let Some(send) = place.checked_sub(2 * RECEIVES) {
            made.free.lock().push((place, made.handles[send]));
        } else if wc.wc_status == 0 {
            let mad = (wc.wc_bytes_xfer as usize == PLACE).then(|| Mad(made.memory.read(place)));
            self.post_receive(made, place);
            if let Some(mad) = mad {
                self.arrived(wc, mad);
            }
        }
        made.is_back();
    }

    fn arrived(&self, wc: &ibt_wc_t, mad: Mad) {
        let from = SmAddress {
            lid: Lid(wc.wc_opaque1),
            sl: Sl::truncating(wc.wc_sl()),
            qpn: Qpn::truncating(wc.wc_qpn),
            p_key: PKey(0xffff),
        };
        let (Some(wire), Some(device)) = (self.wire.upgrade(), self.device.upgrade()) else { return };
        let peer = ManagementPeer { lid: from.lid, qpn: from.qpn, sl: from.sl, pkey: from.p_key };
        // Whoever listens to the port hears it, too.
        let _ = crate::ibtl::management(&self.driver.kernel, &device, self.number, peer, &mad.0);
        let inbounds = wire.inbounds.lock().of(self.guid);
        for inbound in inbounds {
            inbound.receive(&Arrival { from, mad, cut: false });
        }
    }
}
