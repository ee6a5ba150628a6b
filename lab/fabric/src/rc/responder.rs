//! The receiving half of a connection: which packet is the next one, and what its sender hears. Pure.

use super::PSN_MASK;
use crate::wire::{Aeth, NakCode, RcOpcode, Syndrome};

/// What a packet is to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The one that is due.
    Next,
    /// It was here before.
    Before,
    /// Another one is missing before it; `tell`: its sender has not been told yet.
    Beyond { tell: bool },
    /// The one that is due, but not in this place of a message.
    OutOfTurn,
}

pub(crate) struct Responder {
    /// The number that is due.
    expected: u32,
    /// Messages completed.
    msn: u32,
    /// A message has begun.
    inside: bool,
    /// The sender was told what is due, and nothing of it has come since.
    told: bool,
}

impl Responder {
    pub(crate) fn new() -> Self {
        Responder { expected: 0, msn: 0, inside: false, told: false }
    }

    /// The connection goes to RTR.
    pub(crate) fn start(&mut self, first_psn: u32) {
        *self = Responder { expected: first_psn & PSN_MASK, ..Responder::new() };
    }

    /// The number that is due.
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// What the packet is.
    pub(crate) fn judge(&mut self, psn: u32, opcode: RcOpcode) -> Place {
        let ahead = psn.wrapping_sub(self.expected) & PSN_MASK;
        if ahead > PSN_MASK / 2 {
            return Place::Before;
        }
        if ahead > 0 {
            return Place::Beyond { tell: !std::mem::replace(&mut self.told, true) };
        }
        if opcode.is_first() == self.inside { Place::OutOfTurn } else { Place::Next }
    }

    /// There is no receive for the message that begins with the packet that is due: what comes behind it is not worth a word.
    pub(crate) fn not_ready(&mut self) {
        self.told = true;
    }

    /// The packet that was due is taken.
    pub(crate) fn take(&mut self, opcode: RcOpcode) {
        self.expected = self.expected.wrapping_add(1) & PSN_MASK;
        self.told = false;
        self.inside = !opcode.is_last();
        if opcode.is_last() {
            self.msn = self.msn.wrapping_add(1) & PSN_MASK;
        }
    }

    /// All before the packet that is due has arrived.
    pub(crate) fn so_far(&self) -> (u32, Aeth) {
        (self.expected.wrapping_sub(1) & PSN_MASK, self.say(Syndrome::Ack))
    }

    /// What is due shall come again, after the time of this code.
    pub(crate) fn later(&self, code: u8) -> (u32, Aeth) {
        (self.expected, self.say(Syndrome::NotReady(code)))
    }

    /// What is due is missing, or refused.
    pub(crate) fn no(&self, code: NakCode) -> (u32, Aeth) {
        (self.expected, self.say(Syndrome::Nak(code)))
    }

    /// The packet before the one that is due is refused: it was taken before it was looked at.
    pub(crate) fn no_to_the_last(&self, code: NakCode) -> (u32, Aeth) {
        (self.expected.wrapping_sub(1) & PSN_MASK, self.say(Syndrome::Nak(code)))
    }

    fn say(&self, syndrome: Syndrome) -> Aeth {
        Aeth { syndrome, msn: self.msn }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RcOpcode::{SendFirst, SendLast, SendMiddle, SendOnly};

    #[test]
    fn packets_are_taken_in_order_and_a_gap_is_told_once() {
        let mut responder = Responder::new();
        responder.start(0x00ff_ffff);
        assert_eq!(responder.judge(0, SendOnly), Place::Beyond { tell: true });
        assert_eq!(responder.judge(1, SendOnly), Place::Beyond { tell: false });
        assert_eq!(responder.no(NakCode::Sequence).0, 0x00ff_ffff);
        assert_eq!(responder.judge(0x00ff_ffff, SendOnly), Place::Next);
        responder.take(SendOnly);
        assert_eq!(responder.judge(0x00ff_ffff, SendOnly), Place::Before);
        assert_eq!(responder.judge(1, SendOnly), Place::Beyond { tell: true });
        assert_eq!(responder.so_far(), (0x00ff_ffff, Aeth { syndrome: Syndrome::Ack, msn: 1 }));
    }

    #[test]
    fn a_message_begins_once_and_ends_once() {
        let mut responder = Responder::new();
        assert_eq!(responder.judge(0, SendMiddle), Place::OutOfTurn);
        responder.take(SendFirst);
        assert_eq!(responder.judge(1, SendFirst), Place::OutOfTurn);
        assert_eq!(responder.judge(1, SendLast), Place::Next);
        responder.take(SendLast);
        assert_eq!(responder.so_far(), (1, Aeth { syndrome: Syndrome::Ack, msn: 1 }));
    }
}
