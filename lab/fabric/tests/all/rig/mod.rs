//! Two or more HCAs on one switch, configured by hand, with memory and events the test can see.

use fabric::subnet::PortSet;
use fabric::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub const MGID: Gid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff };
pub const MLID: Lid = Lid(0xc000);
pub const QKEY: QKey = QKey(0x0b1b);

#[derive(Default)]
pub struct TestClock {
    now: AtomicU64,
    wakes: AtomicU64,
}

impl TestClock {
    pub fn set(&self, at: Nanos) {
        self.now.store(at.0, Ordering::SeqCst);
    }

    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::SeqCst))
    }

    fn wake_at(&self, _at: Nanos) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Memory of one host: everything from 0x1000 to 0x1000 + its length.
pub struct Memory(Mutex<Vec<u8>>);

pub const BASE: u64 = 0x1000;

impl Memory {
    pub fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let from = (at - BASE) as usize;
        self.0.lock().unwrap()[from..from + len].to_vec()
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        let from = (at - BASE) as usize;
        self.0.lock().unwrap()[from..from + bytes.len()].copy_from_slice(bytes);
    }
}

impl Dma for Memory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        if !self.is_memory(addr, buf.len() as u64) {
            return Err(DmaFault { addr, len: buf.len() });
        }
        buf.copy_from_slice(&self.get(addr, buf.len()));
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault> {
        if !self.is_memory(addr, buf.len() as u64) {
            return Err(DmaFault { addr, len: buf.len() });
        }
        self.put(addr, buf);
        Ok(())
    }

    fn is_memory(&self, addr: u64, len: u64) -> bool {
        let size = self.0.lock().unwrap().len() as u64;
        addr >= BASE && addr + len <= BASE + size
    }
}

#[derive(Default)]
pub struct Events {
    completions: Mutex<Vec<CqNum>>,
    asyncs: Mutex<Vec<AsyncEvent>>,
    management: Mutex<Vec<(Lid, Vec<u8>)>>,
}

impl Events {
    /// Fired CQs since the last call.
    pub fn fired(&self) -> Vec<CqNum> {
        std::mem::take(&mut self.completions.lock().unwrap())
    }

    /// Asynchronous events since the last call.
    pub fn asyncs(&self) -> Vec<AsyncEvent> {
        std::mem::take(&mut self.asyncs.lock().unwrap())
    }
}

impl Events {
    /// Who sent which management datagram since the last call.
    pub fn management(&self) -> Vec<(Lid, Vec<u8>)> {
        std::mem::take(&mut self.management.lock().unwrap())
    }
}

impl HcaEvents for Events {
    fn management(&self, _port: PortNum, from: ManagementPeer, mad: &[u8]) -> bool {
        self.management.lock().unwrap().push((from.lid, mad.to_vec()));
        true
    }

    fn completion(&self, cq: CqNum) {
        self.completions.lock().unwrap().push(cq);
    }

    fn async_event(&self, event: AsyncEvent) {
        self.asyncs.lock().unwrap().push(event);
    }
}

/// One HCA with one port and what a UD client sets up on it.
pub struct Host {
    pub hca: Hca,
    pub port: Guid,
    pub lid: Lid,
    pub memory: Arc<Memory>,
    pub events: Arc<Events>,
    pub pd: Pd,
    pub scq: Cq,
    pub rcq: Cq,
    pub qp: Qp,
    pub mr: Mr,
}

/// Where a host's send buffer is; receive buffers follow at `RECV`.
pub const SEND: u64 = BASE;
pub const RECV: u64 = BASE + 0x8000;
/// Space per receive buffer.
pub const SLOT: u64 = 0x1100;
const MEMORY: usize = 0x100_000;

pub struct World {
    pub fabric: Fabric,
    pub clock: Arc<TestClock>,
    pub hosts: Vec<Host>,
}

pub fn world(n: usize) -> World {
    world_with(n, |_| {})
}

pub fn world_with(n: usize, change: impl Fn(&mut HcaConfig)) -> World {
    let clock = Arc::new(TestClock::default());
    let fabric = Fabric::new(7, clock.clone());
    let hosts: Vec<Host> = (0..n).map(|i| host(&fabric, i, &change)).collect();
    let ports: BTreeSet<Guid> = hosts.iter().map(|h| h.port).collect();
    fabric.set_multicast_route(MLID, &ports);
    World { fabric, clock, hosts }
}

