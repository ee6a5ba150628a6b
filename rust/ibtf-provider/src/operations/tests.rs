//! The operations, called as `ibtl` calls them, on an adapter that does next to nothing.

use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use illumos_sys_hdrs as sys;
use kernel::KArc;

use super::Table;
use crate::objects::Adapter;
use crate::{
    AddressVector, Arm, Attributes, ClientCq, ClientSrq, Completion, CompletionStatus, CqSizes, Gid, Keys,
    LinkState, Opcode, PortReport, Provider, QpChange, QpQuery, QpRequest, QpState, QueueSizes,
    ReceiveRequest, Region, SendRequest, Speed, SrqSizes, Status, UdAttributes,
};

/// What of the kernel the operations call; none of it comes to be called here.
mod kernel_calls {
    use core::ffi::{c_long, c_void};

    macro_rules! never {
        ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
            $(
                // SAFETY: nothing else in this program has the name.
                #[unsafe(no_mangle)]
                extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                    panic!(stringify!($name));
                }
            )*
        };
    }

    never! {
        ibc_cq_handler(*mut c_void, *mut c_void);
        ibc_async_handler(*mut c_void, u32, *mut c_void);
        delay(c_long);
        drv_usectohz(c_long) -> c_long;
        bcopy(*const c_void, *mut c_void, usize);
    }
}

/// Counts what it is asked for.
#[derive(Default)]
struct Fake {
    freed: AtomicU32,
    released: AtomicU32,
    /// A CQ in use is not freed.
    busy: AtomicU32,
}

impl Provider for Fake {
    type Pd = u8;
    type AddressHandle = (AddressVector, KArc<u8>);
    type Cq = u16;
    type Qp = QueueSizes;
    type Srq = SrqSizes;
    type Mr = u8;

