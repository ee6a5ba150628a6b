//! What happens when a time is over.
#![forbid(unsafe_code)]

use fakekernel::Nanos;

use super::conn::{NoCallbacks, State};
use super::now;
use crate::ibcm::Ibcm;
use crate::ibtl::connection_is_over;

/// What is to be done for a connection whose time has come.
enum Due {
    Nothing,
    Again,
    /// `silent`: there is nobody to tell.
    GaveUp {
        was: State,
        silent: bool,
    },
    Forget,
}

impl Ibcm {
    /// Until the machine ends.
    pub(super) fn keep_time(&self) {
        loop {
            let next = {
                let mut table = self.connections.table.lock();
                match table.pop_due(now()) {
                    Some(id) => id,
                    None => {
                        let until = table.next_due().map_or(Nanos::NEVER, |at| Nanos(at.0));
                        drop(self.connections.clock.wait_until(table, until));
                        continue;
                    }
                }
            };
            self.expired(next);
        }
    }

    fn expired(&self, id: u32) {
        match self.due(id) {
            Due::Nothing => {}
            Due::Again => {
                self.send_of(id, |conn| conn.message.clone());
                // A place of closings may be free.
                self.connections.changed.wake_all();
            }
            Due::GaveUp { was, silent: true } => self.task(move |ibcm| ibcm.gave_up(id, was)),
            Due::GaveUp { was, silent: false } => self.on_list(move |ibcm| ibcm.gave_up(id, was)),
            Due::Forget => {
                let gone = self.connections.table.lock().remove(id);
                let channel = gone.filter(|conn| conn.state == State::TimeWait).and_then(|conn| conn.channel);
                if let Some(channel) = channel {
                    connection_is_over(&channel);
                }
            }
        }
    }

    fn due(&self, id: u32) -> Due {
        let mut table = self.connections.table.lock();
        let Some(conn) = table.get_mut(id) else { return Due::Nothing };
        let state = conn.state;
        match state {
            State::TimeWait | State::RejSent => return Due::Forget,
            State::ReqSent | State::RepWait | State::RepSent | State::MraRepReceived | State::DreqSent => {}
            _ => return Due::Nothing,
        }
        if conn.retries_left > 0 {
            conn.retries_left -= 1;
            let interval = conn.interval;
            if state == State::DreqSent {
                table.leave_close(id);
            }
            self.arm(&mut table, id, interval);
            return Due::Again;
        }
        conn.state = State::TimedOut;
        if state == State::DreqSent && conn.no_callbacks == NoCallbacks::Free {
            conn.no_callbacks = NoCallbacks::Wait;
            if let Some(channel) = &conn.channel {
                channel.cm.lock().closing = true;
            }
        }
        Due::GaveUp { was: state, silent: conn.no_callbacks == NoCallbacks::Never }
    }
}
