//! The least that a datagram costs on the lab's adapter: a copy into registered memory and the post, with no driver around it.

use std::sync::Arc;

use fabric::{
    Access, AddressVector, Ah, Cq, Error, FarEnd, FarSend, Guid, Hca, Lid, PortNum, QKey, Qp, QpSizes, Sge,
    Signalling, UdConfig,
};
use fakekernel::Kernel;
use fakekernel::mem::Mem;

/// Sends in flight at most, and every how many one completes.
const RING: u32 = 1024;
const SIGNAL_EVERY: u32 = 64;
/// Bytes of a buffer.
const BUFFER: usize = 4096;

/// A queue pair that somebody posts to in a loop. Its objects stay until the machine is over.
pub struct BareLoop {
    hca: Hca,
    qp: Qp,
    cq: Cq,
    ah: Ah,
    key: u32,
    memory: Mem,
    far: Arc<FarEnd>,
    next: u32,
}

impl BareLoop {
    /// On the port of an adapter of `kernel`'s, which has the far end `far` behind it, to the machine at `dlid`. User or kernel
    /// context, on a thread of that host.
    ///
    /// # Errors
    /// What the adapter refuses.
    pub fn new(kernel: &Kernel, hca: &Hca, port: Guid, far: Arc<FarEnd>, dlid: Lid) -> Result<Self, Error> {
        let at = hca.config().ports.iter().position(|own| own.guid == port).ok_or(Error::HcaPortInvalid)?;
        let port = PortNum(at as u8 + 1);
        let (pd, cq) = (hca.alloc_pd()?, hca.alloc_cq(RING, 0)?);
        let len = RING as usize * BUFFER;
        let start = kernel.genunix().kmem_zalloc_for_module(len);
        // SAFETY: just allocated, and never freed.
        let memory = unsafe { Mem::of(start.cast::<u8>(), len) };
        let mr = hca.register_mr(&pd, memory.addr() as u64, len as u64, Access::default())?;
        let sizes = QpSizes { sq: RING, rq: 1, sq_sgl: 1, rq_sgl: 1 };
        let qp = hca.alloc_qp(UdConfig {
            port,
            pkey_ix: 0,
            qkey: QKey(0x0b1b),
            pd: pd.clone(),
            scq: cq.clone(),
            rcq: cq.clone(),
            srq: None,
            sizes,
            signalling: Signalling::PerRequest,
            uses_lso: false,
            uses_reserved_lkey: false,
        })?;
        let ah = hca.alloc_ah(&pd)?;
        hca.modify_ah(&ah, AddressVector { port, dlid, ..AddressVector::PLACEHOLDER })?;
        Ok(Self { hca: hca.clone(), qp, cq, ah, key: mr.lkey(), memory, far, next: 0 })
    }

    /// Copies and posts `message` so many times; how many arrived.
    ///
    /// # Errors
    /// What the adapter refuses.
    pub fn run(&mut self, message: &[u8], packets: u32) -> Result<u64, Error> {
        let before = self.far.arrivals().packets;
        let mut completions = Vec::new();
        for _ in 0..packets {
            let buffer = self.memory.part((self.next % RING) as usize * BUFFER, message.len());
            self.next = self.next.wrapping_add(1);
            buffer.put(message);
            let sge = Sge { va: buffer.addr() as u64, lkey: self.key, len: message.len() as u32 };
            let signal = self.next.is_multiple_of(SIGNAL_EVERY);
            let send = FarSend { id: u64::from(self.next), signal, ah: &self.ah, sgl: &[sge] };
            self.hca.post_far(&self.qp, &send).ok_or(Error::ChanOpTypeInvalid)??;
            if signal {
                completions.clear();
                self.hca.poll_cq(&self.cq, 16, &mut completions)?;
            }
        }
        Ok(self.far.arrivals().packets - before)
    }
}