    fn query_port(&self, port: u8, report: &mut PortReport<'_>) {
        report.set_link(port, LinkState::Active, 7, Speed(4));
        report.set_pkeys(&[0xffff]);
        report.set_gid(Gid { prefix: 1, guid: port.into() });
    }
    fn alloc_pd(&self) -> Result<KArc<u8>, Status> {
        Ok(KArc::new(0)?)
    }
    fn free_pd(&self, _: &KArc<u8>) -> Result<(), Status> {
        self.freed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn alloc_ah(&self, pd: &KArc<u8>, vector: AddressVector) -> Result<KArc<Self::AddressHandle>, Status> {
        Ok(KArc::new((vector, pd.clone()))?)
    }
    fn free_ah(&self, _: &KArc<Self::AddressHandle>) -> Result<(), Status> {
        self.freed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn query_ah(&self, handle: &Self::AddressHandle) -> AddressVector {
        handle.0
    }
    fn domain_of<'a>(&self, handle: &'a Self::AddressHandle) -> &'a KArc<u8> {
        &handle.1
    }
    fn modify_ah(&self, _: &Self::AddressHandle, _: AddressVector) -> Result<(), Status> {
        Ok(())
    }
    fn alloc_cq(&self, entries: u32, _: KArc<ClientCq>) -> Result<(KArc<u16>, u32), Status> {
        Ok((KArc::new(0)?, entries + 1))
    }
    fn free_cq(&self, _: &KArc<u16>) -> Result<(), Status> {
        if self.busy.load(Ordering::Relaxed) != 0 { Err(Status::CQ_BUSY) } else { Ok(()) }
    }
    fn query_cq(&self, _: &u16) -> CqSizes {
        CqSizes { entries: 8, count: 1, micros: 2 }
    }
    fn modify_cq(&self, _: &u16, _: u32, _: u32) -> Result<(), Status> {
        Ok(())
    }
    fn poll_cq(&self, _: &u16, place: &mut dyn FnMut(&Completion) -> bool) -> bool {
        let one = Completion::of(5, Opcode::Send, CompletionStatus::Flushed, 9);
        place(&one) && !place(&one)
    }
    fn arm_cq(&self, _: &KArc<u16>, _: Arm) -> Result<(), Status> {
        Ok(())
    }
    fn alloc_qp(_: &KArc<Self>, request: QpRequest<'_, Self>) -> Result<KArc<QueueSizes>, Status> {
        let shared = request.srq.map_or(0, |srq| srq.receives);
        Ok(KArc::new(QueueSizes { receive: shared, ..request.sizes })?)
    }
    fn free_qp(&self, _: &KArc<QueueSizes>, keep_number: bool) {
        self.freed.fetch_add(if keep_number { 100 } else { 1 }, Ordering::Relaxed);
    }
    fn release_qpn(&self, _: &QueueSizes) {
        self.released.store(0x1234, Ordering::Relaxed);
    }
    fn query_qp(&self, qp: &QueueSizes) -> QpQuery {
        let ud = UdAttributes { port: 1, pkey_index: 0, qkey: 0xb1b };
        QpQuery { qpn: 0x1234, state: QpState::Error, sizes: *qp, ud, connection: None }
    }
    fn modify_qp(&self, qp: &KArc<QueueSizes>, _: &QpChange) -> Result<QueueSizes, Status> {
        Ok(**qp)
    }
    fn alloc_srq(
        &self,
        _: &KArc<u8>,
        sizes: SrqSizes,
        _: KArc<ClientSrq>,
    ) -> Result<(KArc<SrqSizes>, SrqSizes), Status> {
        let real = SrqSizes { receives: sizes.receives + 1, ..sizes };
        Ok((KArc::new(real)?, real))
    }
    fn free_srq(&self, _: &KArc<SrqSizes>) -> Result<(), Status> {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return Err(Status::SRQ_IN_USE);
        }
        self.freed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn query_srq(&self, srq: &SrqSizes) -> (SrqSizes, u32) {
        (*srq, self.released.load(Ordering::Relaxed))
    }
    fn limit_srq(&self, _: &KArc<SrqSizes>, limit: u32) -> Result<(), Status> {
        self.released.store(limit, Ordering::Relaxed);
        Ok(())
    }
    fn attach_group(&self, _: &KArc<QueueSizes>, group: Gid, _: u16) -> Result<(), Status> {
        if group.is_multicast() { Ok(()) } else { Err(Status::MC_MGID_INVALID) }
    }
    fn detach_group(&self, _: &KArc<QueueSizes>, _: Gid, _: u16) -> Result<(), Status> {
        Ok(())
    }
    fn register(&self, _: &KArc<u8>, region: KArc<Region>) -> Result<(KArc<u8>, Keys), Status> {
        drop(region);
        Ok((KArc::new(0)?, Keys { local: 3, remote: 4 }))
    }
    fn deregister(&self, _: &KArc<u8>) -> Result<(), Status> {
        if self.busy.load(Ordering::Relaxed) != 0 { Err(Status::MR_HDL_INVALID) } else { Ok(()) }
    }
    fn post_sends<'a>(
        &self,
        _: &KArc<QueueSizes>,
        requests: &mut dyn Iterator<Item = SendRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        (requests.count() as u32, Ok(()))
    }
    fn post_receives<'a>(
        &self,
        _: &QueueSizes,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        (requests.take(1).count() as u32, Err(Status::CHAN_FULL))
    }
    fn post_shared<'a>(
        &self,
        _: &SrqSizes,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        (requests.take(2).count() as u32, Err(Status::CHAN_FULL))
    }
}

const OPERATIONS: &sys::ibc_operations_t = Table::<Fake>::OPERATIONS;

/// Calls an operation.
macro_rules! call {
    ($operation:ident($($argument:expr),* $(,)?)) => {{
        let operation = OPERATIONS.$operation.expect("every operation is there");
        // SAFETY: the handles are of the adapter of the test and not freed, and the records are on its stack.
        unsafe { operation($($argument),*) }
    }};
}

