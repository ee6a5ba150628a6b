//! Completion queues: order, overrun, one-shot arming.

use crate::{ArmSemantics, Error, Lid, Qpn, Sl};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lab_lock::Mutex;
/// Number of a CQ, unique within its HCA for the HCA's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CqNum(pub u32);

/// How a work request ended (`ibt_wc_status_t`, the same numbers). Those from 20 on are of connections alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Done.
    Success = 0,
    /// Message longer than the MTU, or than the receive buffer.
    LocalLength = 10,
    /// The QP could not carry the operation out.
    LocalChannelOp = 11,
    /// An SGL entry failed the memory key check.
    LocalProtection = 13,
    /// Not carried out: the QP was in ERROR or SQE.
    Flushed = 14,
    /// The peer refused the message: too long for its receive.
    RemoteInvalidRequest = 22,
    /// The peer gives no right to that memory.
    RemoteAccess = 23,
    /// The peer could not carry it out.
    RemoteOperation = 24,
    /// Nobody acknowledged it, however often it was sent.
    TransportTimeout = 25,
    /// The peer had no receive for it, however often it was sent.
    RnrTimeout = 26,
}

/// Which kind of work request completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionKind {
    /// A send.
    Send = 1,
    /// A receive.
    Recv = 7,
    /// A large send.
    SendLso = 11,
}

/// What a successful receive says about the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvInfo {
    /// Source queue pair.
    pub src_qpn: Qpn,
    /// Service level.
    pub sl: Sl,
    /// Source LID.
    pub slid: Lid,
    /// Destination LID minus base LID (0 for multicast).
    pub path_bits: u8,
    /// Index of the partition in the port's table.
    pub pkey_ix: u16,
    /// The first 40 bytes of the buffer are a GRH.
    pub grh: bool,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// IPv4 header and TCP/UDP checksums verified.
    pub cksum_ok: bool,
    /// Packet class bits (`wc_detail`), defined with `cksum_ok`.
    pub detail: u32,
}

/// One completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The work request's identifier.
    pub wr_id: u64,
    /// How it ended; on anything but success only `wr_id` and this mean something.
    pub status: CompletionStatus,
    /// Send or receive.
    pub kind: CompletionKind,
    /// Receives: 40 + payload bytes of a datagram, the bytes of a connection's message.
    pub bytes: u32,
    /// Successful receives.
    pub recv: Option<RecvInfo>,
    /// The queue pair it belongs to.
    pub qpn: Qpn,
}

/// What the next event waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Any completion.
    Next,
    /// A receive whose sender set the solicited bit, or any completion in error.
    NextSolicited,
}

/// Interrupt moderation as asked for; recorded and reported, not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moderation {
    /// Completions before an interrupt; 0 with `usec` 0 = off.
    pub count: u32,
    /// Microseconds before an interrupt.
    pub usec: u32,
    /// Interrupt it is pinned to, 0 = any.
    pub handler: u32,
}

/// A completion in its queue, with what polling it gives back.
pub(crate) struct Cqe {
    pub(crate) completion: Completion,
    pub(crate) solicited: bool,
    /// Work queue slots that become free when this is polled, and whose they are.
    pub(crate) slots: u32,
    pub(crate) owner: Arc<AtomicU32>,
}

/// A completion queue. Clones name the same one.
#[derive(Clone)]
pub struct Cq(pub(crate) Arc<CqInner>);

pub(crate) struct CqInner {
    num: CqNum,
    arming: ArmSemantics,
    state: Mutex<CqState>,
}

struct CqState {
    entries: VecDeque<Cqe>,
    size: u32,
    armed: Option<Notify>,
    /// Solicited entries or errors now in `entries`.
    urgent: u32,
    overrun: bool,
    users: u32,
    freed: bool,
    moderation: Moderation,
}

/// What adding a completion set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Quiet,
    Fire,
    Overrun,
}

/// Real size for a requested one: a power of two less one, at least 1.
pub(crate) fn real_size(requested: u32) -> u32 {
    (requested.saturating_add(1)).checked_next_power_of_two().map_or(u32::MAX, |n| n.max(2) - 1)
}

impl Cqe {
    fn is_urgent(&self) -> bool {
        self.solicited || self.completion.status != CompletionStatus::Success
    }
}

impl Cq {
    pub(crate) fn new(num: CqNum, size: u32, arming: ArmSemantics, handler: u32) -> Self {
        Cq(Arc::new(CqInner {
            num,
            arming,
            state: Mutex::new(CqState {
                entries: VecDeque::new(),
                size,
                armed: None,
                urgent: 0,
                overrun: false,
                users: 0,
                freed: false,
                moderation: Moderation { handler, ..Default::default() },
            }),
        }))
    }

