//! An adapter as `ibtl` calls it.

use core::sync::atomic::Ordering;

use ibtf_provider::{
    AddressVector, Arm, ClientCq, ClientSrq, Completion, CqSizes, Gid, Keys, PortReport, Provider, Purpose,
    QpChange, QpQuery, QpRequest, QueueSizes, ReceiveRequest, Region, SendRequest, SrqSizes, Status,
};
use kernel::{ArcRoom, KArc};

use super::{Node, index};
use crate::alarm::Alarms;
use crate::attributes::{
    MAX_AHS, MAX_CQ, MAX_CQS, MAX_MODERATION, MAX_PDS, MAX_QUEUE, MAX_SEGMENTS, MAX_SRQS,
};
use crate::buffers::SHARED_SEGMENTS;
use crate::calls::{Call, Caller};
use crate::cq::Cq;
use crate::domain::{AddressHandle, Inside, Mr, Pd};
use crate::qp::{Parts, Qp};
use crate::send::{self, FIRST_MLID};
use crate::srq::Srq;
use crate::states::Kind;

impl Provider for Node {
    type Pd = Pd;
    type AddressHandle = AddressHandle;
    type Cq = Cq;
    type Qp = Qp;
    type Srq = Srq;
    type Mr = Mr;

    fn query_port(&self, port: u8, report: &mut PortReport<'_>) {
        self.with_port(port, |state| {
            state.unread = false;
            state.report(port, report);
        });
    }

    fn alloc_pd(&self) -> Result<KArc<Pd>, Status> {
        let number = self.next_pd.fetch_add(1, Ordering::Relaxed);
        self.make(|census| &mut census.pds, MAX_PDS, || Ok(KArc::new(Pd::new(number))?))
    }

    fn free_pd(&self, pd: &KArc<Pd>) -> Result<(), Status> {
        pd.check_unused()?;
        self.freed(|census| &mut census.pds);
        Ok(())
    }

    fn alloc_ah(&self, pd: &KArc<Pd>, vector: AddressVector) -> Result<KArc<AddressHandle>, Status> {
        let make = || {
            let room = ArcRoom::new()?;
            Ok(room.fill(AddressHandle::new(vector, pd)?))
        };
        self.make(|census| &mut census.address_handles, MAX_AHS, make)
    }

    fn free_ah(&self, handle: &KArc<AddressHandle>) -> Result<(), Status> {
        handle.domain.leave();
        self.freed(|census| &mut census.address_handles);
        Ok(())
    }

    fn query_ah(&self, handle: &AddressHandle) -> AddressVector {
        handle.vector()
    }