fn adapter() -> Adapter<Fake> {
    let attributes = Attributes {
        node_guid: 1,
        vendor_id: 2,
        device_id: 3,
        ports: 2,
        pkeys: 2,
        gids: 1,
        max_qps: 4,
        max_queue: 4,
        max_send_segments: 4,
        max_receive_segments: 4,
        max_cqs: 4,
        max_cq: 4,
        max_moderation: 0,
        max_regions: 4,
        max_address_handles: 4,
        max_pds: 4,
        max_srqs: 4,
        max_srq: 4,
        max_srq_segments: 4,
        max_groups: 4,
        max_qps_of_group: 4,
        checksums: false,
        large_send: 0,
        large_send_header: 0,
        reserved_key: None,
    };
    let provider = KArc::new(Fake::default()).unwrap();
    Adapter { provider, attributes, client: AtomicPtr::new(without_provenance_mut(8)) }
}

fn handle(adapter: &Adapter<Fake>) -> sys::ibc_hca_hdl_t {
    core::ptr::from_ref(adapter).cast_mut().cast()
}

fn freed(adapter: &Adapter<Fake>) -> u32 {
    adapter.provider.freed.load(Ordering::Relaxed)
}

#[test]
fn no_operation_is_missing() {
    // SAFETY: the record is nothing but function pointers that may be NULL.
    let slots = unsafe { core::mem::transmute_copy::<sys::ibc_operations_t, [Option<fn()>; 83]>(OPERATIONS) };
    assert_eq!(slots.iter().position(Option::is_none), None);
    assert_eq!(size_of_val(&slots), size_of::<sys::ibc_operations_t>());
}

#[test]
fn what_is_not_offered_is_not_supported() {
    let adapter = adapter();
    let hca = handle(&adapter);
    assert_eq!(call!(ibc_alloc_rdd(hca, sys::IBT_RDD_NO_FLAGS, null_mut())), sys::IBT_NOT_SUPPORTED);
    assert_eq!(call!(ibc_resize_cq(hca, null_mut(), 1, null_mut())), sys::IBT_NOT_SUPPORTED);
    assert_eq!(call!(ibc_map_mem_iov(hca, null_mut(), null_mut(), null_mut())), sys::IBT_NOT_SUPPORTED);
    let eec = sys::IBT_EEC_NO_FLAGS;
    assert_eq!(call!(ibc_alloc_eec(hca, eec, null_mut(), null_mut(), null_mut())), sys::IBT_NOT_SUPPORTED);
    assert_eq!(call!(ibc_alloc_xrc_domain()), sys::IBT_NOT_SUPPORTED);
    assert_eq!(call!(ibc_enhancement4()), sys::IBT_NOT_SUPPORTED);
    assert_eq!(call!(ibc_sync_mr(hca, null_mut(), 0)), sys::IBT_SUCCESS);
}

#[test]
fn one_port_or_all_are_queried_and_one_too_many_is_refused() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let (mut pkeys, mut gids) = ([[0u16; 2]; 2], [[sys::ib_gid_t::default()]; 2]);
    let mut info = [sys::ibt_hca_portinfo_t::default(); 2];
    for index in 0..2 {
        info[index].p_pkey_tbl = pkeys[index].as_mut_ptr();
        info[index].p_sgid_tbl = gids[index].as_mut_ptr();
    }
    assert_eq!(call!(ibc_query_hca_ports(hca, 0, info.as_mut_ptr())), sys::IBT_SUCCESS);
    assert_eq!(
        info.map(|port| (port.p_port_num, port.p_pkey_tbl_sz, port.p_sgid_tbl_sz)),
        [(1, 2, 1), (2, 2, 1)]
    );
    info[0].p_pkey_tbl_sz = 0;
    assert_eq!(call!(ibc_query_hca_ports(hca, 2, info.as_mut_ptr())), sys::IBT_SUCCESS);
    assert_eq!((info[0].p_port_num, info[0].p_pkey_tbl_sz), (2, 2));
    assert_eq!(call!(ibc_query_hca_ports(hca, 3, info.as_mut_ptr())), sys::IBT_HCA_PORT_INVALID);
    let nothing = sys::ibt_port_modify_flags_e(0);
    assert_eq!(call!(ibc_modify_ports(hca, 2, nothing, 0)), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_modify_ports(hca, 0, nothing, 0)), sys::IBT_HCA_PORT_INVALID);
    for flags in [sys::IBT_PORT_SHUTDOWN, sys::IBT_PORT_SET_INIT_TYPE] {
        assert_eq!(call!(ibc_modify_ports(hca, 1, flags, 0)), sys::IBT_NOT_SUPPORTED);
    }
}