    /// Its number, as [`crate::HcaEvents::completion`] names it.
    #[must_use]
    pub fn num(&self) -> CqNum {
        self.0.num
    }

    /// Completions it can hold.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.0.state.lock().size
    }

    /// Completions in it now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.state.lock().entries.len()
    }

    /// No completion waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moderation as last set.
    #[must_use]
    pub fn moderation(&self) -> Moderation {
        self.0.state.lock().moderation
    }

    /// An event is pending on the next completion.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.0.state.lock().armed.is_some()
    }

    pub(crate) fn hold(&self) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        if s.freed {
            return Err(Error::CqHdlInvalid);
        }
        s.users += 1;
        Ok(())
    }

    pub(crate) fn release(&self) {
        let mut s = self.0.state.lock();
        s.users = s.users.saturating_sub(1);
    }

    pub(crate) fn retire(&self) -> Result<(), Error> {
        let mut s = self.0.state.lock();
        match (s.freed, s.users) {
            (true, _) => Err(Error::CqHdlInvalid),
            (false, 0) => {
                s.freed = true;
                s.entries.clear();
                s.armed = None;
                Ok(())
            }
            _ => Err(Error::CqBusy),
        }
    }

    /// As failing hardware would, or one that has overrun: nothing is put into it any more.
    pub(crate) fn fail(&self) {
        let mut s = self.0.state.lock();
        s.overrun = true;
        s.armed = None;
    }

    pub(crate) fn add(&self, cqe: Cqe) -> Added {
        let mut s = self.0.state.lock();
        if s.overrun || s.freed {
            return Added::Quiet;
        }
        if s.entries.len() >= s.size as usize {
            s.overrun = true;
            s.armed = None;
            return Added::Overrun;
        }
        let urgent = cqe.is_urgent();
        s.urgent += u32::from(urgent);
        s.entries.push_back(cqe);
        match s.armed {
            Some(Notify::Next) => {}
            Some(Notify::NextSolicited) if urgent => {}
            _ => return Added::Quiet,
        }
        s.armed = None;
        Added::Fire
    }

    /// Arms; true if it fires at once.
    pub(crate) fn arm(&self, notify: Notify) -> Result<bool, Error> {
        let mut s = self.0.state.lock();
        if s.freed {
            return Err(Error::CqHdlInvalid);
        }
        let pending = match notify {
            Notify::Next => !s.entries.is_empty(),
            Notify::NextSolicited => s.urgent > 0,
        };
        if pending && self.0.arming == ArmSemantics::FireIfPending {
            s.armed = None;
            return Ok(true);
        }
        if s.armed != Some(Notify::Next) {
            s.armed = Some(notify);
        }
        Ok(false)
    }

    pub(crate) fn poll(&self, max: usize, out: &mut Vec<Completion>) -> Result<usize, Error> {
        let taken: Vec<Cqe> = {
            let mut s = self.0.state.lock();
            if s.freed {
                return Err(Error::CqHdlInvalid);
            }
            let n = max.min(s.entries.len());
            let taken: Vec<Cqe> = s.entries.drain(..n).collect();
            s.urgent -= taken.iter().filter(|c| c.is_urgent()).count() as u32;
            taken
        };
        if taken.is_empty() {
            return Err(Error::CqEmpty);
        }
        for cqe in &taken {
            cqe.owner.fetch_sub(cqe.slots, Ordering::AcqRel);
            out.push(cqe.completion);
        }
        Ok(taken.len())
    }

    pub(crate) fn resize(&self, requested: u32) -> Result<u32, Error> {
        let mut s = self.0.state.lock();
        let real = real_size(requested);
        if s.freed {
            return Err(Error::CqHdlInvalid);
        }
        if s.entries.len() > real as usize {
            return Err(Error::CqSzInsufficient);
        }
        s.size = real;
        Ok(real)
    }

    pub(crate) fn moderate(&self, moderation: Moderation) {
        let mut s = self.0.state.lock();
        let handler = if moderation.handler == 0 { s.moderation.handler } else { moderation.handler };
        s.moderation = Moderation { handler, ..moderation };
    }

    /// Removes what belongs to a QP that is going away.
    pub(crate) fn purge(&self, qpn: Qpn) {
        let mut s = self.0.state.lock();
        s.entries.retain(|c| {
            let keep = c.completion.qpn != qpn;
            if !keep {
                c.owner.fetch_sub(c.slots, Ordering::AcqRel);
            }
            keep
        });
        s.urgent = s.entries.iter().filter(|c| c.is_urgent()).count() as u32;
    }
}
