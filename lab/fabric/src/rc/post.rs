//! Posting sends on connections.

use crate::calls::Call;
use crate::cq::CompletionKind;
use crate::qp::{Effects, flushed};
use crate::{Error, Hca, Pd, Qp, QpState, RcSendWr, Signalling};
use std::sync::Arc;

use super::requester::Message;

/// Longest message in bytes, as ports tell (`p_msg_sz`).
const LONGEST: usize = 1 << 30;

/// What of the queue pair a message depends on.
struct Sender {
    seq: u64,
    pd: Pd,
    reserved_lkey: bool,
    all_signalled: bool,
}

impl Hca {
    /// Posts one send on a connection. Its bytes are gathered and, with `send_latency` 0, on their way when this returns.
    ///
    /// # Errors
    /// [`Error::ChanSrvTypeInvalid`] on a queue pair of datagrams; [`Error::ChanStateInvalid`] in RESET, INIT or RTR;
    /// [`Error::ChanSglLenInvalid`]; [`Error::ChanFull`].
    pub fn post_rc_send(&self, qp: &Qp, wr: RcSendWr) -> Result<(), Error> {
        self.check(Call::PostSend)?;
        let Some(sender) = self.admit_rc(qp, &wr)? else { return Ok(()) };
        let bytes = self.gather_bytes(&wr.sgl, LONGEST, &sender.pd, sender.reserved_lkey).map(Arc::new);
        let now = self.fabric().map(|fabric| fabric.clock.now()).unwrap_or_default();
        let message = Message {
            seq: sender.seq,
            wr_id: wr.id,
            signalled: wr.signal || sender.all_signalled,
            solicited: wr.solicited,
            immediate: wr.immediate,
            bytes,
            not_before: now.after(self.config().send_latency),
        };
        let mut effects = Effects::default();
        {
            let mut core = qp.0.core.lock();
            let sends = core.state == QpState::Rts;
            if let Some(connection) = core.connection.as_mut() {
                connection.gathering -= 1;
                if sends {
                    connection.requester.push(message);
                } else {
                    core.sq.finish(sender.seq, flushed(wr.id, CompletionKind::Send, qp.num()));
                    core.report_sends(&mut effects);
                }
            }
        }
        self.raise(effects);
        self.run_requester(qp);
        Ok(())
    }

    /// `None`: it was taken and flushed.
    fn admit_rc(&self, qp: &Qp, wr: &RcSendWr) -> Result<Option<Sender>, Error> {
        let mut effects = Effects::default();
        let admitted = {
            let mut core = qp.0.core.lock();
            if core.freed {
                return Err(Error::ChanHdlInvalid);
            }
            if core.connection.is_none() {
                return Err(Error::ChanSrvTypeInvalid);
            }
            if matches!(core.state, QpState::Reset | QpState::Init | QpState::Rtr) {
                return Err(Error::ChanStateInvalid);
            }
            if wr.sgl.len() > core.config.sizes.sq_sgl as usize {
                return Err(Error::ChanSglLenInvalid);
            }
            let seq = core.sq.reserve(wr.id)?;
            if core.state == QpState::Rts {
                let sender = Sender {
                    seq,
                    pd: core.config.pd.clone(),
                    reserved_lkey: core.config.uses_reserved_lkey,
                    all_signalled: core.config.signalling == Signalling::All,
                };
                if let Some(connection) = core.connection.as_mut() {
                    connection.gathering += 1;
                }
                Some(sender)
            } else {
                core.sq.finish(seq, flushed(wr.id, CompletionKind::Send, qp.num()));
                core.report_sends(&mut effects);
                None
            }
        };
        self.raise(effects);
        Ok(admitted)
    }
}