/// A protection domain, a CQ and a queue pair, made without a result that nobody needs.
struct Objects {
    pd: sys::ibc_pd_hdl_t,
    cq: sys::ibc_cq_hdl_t,
    qp: sys::ibc_qp_hdl_t,
}

impl Objects {
    fn new(hca: sys::ibc_hca_hdl_t) -> Self {
        let (mut pd, mut cq, mut qp) = (null_mut(), null_mut(), null_mut());
        assert_eq!(call!(ibc_alloc_pd(hca, sys::IBT_PD_NO_FLAGS, &mut pd)), sys::IBT_SUCCESS);
        let mut size = sys::ibt_cq_attr_t { cq_size: 4, ..Default::default() };
        assert_eq!(call!(ibc_alloc_cq(hca, null_mut(), &mut size, &mut cq, null_mut())), sys::IBT_SUCCESS);
        let mut wanted = Self::wanted(pd, cq);
        let made = call!(ibc_alloc_qp(
            hca,
            null_mut(),
            sys::IBT_UD_RQP,
            &mut wanted,
            null_mut(),
            null_mut(),
            &mut qp
        ));
        assert_eq!(made, sys::IBT_SUCCESS);
        Self { pd, cq, qp }
    }

    /// As `ibmf` fills it: what no flag says to be read is garbage.
    fn wanted(pd: sys::ibc_pd_hdl_t, cq: sys::ibc_cq_hdl_t) -> sys::ibt_qp_alloc_attr_t {
        let mut wanted = sys::ibt_qp_alloc_attr_t { qp_pd_hdl: pd, ..Default::default() };
        (wanted.qp_opaque1, wanted.qp_opaque2) = (cq, cq);
        (wanted.qp_scq_hdl, wanted.qp_rcq_hdl) = (without_provenance_mut(0x50), without_provenance_mut(0x60));
        (wanted.qp_opaque3, wanted.qp_rdd_hdl) =
            (without_provenance_mut(0x111), without_provenance_mut(0x112));
        wanted.qp_sizes.cs_sq = 3;
        wanted
    }

    fn free(self, hca: sys::ibc_hca_hdl_t) {
        let all = sys::IBC_FREE_QP_AND_QPN;
        assert_eq!(call!(ibc_free_qp(hca, self.qp, all, null_mut())), sys::IBT_SUCCESS);
        assert_eq!(call!(ibc_free_cq(hca, self.cq)), sys::IBT_SUCCESS);
        assert_eq!(call!(ibc_free_pd(hca, self.pd)), sys::IBT_SUCCESS);
    }
}

#[test]
fn objects_live_from_alloc_to_free_and_results_that_nobody_wants_are_not_written() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut vector = AddressVector { dlid: 9, ..Default::default() }.raw();
    let mut ah = null_mut();
    let none = sys::IBT_UD_DEST_NO_FLAGS;
    assert_eq!(call!(ibc_alloc_ah(hca, none, objects.pd, &mut vector, &mut ah)), sys::IBT_SUCCESS);
    let mut told = sys::ibt_adds_vect_t::default();
    let mut domain = null_mut();
    assert_eq!(call!(ibc_query_ah(hca, ah, &mut domain, &mut told)), sys::IBT_SUCCESS);
    assert_eq!((told.av_dlid(), domain), (9, objects.pd));
    assert_eq!(call!(ibc_modify_ah(hca, ah, &mut vector)), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_free_ah(hca, ah)), sys::IBT_SUCCESS);
    let (mut size, null) = (0, null_mut());
    assert_eq!(call!(ibc_query_cq(hca, objects.cq, &mut size, null, null, null_mut())), sys::IBT_SUCCESS);
    assert_eq!((size, call!(ibc_modify_cq(hca, objects.cq, 1, 1, 0))), (8, sys::IBT_SUCCESS));
    objects.free(hca);
    assert_eq!(freed(&adapter), 3, "the address handle, the queue pair and the protection domain");
}