fn host(fabric: &Fabric, i: usize, change: &impl Fn(&mut HcaConfig)) -> Host {
    let memory = Arc::new(Memory(Mutex::new(vec![0xee; MEMORY])));
    let events = Arc::new(Events::default());
    let mut config = HcaConfig::new(Guid(0x10_0000 + 0x100 * i as u64), 1);
    // Queues that are as long as they say; tests/sizes.rs is about those that are not.
    config.attr.arithmetic = Arithmetic::Exact;
    change(&mut config);
    let hca = fabric.add_hca(config, memory.clone(), events.clone()).unwrap();
    let port = hca.config().ports[0].guid;
    let lid = Lid(0x10 + 8 * i as u16);
    activate(fabric, port, lid);
    events.asyncs();
    let pd = hca.alloc_pd().unwrap();
    let scq = hca.alloc_cq(63, 0).unwrap();
    let rcq = hca.alloc_cq(63, 0).unwrap();
    let access = Access { local_write: true, ..Default::default() };
    let mr = hca.register_mr(&pd, BASE, MEMORY as u64, access).unwrap();
    let qp = hca.alloc_qp(ud_config(&pd, &scq, &rcq)).unwrap();
    Host { hca, port, lid, memory, events, pd, scq, rcq, qp, mr }
}

pub fn activate(fabric: &Fabric, port: Guid, lid: Lid) {
    let set = PortSet {
        lid: Some(lid),
        state: Some(PortState::Active),
        sm_lid: Some(Lid(1)),
        mtu: Some(Mtu::M2048),
        ..Default::default()
    };
    fabric.program_port(port, &set).unwrap();
}

pub fn ud_config(pd: &Pd, scq: &Cq, rcq: &Cq) -> UdConfig {
    UdConfig {
        port: PortNum(1),
        pkey_ix: 0,
        qkey: QKEY,
        pd: pd.clone(),
        scq: scq.clone(),
        rcq: rcq.clone(),
        srq: None,
        sizes: QpSizes { sq: 16, rq: 16, sq_sgl: 4, rq_sgl: 4 },
        signalling: Signalling::All,
        uses_lso: false,
        uses_reserved_lkey: false,
    }
}

impl Host {
    /// A destination on another host's QP, without GRH.
    pub fn to(&self, other: &Host) -> UdDest {
        self.dest(other.lid, None, other.qp.num())
    }

    /// The multicast group.
    pub fn to_group(&self) -> UdDest {
        self.dest(MLID, Some(MGID), Qpn::MULTICAST)
    }

    pub fn dest(&self, dlid: Lid, dgid: Option<Gid>, qpn: Qpn) -> UdDest {
        let ah = self.hca.alloc_ah(&self.pd).unwrap();
        let grh =
            dgid.map(|dgid| GlobalRoute { dgid, sgid_ix: 0, flow_label: 0x12345, tclass: 7, hop_limit: 3 });
        self.hca.modify_ah(&ah, AddressVector { dlid, grh, ..AddressVector::PLACEHOLDER }).unwrap();
        UdDest { ah, qpn, qkey: QKEY }
    }

    pub fn sge(&self, va: u64, len: usize) -> Sge {
        Sge { va, lkey: self.mr.lkey(), len: len as u32 }
    }

    /// A request to send `bytes`, which are put in the send buffer.
    pub fn request(&self, id: u64, bytes: &[u8], dest: UdDest) -> SendWr {
        self.memory.put(SEND, bytes);
        SendWr {
            id,
            signal: false,
            solicited: false,
            cksum: false,
            immediate: None,
            op: SendOp::Send,
            dest,
            sgl: vec![self.sge(SEND, bytes.len())],
        }
    }

    pub fn send(&self, id: u64, bytes: &[u8], dest: UdDest) -> Result<(), Error> {
        self.hca.post_send(&self.qp, self.request(id, bytes, dest))
    }

    /// Posts receive `id` into slot `id`, room for `room` bytes with the GRH.
    pub fn post(&self, id: u64, room: usize) {
        self.post_on(&self.qp, id, room);
    }

    pub fn post_on(&self, qp: &Qp, id: u64, room: usize) {
        let sgl = vec![self.sge(slot(id), room)];
        self.hca.post_recv(qp, RecvWr { id, sgl }).unwrap();
    }

    pub fn poll(&self, cq: &Cq) -> Vec<Completion> {
        let mut out = Vec::new();
        let _ = self.hca.poll_cq(cq, 1000, &mut out);
        out
    }

    pub fn received(&self) -> Vec<Completion> {
        self.poll(&self.rcq)
    }

    pub fn sent(&self) -> Vec<Completion> {
        self.poll(&self.scq)
    }

    /// Payload of a completed receive.
    pub fn payload(&self, done: &Completion) -> Vec<u8> {
        self.memory.get(slot(done.wr_id) + 40, done.bytes as usize - 40)
    }

    pub fn join(&self) {
        self.hca.attach_mcg(&self.qp, MGID, MLID).unwrap();
    }
}

pub fn slot(id: u64) -> u64 {
    RECV + SLOT * id
}

impl World {
    pub fn drops(&self) -> BTreeMap<Reason, u64> {
        self.fabric.drops()
    }

    /// Runs delayed deliveries until none is left; the clock follows.
    pub fn settle(&self) {
        while let Some(at) = self.fabric.next_delivery() {
            self.clock.set(at);
            self.fabric.pump(at);
        }
    }
}
