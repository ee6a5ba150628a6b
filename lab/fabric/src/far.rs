//! The far end of a link, for measuring: it takes datagrams where they leave the adapter and hands others to it, without frames,
//! checksums and a switch between. Everything else is as always: keys, states, lengths, buffers and completions.

use crate::cq::{CompletionKind, CompletionStatus, Cqe};
use crate::port::Port;
use crate::qp::{Effects, QpCore, ended};
use crate::wire::{Bth, Deth, Grh, Lrh, Packet};
use crate::{
    Ah, Error, Fabric, Gid, Guid, Hca, Lid, PKey, QKey, Qp, QpState, Qpn, Reason, Sge, Signalling, Sl,
};
use std::sync::Arc;

use lab_lock::Mutex;
/// What a far end has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Datagrams to one of its LIDs.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Datagrams to a LID that is none of its own.
    pub strays: u64,
}

/// Every machine beyond a port's link, in one.
pub struct FarEnd {
    /// By LID: one of its own?
    lids: Vec<bool>,
    state: Mutex<State>,
}

struct State {
    arrivals: Arrivals,
    /// The memory of those machines: each datagram is copied into the next of these.
    memory: Vec<u8>,
    next: usize,
}

/// Bytes each datagram has in the far end's memory.
const SLOT: usize = 4096;
/// As many as a receive ring would have.
const SLOTS: usize = 256;

impl FarEnd {
    /// One with these LIDs, which has seen nothing.
    #[must_use]
    pub fn new(lids: impl IntoIterator<Item = Lid>) -> Arc<Self> {
        let mut own = vec![false; 1 << 16];
        for lid in lids {
            own[usize::from(lid.0)] = true;
        }
        let state = State { arrivals: Arrivals::default(), memory: vec![0; SLOT * SLOTS], next: 0 };
        Arc::new(Self { lids: own, state: Mutex::new(state) })
    }

    /// What has arrived so far.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.state.lock().arrivals
    }

    /// A datagram of at most 4096 bytes arrives; `copy` fills the room it gets.
    pub fn take(&self, dlid: Lid, len: usize, copy: impl FnOnce(&mut [u8])) {
        let mut state = self.state.lock();
        if !self.lids[usize::from(dlid.0)] || len > SLOT {
            state.arrivals.strays += 1;
            return;
        }
        let at = state.next;
        state.next = (at + SLOT) % (SLOT * SLOTS);
        state.arrivals.packets += 1;
        state.arrivals.bytes += len as u64;
        copy(&mut state.memory[at..at + len]);
    }
}

/// A send to a far end, as [`Hca::post_far`] takes it.
#[derive(Clone, Copy)]
pub struct FarSend<'a> {
    /// Given back in the completion.
    pub id: u64,
    /// Ask for a completion.
    pub signal: bool,
    /// Path.
    pub ah: &'a Ah,
    /// Message.
    pub sgl: &'a [Sge],
}

impl Hca {
    /// Posts one plain datagram to the far end behind its port, if there is one and nothing else is under way: checked as
    /// [`Hca::post_send`] does, copied once, and over when this returns. `None`: it takes [`Hca::post_send`].
    pub fn post_far(&self, qp: &Qp, send: &FarSend<'_>) -> Option<Result<(), Error>> {
        let mut core = qp.0.core.lock();
        let far = self.port(core.config.port)?.far_end()?;
        let vector = send.ah.vector()?;
        let len: usize = send.sgl.iter().map(|sge| sge.len as usize).sum();
        let plain = core.state == QpState::Rts
            && core.connection.is_none()
            && !core.freed
            && vector.port == core.config.port
            && vector.dlid.is_unicast()
            && send.sgl.len() <= core.config.sizes.sq_sgl as usize
            && len <= SLOT
            && self.config().send_latency.0 == 0;
        if !plain {
            return None;
        }
        let signalled = send.signal || core.config.signalling == Signalling::All;
        let reported = match core.sq.pass(signalled)? {
            Ok(reported) => reported,
            Err(error) => return Some(Err(error)),
        };
        let mut status = CompletionStatus::Success;
        far.take(vector.dlid, len, |room| {
            if self.gather_into(send.sgl, &core, room).is_err() {
                status = CompletionStatus::LocalProtection;
            }
        });
        let mut effects = Effects::default();
        if let Some((slots, owner)) = reported {
            let done = ended(send.id, status, CompletionKind::Send, qp.num(), true);
            let cqe = Cqe { completion: done.completion, solicited: false, slots, owner };
            let added = core.config.scq.add(cqe);
            effects.note(&core.config.scq, added);
        }
        drop(core);
        self.raise(effects);
        Some(Ok(()))
    }

    fn gather_into(&self, sgl: &[Sge], core: &QpCore, room: &mut [u8]) -> Result<(), ()> {
        let mut rest = room;
        for sge in sgl {
            let (piece, after) = rest.split_at_mut(sge.len as usize);
            rest = after;
            self.dma_read(sge, &core.config.pd, core.config.uses_reserved_lkey, piece)?;
        }
        Ok(())
    }
}

/// A datagram as it comes off a link.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Where to.
    pub dlid: Lid,
    /// Where from.
    pub slid: Lid,
    /// Receiving queue pair.
    pub dest: Qpn,
    /// Sending queue pair.
    pub source: Qpn,
    /// Partition.
    pub pkey: PKey,
    /// Queue key.
    pub qkey: QKey,
    /// Both ends in a GRH, sender first.
    pub grh: Option<(Gid, Gid)>,
    /// What the receiver finds behind its 40 bytes.
    pub payload: &'a [u8],
}

impl Fabric {
    /// Puts a far end behind a port, in the switch's place for unicast, for good. False if there is no such port, or one already.
    pub fn set_far_end(&self, port: Guid, far: Arc<FarEnd>) -> bool {
        let found = self.0.switch.lock().ports.get(&port).cloned();
        found.is_some_and(|(_, port)| port.set_far_end(far))
    }

    /// The adapter and the port of a GUID, to be given datagrams.
    #[must_use]
    pub fn near_end(&self, port: Guid) -> Option<NearEnd> {
        let found = self.0.switch.lock().ports.get(&port).cloned();
        found.map(|(hca, port)| NearEnd { hca, port })
    }
}

/// A port that datagrams can be given to.
pub struct NearEnd {
    hca: Hca,
    port: Arc<Port>,
}

impl NearEnd {
    /// A datagram comes off the link. The reason, if no queue pair took it.
    pub fn give(&self, datagram: &Datagram<'_>) -> Option<Reason> {
        let grh = datagram.grh.map(|(sgid, dgid)| Grh { tclass: 0, flow_label: 0, hop_limit: 1, sgid, dgid });
        let packet = Packet {
            lrh: Lrh { vl: 0, sl: Sl::default(), dlid: datagram.dlid, slid: datagram.slid },
            grh,
            bth: Bth { solicited: false, pkey: datagram.pkey, dest: datagram.dest, psn: 0 },
            deth: Deth { qkey: datagram.qkey, src: datagram.source },
            immediate: None,
            payload: datagram.payload,
        };
        self.hca.accept(&self.port, &packet, false)
    }
}