#[test]
fn a_queue_pair_is_queried_with_the_names_that_ibtl_has_for_its_cqs() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut told = sys::ibt_qp_query_attr_t::default();
    assert_eq!(call!(ibc_query_qp(hca, objects.qp, &mut told)), sys::IBT_SUCCESS);
    assert_eq!((told.qp_sq_cq.addr(), told.qp_rq_cq.addr()), (0x50, 0x60));
    assert_eq!(
        (told.qp_qpn, told.qp_info.qp_state, told.qp_info.qp_sq_sz),
        (0x1234, sys::IBT_STATE_ERROR, 3)
    );
    let mut info = told.qp_info;
    info.qp_state = sys::IBT_STATE_RESET;
    let state = sys::ibt_cep_modify_flags_e(sys::IBT_CEP_SET_STATE);
    assert_eq!(call!(ibc_modify_qp(hca, objects.qp, state, &mut info, null_mut())), sys::IBT_SUCCESS);
    objects.free(hca);
}

#[test]
fn other_kinds_of_queue_pairs_and_what_they_could_ask_for_are_not_supported() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut wanted = Objects::wanted(objects.pd, objects.cq);
    let (mut qp, null) = (null_mut(), null_mut());
    let mut make = |kind, wanted: &mut sys::ibt_qp_alloc_attr_t| {
        call!(ibc_alloc_qp(hca, null_mut(), kind, wanted, null, null_mut(), &mut qp))
    };
    assert_eq!(make(sys::IBT_UC_RQP, &mut wanted), sys::IBT_NOT_SUPPORTED);
    wanted.qp_alloc_flags = sys::IBT_QP_USES_RSS;
    assert_eq!(make(sys::IBT_UD_RQP, &mut wanted), sys::IBT_NOT_SUPPORTED);
    objects.free(hca);
}

/// A shared receive queue of three, which is four.
fn shared(hca: sys::ibc_hca_hdl_t, pd: sys::ibc_pd_hdl_t) -> (sys::ibc_srq_hdl_t, sys::ibt_srq_sizes_t) {
    let mut wanted = sys::ibt_srq_sizes_t { srq_wr_sz: 3, srq_sgl_sz: 2 };
    let (mut srq, mut real) = (null_mut(), sys::ibt_srq_sizes_t::default());
    let (none, client) = (sys::IBT_SRQ_NO_FLAGS, without_provenance_mut(0x80));
    let made = call!(ibc_alloc_srq(hca, none, client, pd, &mut wanted, &mut srq, &mut real));
    assert_eq!((made, srq.is_null()), (sys::IBT_SUCCESS, false));
    (srq, real)
}

#[test]
fn queue_pair_of_a_shared_receive_queue_is_queried_with_the_name_that_ibtl_has_for_it() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let (srq, _) = shared(hca, objects.pd);
    let mut wanted = Objects::wanted(objects.pd, objects.cq);
    wanted.qp_alloc_flags = sys::IBT_QP_USES_SRQ;
    wanted.qp_opaque3 = srq;
    wanted.qp_srq_hdl = without_provenance_mut(0x80);
    let (mut qp, kind) = (null_mut(), sys::IBT_UD_RQP);
    let made = call!(ibc_alloc_qp(hca, null_mut(), kind, &mut wanted, null_mut(), null_mut(), &mut qp));
    assert_eq!(made, sys::IBT_SUCCESS);
    let mut told = sys::ibt_qp_query_attr_t::default();
    assert_eq!(call!(ibc_query_qp(hca, qp, &mut told)), sys::IBT_SUCCESS);
    assert_eq!((told.qp_srq.addr(), told.qp_info.qp_rq_sz), (0x80, 4));
    assert_eq!(call!(ibc_query_qp(hca, objects.qp, &mut told)), sys::IBT_SUCCESS);
    assert!(told.qp_srq.is_null(), "what no flag names is not read");
    assert_eq!(call!(ibc_free_qp(hca, qp, sys::IBC_FREE_QP_AND_QPN, null_mut())), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_free_srq(hca, srq)), sys::IBT_SUCCESS);
    objects.free(hca);
}

