//! A Linux host's adapter, its memory, and the queues of its IPoIB.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::{
    Access, AddressVector, AsyncEvent, Completion, Cq, CqNum, Dma, DmaFault, Guid, Hca, HcaConfig, HcaEvents,
    Lid, ManagementPeer, Mr, Notify, Pd, PortNum, QKey, Qp, QpSizes, Qpn, RcConfig, RcSendWr, RecvWr, SendOp,
    SendWr, Sge, Signalling, Srq, SrqSizes, UdConfig, UdDest,
};
use fakekernel::{HostMutex, WaitQueue};

/// Of the partition's broadcast group.
const QKEY: QKey = QKey(0x0b1b);
const GRH: usize = 40;
/// Datagrams that it takes and that it sends, and their room.
const DATAGRAMS: u64 = 64;
const DATAGRAM: u64 = 4_096;
/// Messages likewise: `recv_queue_size` and `send_queue_size`.
const MESSAGES: u64 = 256;
const SENDS: u64 = 128;
const MESSAGE: u64 = 65_536;
const BASE: u64 = 0x1000;
const UD_IN: u64 = BASE;
const UD_OUT: u64 = UD_IN + DATAGRAMS * DATAGRAM;
const RC_IN: u64 = UD_OUT + DATAGRAMS * DATAGRAM;
const RC_OUT: u64 = RC_IN + MESSAGES * MESSAGE;
const END: u64 = RC_OUT + SENDS * MESSAGE;

struct Memory(HostMutex<Vec<u8>>);

impl Memory {
    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, DmaFault> {
        let whole = self.is_memory(addr, len as u64).then(|| (addr - BASE) as usize);
        whole.map(|from| from..from + len).ok_or(DmaFault { addr, len })
    }
}

impl Dma for Memory {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        let range = self.range(addr, buf.len())?;
        buf.copy_from_slice(&self.0.lock()[range]);
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault> {
        let range = self.range(addr, buf.len())?;
        self.0.lock()[range].copy_from_slice(buf);
        Ok(())
    }

    fn is_memory(&self, addr: u64, len: u64) -> bool {
        addr >= BASE && addr.saturating_add(len) <= END
    }
}

/// What the adapter has told and nobody has looked at.
#[derive(Default)]
pub struct Inbox {
    pub mads: VecDeque<(ManagementPeer, Vec<u8>)>,
    pub events: VecDeque<AsyncEvent>,
    pub stops: bool,
    fired: bool,
}

/// Where it tells.
pub struct Told {
    pub inbox: HostMutex<Inbox>,
    pub news: WaitQueue,
}

impl HcaEvents for Told {
    fn completion(&self, _cq: CqNum) {
        self.inbox.lock().fired = true;
        self.news.wake_all();
    }

    fn async_event(&self, event: AsyncEvent) {
        self.inbox.lock().events.push_back(event);
        self.news.wake_all();
    }

    fn management(&self, _port: PortNum, from: ManagementPeer, mad: &[u8]) -> bool {
        self.inbox.lock().mads.push_back((from, mad.to_vec()));
        self.news.wake_all();
        true
    }
}

impl Inbox {
    pub fn is_empty(&mut self) -> bool {
        !std::mem::take(&mut self.fired) && self.mads.is_empty() && self.events.is_empty() && !self.stops
    }
}

pub struct Adapter {
    pub hca: Hca,
    pub port: Guid,
    pub told: Arc<Told>,
    memory: Arc<Memory>,
    pd: Pd,
    cq: Cq,
    srq: Srq,
    mr: Mr,
    pub ud: Qp,
    /// Whether it keeps what comes on connections, and posts nothing in its place.
    pub keeps: AtomicBool,
    kept: HostMutex<Vec<u64>>,
}

/// What has completed.
pub enum Done {
    Datagram(Vec<u8>),
    /// On which queue pair, into which buffer.
    Message(Qpn, u64, Vec<u8>),
    /// A send on this queue pair, well or not.
    Sent(Qpn, bool),
    Nothing,
}

/// Which work request a completion is about.
const IS_DATAGRAM: u64 = 1 << 32;
const IS_SEND: u64 = 1 << 33;

impl Adapter {
    pub fn new(fabric: &fabric::Fabric, node: Guid) -> Self {
        let memory = Arc::new(Memory(HostMutex::new(vec![0; (END - BASE) as usize])));
        let (inbox, news) = (HostMutex::new(Inbox::default()), WaitQueue::new("a Linux host's adapter"));
        let told = Arc::new(Told { inbox, news });
        let hca = fabric.add_hca(HcaConfig::new(node, 1), memory.clone(), told.clone());
        let hca = hca.expect("the GUID is unique");
        let port = hca.config().ports[0].guid;
        let pd = hca.alloc_pd().expect("there is room");
        let cq = hca.alloc_cq(4_096, 0).expect("there is room");
        let access = Access { local_write: true, ..Access::default() };
        let mr = hca.register_mr(&pd, BASE, END - BASE, access).expect("it is memory");
        let srq = hca.alloc_srq(&pd, SrqSizes { wrs: MESSAGES as u32, sgl: 1 }).expect("there is room");
        let config = UdConfig {
            port: PortNum(1),
            pkey_ix: 0,
            qkey: QKEY,
            pd: pd.clone(),
            scq: cq.clone(),
            rcq: cq.clone(),
            srq: None,
            sizes: QpSizes { sq: DATAGRAMS as u32, rq: DATAGRAMS as u32, sq_sgl: 1, rq_sgl: 1 },
            signalling: Signalling::All,
            uses_lso: false,
            uses_reserved_lkey: false,
        };
        let ud = hca.alloc_qp(config).expect("there is room");
        let (keeps, kept) = (AtomicBool::new(false), HostMutex::new(Vec::new()));
        let made = Self { hca, port, told, memory, pd, cq, srq, mr, ud, keeps, kept };
        (0..DATAGRAMS).for_each(|n| made.take_datagram(n));
        (0..MESSAGES).for_each(|n| made.take_message(n));
        made.arm();
        made
    }