    fn domain_of<'a>(&self, handle: &'a AddressHandle) -> &'a KArc<Pd> {
        handle.domain.pd()
    }

    fn modify_ah(&self, handle: &AddressHandle, vector: AddressVector) -> Result<(), Status> {
        handle.set(vector);
        Ok(())
    }

    fn alloc_cq(&self, entries: u32, client: KArc<ClientCq>) -> Result<(KArc<Cq>, u32), Status> {
        if entries > MAX_CQ {
            return Err(Status::HCA_CQ_EXCEEDED);
        }
        let entries = entries.max(1).next_power_of_two();
        let make = || {
            let caller = Caller::new(&self.calls)?;
            Ok((KArc::new(Cq::new(entries as usize, client, caller)?)?, entries))
        };
        self.make(|census| &mut census.cqs, MAX_CQS, make)
    }

    fn free_cq(&self, cq: &KArc<Cq>) -> Result<(), Status> {
        cq.check_unused()?;
        self.freed(|census| &mut census.cqs);
        Ok(())
    }

    fn query_cq(&self, cq: &Cq) -> CqSizes {
        let (count, micros) = cq.moderation();
        CqSizes { entries: cq.capacity() as u32, count, micros }
    }

    fn modify_cq(&self, cq: &Cq, count: u32, micros: u32) -> Result<(), Status> {
        if count > MAX_MODERATION || micros > MAX_MODERATION {
            return Err(Status::INVALID_PARAM);
        }
        cq.moderate(count, micros);
        Ok(())
    }

    fn poll_cq(&self, cq: &Cq, place: &mut dyn FnMut(&Completion) -> bool) -> bool {
        cq.poll(place)
    }

    fn arm_cq(&self, cq: &KArc<Cq>, arm: Arm) -> Result<(), Status> {
        Cq::arm(cq, arm);
        Ok(())
    }

    fn alloc_qp(this: &KArc<Self>, request: QpRequest<'_, Self>) -> Result<KArc<Qp>, Status> {
        let special = match request.purpose {
            Purpose::Datagram | Purpose::Connection => None,
            Purpose::GeneralServices(port) if this.port(port).is_some() => Some(port),
            Purpose::GeneralServices(_) => return Err(Status::HCA_PORT_INVALID),
            // Subnet management is this module's own.
            Purpose::SubnetManagement(_) => return Err(Status::CHAN_IN_USE),
        };
        if request.srq.is_some_and(|srq| !KArc::ptr_eq(srq.domain().pd(), request.pd)) {
            return Err(Status::PD_HDL_INVALID);
        }
        let sizes = sizes(request.sizes, request.srq.is_some())?;
        let is_connection = request.purpose == Purpose::Connection;
        let caller = Caller::new(&this.calls)?;
        let seat = is_connection.then(|| Alarms::seat(&this.alarms)).transpose()?;
        // On its own, for the lock's sake.
        let kind = if is_connection { Kind::Connection } else { Kind::Datagrams };
        let number = this.objects.lock().qps.reserve(kind)?;
        let made = Qp::new(Parts {
            node: this.clone(),
            number,
            special,
            domain: Inside::new(request.pd),
            srq: request.srq.cloned(),
            _caller: caller,
            seat,
            sizes,
            all_signaled: request.all_signaled,
            large_sends: request.large_sends,
            reserved_key: request.reserved_key,
            send_cq: request.send_cq.clone(),
            receive_cq: request.receive_cq.clone(),
            client: request.client,
        });
        let made = made.and_then(KArc::new).map_err(Status::from);
        let made = made.and_then(|qp| Qp::enter_queues(&qp).map(|()| qp));
        let mut objects = this.objects.lock();
        let qp = match made {
            Ok(qp) => qp,
            Err(status) => {
                objects.qps.release(number);
                drop(objects);
                return Err(status);
            }
        };
        if let Some(place) = special.and_then(index).and_then(|port| objects.general.get_mut(port)) {
            if place.is_some() {
                objects.qps.release(number);
                drop(objects);
                qp.leave_queues();
                return Err(Status::CHAN_IN_USE);
            }
            *place = Some(qp.clone());
        }
        objects.qps.put(number, qp.clone());
        Ok(qp)
    }

    fn free_qp(&self, qp: &KArc<Qp>, keep_number: bool) {
        let mut objects = self.objects.lock();
        let taken = objects.qps.take(qp.parts().number, keep_number);
        let port = qp.parts().special.and_then(index);
        let general = port.and_then(|port| objects.general.get_mut(port)).and_then(Option::take);
        drop(objects);
        drop((taken, general));
        self.subnet.detach_all(qp);
        qp.free();
    }

    fn release_qpn(&self, qp: &Qp) {
        self.objects.lock().qps.release(qp.parts().number);
    }

    fn query_qp(&self, qp: &Qp) -> QpQuery {
        qp.query()
    }

    fn modify_qp(&self, qp: &KArc<Qp>, change: &QpChange) -> Result<QueueSizes, Status> {
        let sizes = Qp::modify(qp, change, |ud| self.check(ud))?;
        if change.port.is_some() {
            self.subnet.has_moved(qp);
        }
        Ok(sizes)
    }

    fn alloc_srq(
        &self,
        pd: &KArc<Pd>,
        sizes: SrqSizes,
        client: KArc<ClientSrq>,
    ) -> Result<(KArc<Srq>, SrqSizes), Status> {
        if sizes.receives > MAX_QUEUE {
            return Err(Status::HCA_WR_EXCEEDED);
        }
        if sizes.segments as usize > SHARED_SEGMENTS {
            return Err(Status::HCA_SGL_EXCEEDED);
        }
        let real = SrqSizes { receives: sizes.receives.max(1), segments: sizes.segments.max(1) };
        let make = || {
            let caller = Caller::new(&self.calls)?;
            Ok((Srq::new(Inside::new(pd), real, client, caller)?, real))
        };
        self.make(|census| &mut census.srqs, MAX_SRQS, make)
    }

    fn free_srq(&self, srq: &KArc<Srq>) -> Result<(), Status> {
        srq.check_unused()?;
        srq.domain().leave();
        self.freed(|census| &mut census.srqs);
        Ok(())
    }

    fn query_srq(&self, srq: &Srq) -> (SrqSizes, u32) {
        srq.query()
    }

    fn limit_srq(&self, srq: &KArc<Srq>, limit: u32) -> Result<(), Status> {
        if srq.arm(limit)? {
            self.call(Call::Limit(srq.clone()));
        }
        Ok(())
    }

    fn attach_group(&self, qp: &KArc<Qp>, group: Gid, lid: u16) -> Result<(), Status> {
        if !group.is_multicast() {
            return Err(Status::MC_MGID_INVALID);
        }
        // The last one is no group's: it means everybody who listens.
        if !(FIRST_MLID..u16::MAX).contains(&lid) {
            return Err(Status::MC_MLID_INVALID);
        }
        if qp.is_connection() {
            return Err(Status::CHAN_SRV_TYPE_INVALID);
        }
        self.subnet.attach(qp, group)
    }

    fn detach_group(&self, qp: &KArc<Qp>, group: Gid, _lid: u16) -> Result<(), Status> {
        self.subnet.detach(qp, group)
    }

    fn register(&self, pd: &KArc<Pd>, region: KArc<Region>) -> Result<(KArc<Mr>, Keys), Status> {
        let room = ArcRoom::new()?;
        let key = self.keys.lock().insert(region, pd.number())?;
        Ok((room.fill(Mr { key, domain: Inside::new(pd) }), Keys { local: key, remote: key }))
    }

    fn deregister(&self, mr: &KArc<Mr>) -> Result<(), Status> {
        self.keys.lock().remove(mr.key)?;
        mr.domain.leave();
        Ok(())
    }

    fn post_sends<'a>(
        &self,
        qp: &KArc<Qp>,
        requests: &mut dyn Iterator<Item = SendRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        if qp.is_connection() {
            return Qp::post_messages(qp, requests);
        }
        send::post(self, qp, requests)
    }

    fn post_receives<'a>(
        &self,
        qp: &Qp,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        qp.post_receives(requests)
    }

    fn post_shared<'a>(
        &self,
        srq: &Srq,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        srq.post(requests)
    }
}

/// The queues that a request gets: at least one entry, at most what the adapter has. No receives of its own if they are shared.
fn sizes(wanted: QueueSizes, shared: bool) -> Result<QueueSizes, Status> {
    let (receive, receive_segments) =
        if shared { (0, 0) } else { (wanted.receive.max(1), wanted.receive_segments.max(1)) };
    let wanted = QueueSizes { receive, receive_segments, ..wanted };
    if wanted.send > MAX_QUEUE || wanted.receive > MAX_QUEUE {
        return Err(Status::HCA_WR_EXCEEDED);
    }
    if wanted.send_segments > MAX_SEGMENTS || wanted.receive_segments > MAX_SEGMENTS {
        return Err(Status::HCA_SGL_EXCEEDED);
    }
    Ok(QueueSizes { send: wanted.send.max(1), send_segments: wanted.send_segments.max(1), ..wanted })
}