#[test]
fn shared_receive_queue_has_a_limit_and_keeps_its_size() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let (srq, real) = shared(hca, objects.pd);
    assert_eq!((real.srq_wr_sz, real.srq_sgl_sz), (4, 2));
    let (mut pd, mut sizes, mut limit) = (null_mut(), sys::ibt_srq_sizes_t::default(), 7);
    let mut kept = 0;
    let modify = |flags, size, limit, kept: &mut u32| {
        call!(ibc_modify_srq(hca, srq, sys::ibt_srq_modify_flags_e(flags), size, limit, kept))
    };
    assert_eq!(modify(sys::IBT_SRQ_SET_LIMIT.0, 0, 2, &mut kept), sys::IBT_SUCCESS);
    assert_eq!(modify(sys::IBT_SRQ_SET_SIZE.0, 9, 3, &mut kept), sys::IBT_HCA_RESIZE_SRQ_NOT_SUPPORTED);
    assert_eq!(call!(ibc_query_srq(hca, srq, &mut pd, &mut sizes, &mut limit)), sys::IBT_SUCCESS);
    assert_eq!((pd, sizes.srq_wr_sz, limit, kept), (objects.pd, 4, 2, 4));
    assert_eq!(call!(ibc_query_srq(hca, srq, null_mut(), null_mut(), null_mut())), sys::IBT_SUCCESS);
    let (mut receives, mut posted) = ([sys::ibt_recv_wr_t::default(); 3], 0);
    let list = receives.as_mut_ptr();
    assert_eq!(call!(ibc_post_srq(hca, srq, list, 3, &mut posted)), sys::IBT_CHAN_FULL);
    assert_eq!((posted, call!(ibc_post_srq(hca, srq, list, 3, null_mut()))), (2, sys::IBT_CHAN_FULL));
    adapter.provider.busy.store(1, Ordering::Relaxed);
    assert_eq!(call!(ibc_free_srq(hca, srq)), sys::IBT_SRQ_IN_USE);
    adapter.provider.busy.store(0, Ordering::Relaxed);
    assert_eq!(call!(ibc_free_srq(hca, srq)), sys::IBT_SUCCESS);
    objects.free(hca);
}

#[test]
fn a_number_is_kept_for_whoever_releases_it_later_and_so_long_the_freed_queue_pair_can_be_named() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut number = null_mut();
    assert_eq!(call!(ibc_free_qp(hca, objects.qp, sys::IBC_FREE_QP_ONLY, &mut number)), sys::IBT_SUCCESS);
    assert_eq!((number.is_null(), freed(&adapter)), (false, 100));
    let mut record = sys::ibt_qp_query_attr_t::default();
    assert_eq!(call!(ibc_query_qp(hca, objects.qp, &mut record)), sys::IBT_SUCCESS);
    assert_eq!(record.qp_qpn, 0x1234);
    assert_eq!(adapter.provider.released.load(Ordering::Relaxed), 0);
    assert_eq!(call!(ibc_release_qpn(hca, number)), sys::IBT_SUCCESS);
    assert_eq!(adapter.provider.released.load(Ordering::Relaxed), 0x1234);
    assert_eq!(call!(ibc_free_cq(hca, objects.cq)), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_free_pd(hca, objects.pd)), sys::IBT_SUCCESS);
}