    fn sge(&self, va: u64, len: usize) -> Sge {
        Sge { va, lkey: self.mr.lkey(), len: len as u32 }
    }

    fn take_datagram(&self, n: u64) {
        let sgl = vec![self.sge(UD_IN + n * DATAGRAM, DATAGRAM as usize)];
        let _ = self.hca.post_recv(&self.ud, RecvWr { id: IS_DATAGRAM | n, sgl });
    }

    fn take_message(&self, n: u64) {
        let sgl = vec![self.sge(RC_IN + n * MESSAGE, MESSAGE as usize)];
        let _ = self.hca.post_srq(&self.srq, RecvWr { id: n, sgl });
    }

    /// Posts what it has kept, and keeps no more.
    pub fn give_back(&self) {
        self.keeps.store(false, Ordering::Relaxed);
        let kept = std::mem::take(&mut *self.kept.lock());
        kept.into_iter().for_each(|n| self.take_message(n));
    }

    fn arm(&self) {
        let _ = self.hca.notify_cq(&self.cq, Notify::Next);
    }

    /// What has completed since the last time, which may have been told of or not.
    pub fn completed(&self) -> Vec<Done> {
        let mut all = Vec::new();
        // Once more when it is armed.
        for _ in 0..2 {
            while self.hca.poll_cq(&self.cq, 64, &mut all).is_ok_and(|some| some != 0) {}
            self.arm();
        }
        all.into_iter().map(|completion| self.done(&completion)).collect()
    }

    fn done(&self, completion: &Completion) -> Done {
        let (id, well) = (completion.wr_id, completion.status == fabric::CompletionStatus::Success);
        if id & IS_SEND != 0 {
            return Done::Sent(completion.qpn, well);
        }
        let n = id & !(IS_DATAGRAM | IS_SEND);
        if id & IS_DATAGRAM != 0 {
            let octets = self.get(UD_IN + n * DATAGRAM, completion.bytes as usize);
            self.take_datagram(n);
            return if well { Done::Datagram(octets[GRH..].to_vec()) } else { Done::Nothing };
        }
        let octets = if well { self.get(RC_IN + n * MESSAGE, completion.bytes as usize) } else { Vec::new() };
        match self.keeps.load(Ordering::Relaxed) {
            true => self.kept.lock().push(n),
            false => self.take_message(n),
        }
        if well { Done::Message(completion.qpn, n, octets) } else { Done::Nothing }
    }

    fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        self.memory.read(at, &mut octets).expect("it is memory");
        octets
    }

    /// Where a port is.
    pub fn way(&self, lid: Lid) -> AddressVector {
        AddressVector { dlid: lid, ..AddressVector::PLACEHOLDER }
    }

    pub fn send_datagram(&self, n: u64, to: (Lid, Qpn), octets: &[u8]) {
        let at = UD_OUT + n % DATAGRAMS * DATAGRAM;
        self.memory.write(at, octets).expect("it fits");
        let ah = self.hca.alloc_ah(&self.pd).expect("there is room");
        self.hca.modify_ah(&ah, self.way(to.0)).expect("it is a way");
        let request = SendWr {
            id: IS_SEND,
            signal: true,
            solicited: false,
            cksum: false,
            immediate: None,
            op: SendOp::Send,
            dest: UdDest { ah: ah.clone(), qpn: to.1, qkey: QKEY },
            sgl: vec![self.sge(at, octets.len())],
        };
        let _ = self.hca.post_send(&self.ud, request);
        let _ = self.hca.free_ah(&ah);
    }

    /// False if the queue is full or the queue pair does not send.
    pub fn send_message(&self, qp: &Qp, n: u64, octets: &[u8]) -> bool {
        let at = RC_OUT + n % SENDS * MESSAGE;
        self.memory.write(at, octets).expect("it fits");
        let sgl = vec![self.sge(at, octets.len())];
        let request = RcSendWr { id: IS_SEND, signal: true, solicited: false, immediate: None, sgl };
        self.hca.post_rc_send(qp, request).is_ok()
    }

    /// A queue pair of a connection: of those that it opens and of those that others open, all of which share their receives.
    pub fn queue_pair(&self) -> Qp {
        let config = RcConfig {
            port: PortNum(1),
            pkey_ix: 0,
            pd: self.pd.clone(),
            scq: self.cq.clone(),
            rcq: self.cq.clone(),
            srq: Some(self.srq.clone()),
            sizes: QpSizes { sq: SENDS as u32, rq: 0, sq_sgl: 1, rq_sgl: 1 },
            signalling: Signalling::All,
            uses_reserved_lkey: false,
        };
        self.hca.alloc_rc_qp(config).expect("there is room")
    }
}
