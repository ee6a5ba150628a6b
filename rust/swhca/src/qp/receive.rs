//! What comes to a queue pair goes into the first receive: its own, or one that is shared.

use ibtf_provider::{Completion, CompletionStatus, Opcode, QpState, ReceiveRequest, Status};
use kernel::KArc;

use super::{Common, Delivery, Qp, Receives, owed};
use crate::buffers::{Buffers, Taken};
use crate::calls::Call;
use crate::cq::Cq;
use crate::packet::{Buffer, Fault, GRH_LEN, Header, Memory, Payload};
use crate::port::Port;
use crate::sa::may_talk;
use crate::srq::Srq;

impl Qp {
    pub(crate) fn post_receives<'a>(
        &self,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        if self.parts.srq.is_some() {
            return (0, Err(Status::SRQ_IN_USE));
        }
        let mut receives = self.receives.lock();
        let mut taken = 0;
        for request in requests {
            if receives.freed || receives.common.state == QpState::Reset {
                return (taken, Err(Status::CHAN_STATE_INVALID));
            }
            if receives.common.state == QpState::Error {
                self.complete_receive(request.id(), CompletionStatus::Flushed);
            } else if let Err(status) = receives.buffers.push(request.id(), request.segments()) {
                return (taken, Err(status));
            }
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// Puts a datagram into the first buffer. If that one's memory is none, the queue pair fails: its other side later, since the sender's
    /// locks are held.
    pub(crate) fn receive(this: &KArc<Self>, header: &Header, payload: &Payload<'_>) -> Delivery {
        let mut receives = this.receives.lock();
        let Common { state, ud, .. } = receives.common;
        use QpState::{ReadyToReceive, ReadyToSend, SendError};
        if this.is_connection()
            || receives.freed
            || !matches!(state, ReadyToReceive | ReadyToSend | SendError)
        {
            return Delivery::Dropped;
        }
        let own = |port: &mut Port| this.pkey_index(header.pkey, ud.pkey_index, &port.pkeys);
        let Some(pkey_index) = this.parts.node.with_port(ud.port, own).flatten() else {
            return Delivery::BadPkey;
        };
        if header.qkey != ud.qkey {
            return Delivery::BadQkey;
        }
        let filled = match &this.parts.srq {
            None => this.fill_own(&mut receives.buffers, Some(header), payload),
            Some(srq) => this.fill_shared(srq, Some(header), payload),
        };
        let (id, status) = match filled {
            Ok(filled) => filled,
            Err(delivery) => return delivery,
        };
        let completion = Completion {
            bytes: header.len + GRH_LEN,
            grh: header.grh.is_some(),
            immediate: header.immediate,
            source_qpn: header.source_qpn,
            source_lid: header.source_lid,
            sl: header.sl,
            pkey_index,
            solicited: header.solicited,
            checksums: header.checksums,
            ..Completion::of(id, Opcode::Receive, status, this.parts.number)
        };
        Cq::complete(&this.parts.receive_cq, completion);
        if status == CompletionStatus::LocalProtection {
            Self::fail_at_a_datagram(this, &mut receives);
        }
        Delivery::Received
    }

    /// A receive has failed, and with it the queue pair.
    fn fail_at_a_datagram(this: &KArc<Self>, receives: &mut Receives) {
        receives.common.state = QpState::Error;
        receives.untold = true;
        this.flush(receives);
        let empty = if this.parts.srq.is_some() { owed::EMPTY } else { 0 };
        Self::owe(this, owed::FAILURE | empty);
    }

    /// Puts it into the first buffer of its own: that one's id, and how it ends.
    pub(super) fn fill_own(
        &self,
        buffers: &mut Buffers,
        header: Option<&Header>,
        payload: &Payload<'_>,
    ) -> Result<(u64, CompletionStatus), Delivery> {
        let (id, _) = buffers.first().ok_or(Delivery::Dropped)?;
        let status = fill(self.memory(buffers.first_segments()), header, payload)?;
        buffers.advance();
        Ok((id, status))
    }

    /// The same with the first one that is shared, which is taken for that: others take the next ones meanwhile.
    #[inline(never)]
    pub(super) fn fill_shared(
        &self,
        srq: &KArc<Srq>,
        header: Option<&Header>,
        payload: &Payload<'_>,
    ) -> Result<(u64, CompletionStatus), Delivery> {
        let mut taken = Taken::none();
        if !srq.take(&mut taken) {
            return Err(Delivery::Dropped);
        }
        let filled = fill(self.memory_of(srq.domain().number(), taken.segments()), header, payload);
        match filled {
            Ok(_) if srq.used() => self.parts.node.call(Call::Limit(srq.clone())),
            Ok(_) => {}
            Err(_) => srq.give_back(&taken),
        }
        filled.map(|status| (taken.id, status))
    }

    /// Where in the table the P_Key of a datagram is: a special queue pair takes any of the port's, others their own.
    fn pkey_index(&self, pkey: u16, own: u16, pkeys: &[u16]) -> Option<u16> {
        if self.parts.special.is_none() {
            return pkeys.get(usize::from(own)).filter(|mine| may_talk(**mine, pkey)).map(|_| own);
        }
        pkeys.iter().position(|mine| may_talk(*mine, pkey)).and_then(|index| u16::try_from(index).ok())
    }
}

/// Fills a receiver's memory, with a datagram if there is a header; how that ends, unless it is the sender's that cannot be read.
fn fill(
    memory: Memory<'_>,
    header: Option<&Header>,
    payload: &Payload<'_>,
) -> Result<CompletionStatus, Delivery> {
    match put(&mut Buffer::new(memory), header, payload) {
        Ok(()) => Ok(CompletionStatus::Success),
        Err(Fault::Sender) => Err(Delivery::SenderFault),
        Err(Fault::Receiver) => Ok(CompletionStatus::LocalProtection),
        Err(Fault::TooLong) => Ok(CompletionStatus::LocalLength),
    }
}

/// The 40 bytes of a datagram's global route, which are left as they are without one, and the payload.
fn put(buffer: &mut Buffer<'_>, header: Option<&Header>, payload: &Payload<'_>) -> Result<(), Fault> {
    match header.map(Header::route) {
        Some(Some(route)) => buffer.write(&route)?,
        Some(None) => buffer.skip(GRH_LEN)?,
        None => {}
    }
    buffer.copy(payload)
}