#[test]
fn a_cq_in_use_stays_what_it_is() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    adapter.provider.busy.store(1, Ordering::Relaxed);
    assert_eq!(call!(ibc_free_cq(hca, objects.cq)), sys::IBT_CQ_BUSY);
    adapter.provider.busy.store(0, Ordering::Relaxed);
    let mut completions = [sys::ibt_wc_t::default(); 2];
    let mut polled = 0;
    assert_eq!(
        call!(ibc_poll_cq(hca, objects.cq, completions.as_mut_ptr(), 1, &mut polled)),
        sys::IBT_SUCCESS
    );
    assert_eq!((polled, completions[0].wc_id, completions[0].wc_status), (1, 5, sys::IBT_WC_WR_FLUSHED_ERR));
    assert_eq!(
        call!(ibc_poll_cq(hca, objects.cq, completions.as_mut_ptr(), 0, null_mut())),
        sys::IBT_CQ_EMPTY
    );
    let (next, nonsense) = (sys::IBT_NEXT_SOLICITED, sys::ibt_cq_notify_flags_e(7));
    assert_eq!(call!(ibc_notify_cq(hca, objects.cq, next)), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_notify_cq(hca, objects.cq, nonsense)), sys::IBT_CQ_NOTIFY_TYPE_INVALID);
    objects.free(hca);
}

#[test]
fn posts_say_how_many_were_taken_if_anybody_asks() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut sends = [sys::ibt_send_wr_t::default(); 3];
    let mut receives = [sys::ibt_recv_wr_t::default(); 3];
    let mut posted = 0;
    assert_eq!(call!(ibc_post_send(hca, objects.qp, sends.as_mut_ptr(), 3, null_mut())), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_post_send(hca, objects.qp, sends.as_mut_ptr(), 3, &mut posted)), sys::IBT_SUCCESS);
    assert_eq!(posted, 3);
    assert_eq!(
        call!(ibc_post_recv(hca, objects.qp, receives.as_mut_ptr(), 3, &mut posted)),
        sys::IBT_CHAN_FULL
    );
    assert_eq!(posted, 1);
    let group = Gid { prefix: 0xff12 << 48, guid: 1 }.raw();
    assert_eq!(call!(ibc_attach_mcg(hca, objects.qp, group, 0xc000)), sys::IBT_SUCCESS);
    assert_eq!(call!(ibc_detach_mcg(hca, objects.qp, group, 0xc000)), sys::IBT_SUCCESS);
    objects.free(hca);
}

#[test]
fn only_kernel_memory_that_makes_sense_is_registered() {
    let adapter = adapter();
    let hca = handle(&adapter);
    let objects = Objects::new(hca);
    let mut mr = null_mut();
    let mut description = sys::ibt_mr_desc_t::default();
    let mut register = |vaddr: u64, len: u64, space: usize, flags: sys::ibt_mr_flags_t| {
        let mut wanted = sys::ibt_mr_attr_t {
            mr_vaddr: vaddr,
            mr_len: len,
            mr_as: without_provenance_mut(space),
            mr_flags: flags,
        };
        let reserved = null_mut::<c_void>();
        call!(ibc_register_mr(hca, objects.pd, &mut wanted, reserved, &mut mr, &mut description))
    };
    let (here, write) = (0xffff_ff01_0000_0000, sys::IBT_MR_ENABLE_LOCAL_WRITE);
    assert_eq!(register(here, 0, 0, write), sys::IBT_MR_LEN_INVALID);
    assert_eq!(register(u64::MAX, 2, 0, write), sys::IBT_MR_LEN_INVALID);
    assert_eq!(register(0x1000, 2, 0, write), sys::IBT_MR_VA_INVALID);
    assert_eq!(register(here, 2, 0x10, write), sys::IBT_NOT_SUPPORTED);
    assert_eq!(register(here, 2, 0, sys::IBT_MR_ENABLE_REMOTE_WRITE), sys::IBT_MR_ACCESS_REQ_INVALID);
    assert_eq!(register(here, 2, 0, write), sys::IBT_SUCCESS);
    assert_eq!((description.md_vaddr, description.md_lkey, description.md_rkey), (here, 3, 4));
    adapter.provider.busy.store(1, Ordering::Relaxed);
    assert_eq!(call!(ibc_deregister_mr(hca, mr)), sys::IBT_MR_HDL_INVALID, "the provider says no");
    adapter.provider.busy.store(0, Ordering::Relaxed);
    assert_eq!(call!(ibc_deregister_mr(hca, mr)), sys::IBT_SUCCESS);
    objects.free(hca);
}

