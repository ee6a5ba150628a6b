//! Answers that a client gives later, and how long it takes for them.
#![forbid(unsafe_code)]

use illumos_sys_hdrs::{IBT_CHAN_STATE_INVALID, IBT_INVALID_PARAM, ibt_status_t};

use super::conn::State;
use super::handler::Answer;
use super::mad::{About, Body, Message};
use crate::ibcm::Ibcm;

impl Ibcm {
    /// The answer to a REQ or a REP that was put off. It waits for the handler that put it off to return.
    pub(super) fn proceed(&self, id: u32, about: About, answer: Answer) -> Result<(), ibt_status_t> {
        {
            let mut table = self.connections.table.lock();
            loop {
                let Some(conn) = table.get(id) else { return Err(IBT_INVALID_PARAM) };
                let expected = match about {
                    About::Req => State::ReqReceived,
                    About::Rep | About::Other => State::RepReceived,
                };
                if conn.state != expected {
                    return Err(IBT_CHAN_STATE_INVALID);
                }
                if conn.deferred {
                    break;
                }
                if !conn.in_handler {
                    return Err(IBT_CHAN_STATE_INVALID);
                }
                table = self.connections.changed.wait(table);
            }
        }
        self.task(move |ibcm| match about {
            About::Req => ibcm.req_answered(id, answer),
            About::Rep | About::Other => ibcm.rep_answered(id, answer),
        });
        Ok(())
    }

    /// Whether a handler of this connection runs on this thread (`did`).
    pub(super) fn is_in_handler(&self, id: u32, thread: u64) -> bool {
        let table = self.connections.table.lock();
        table.get(id).is_some_and(|conn| conn.in_handler && conn.handler_thread == thread)
    }

    /// Asks the other side to wait for the answer to its REQ or REP: an MRA.
    pub(super) fn delay(
        &self,
        id: u32,
        about: About,
        service: u8,
        private: Vec<u8>,
    ) -> Result<(), ibt_status_t> {
        {
            let mut table = self.connections.table.lock();
            let conn = table.get_mut(id).ok_or(IBT_INVALID_PARAM)?;
            let fits = match about {
                About::Req => conn.state == State::ReqReceived,
                About::Rep | About::Other => conn.state == State::RepReceived,
            };
            if !fits {
                return Err(IBT_CHAN_STATE_INVALID);
            }
            conn.mra = Some(Message {
                transaction: conn.transaction,
                local: id,
                remote: conn.remote_id,
                body: Body::Mra { about, service, private },
            });
        }
        self.send_of(id, |conn| conn.mra.clone());
        Ok(())
    }
}