fn with_reserved_key() -> Adapter<Fake> {
    let adapter = adapter();
    let attributes = Attributes { reserved_key: Some(0x8000_0000), ..adapter.attributes };
    Adapter { attributes, ..adapter }
}

/// Maps blocks into the list of a send with room for so many entries, behind a header of so many bytes.
fn map(
    adapter: &Adapter<Fake>,
    blocks: &[(usize, usize)],
    room: u32,
    header: u32,
) -> (u32, Vec<(u64, u32, u32)>) {
    let mut iov: Vec<sys::ibt_iov_t> = blocks
        .iter()
        .map(|&(at, len)| sys::ibt_iov_t { iov_addr: without_provenance_mut(at), iov_len: len })
        .collect();
    let mut list = vec![sys::ibt_wr_ds_t::default(); room as usize];
    let mut request = sys::ibt_all_wr_t::default();
    request.send.wr_sgl = list.as_mut_ptr();
    let mut attributes = sys::ibt_iov_attr_t {
        iov: iov.as_mut_ptr(),
        iov_list_len: iov.len() as u32,
        iov_wr_nds: room,
        iov_lso_hdr_sz: header,
        iov_flags: sys::IBT_IOV_NOSLEEP,
        ..Default::default()
    };
    let mut mapped = core::ptr::null_mut();
    let status = call!(ibc_map_mem_iov(handle(adapter), &mut attributes, &mut request, &mut mapped));
    assert_eq!(status == sys::IBT_SUCCESS, !mapped.is_null());
    // SAFETY: it was written above, as a send.
    let count = if mapped.is_null() { 0 } else { unsafe { request.send.wr_nds } };
    let entries = list.iter().take(count as usize).map(|entry| (entry.ds_va, entry.ds_key, entry.ds_len));
    (status.0, entries.collect())
}

#[test]
fn blocks_of_kernel_memory_get_the_reserved_key_as_they_are() {
    let adapter = with_reserved_key();
    let (here, there) = (0xffff_ff01_0000_0100, 0xffff_ff02_0000_0000);
    let (status, entries) = map(&adapter, &[(here, 100), (there, 0), (there, 5000)], 2, 0);
    assert_eq!(
        (status, entries),
        (0, vec![(here as u64, 0x8000_0000, 100), (there as u64, 0x8000_0000, 5000)])
    );
}

#[test]
fn header_of_a_large_send_takes_room_from_the_list() {
    let adapter = with_reserved_key();
    let blocks = [(0xffff_ff01_0000_0000, 1), (0xffff_ff02_0000_0000, 1)];
    // 44 bytes and their length: three entries.
    assert_eq!(map(&adapter, &blocks, 5, 44).0, 0);
    assert_eq!(map(&adapter, &blocks, 4, 44).0, sys::IBT_SGL_TOO_SMALL.0);
    assert_eq!(map(&adapter, &blocks, 2, 44).0, sys::IBT_SGL_TOO_SMALL.0);
}

#[test]
fn addresses_that_are_not_the_kernels_get_no_key() {
    let adapter = with_reserved_key();
    assert_eq!(map(&adapter, &[(0x1000, 8)], 2, 0).0, sys::IBT_MR_VA_INVALID.0);
    let without = self::adapter();
    assert_eq!(map(&without, &[(0xffff_ff01_0000_0000, 8)], 2, 0).0, sys::IBT_NOT_SUPPORTED.0);
    assert_eq!(call!(ibc_unmap_mem_iov(handle(&without), core::ptr::null_mut())), sys::IBT_MI_HDL_INVALID);
}
