//! The half of a connection that sends (IBA 9.7.5): what becomes of the message at the head of its queue. No lock, no clock.
//!
//! A message goes as a whole, because both ends are in one machine; its packets are what is counted, numbered and lost.

use ibtf_provider::{CompletionStatus, SendSide};
use kernel::time::Duration;

/// The bits of a packet's number.
pub(super) const PSN_MASK: u32 = 0xff_ffff;

/// What the other side makes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It has it.
    Acknowledged,
    /// One packet is missing behind so many that have come, and it has said so.
    Gap(u32),
    /// Behind so many that have come, nothing is heard.
    Silence(u32),
    /// There is no receive for it: not before the time of this code.
    NotReady(u8),
    /// It does not want it, or it cannot be sent.
    Refused(CompletionStatus),
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The message after it.
    Done,
    /// The rest of it at once.
    Again,
    /// The rest of it after this time; never by itself without one.
    Wait(Option<Duration>),
    /// It has failed, and the queue pair with it.
    Failed(CompletionStatus),
}

/// Where a connection is with its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requester {
    side: SendSide,
    /// Number of the first packet of the message.
    psn: u32,
    /// Packets of it that have come.
    come: u32,
    /// How often it may still be sent again.
    retries: u8,
    rnr_retries: u8,
    /// It has been sent as often as it may be, and nothing was heard: after the last wait it has failed.
    given_up: bool,
}

impl Requester {
    /// It can send from now on.
    pub(super) fn start(side: &SendSide) -> Self {
        let mut this = Self { side: *side, psn: side.psn & PSN_MASK, ..Self::default() };
        this.refill();
        this
    }

    /// Number of the first packet of the message.
    pub(super) fn psn(&self) -> u32 {
        self.psn
    }

    /// Packets of it that have come.
    pub(super) fn come(&self) -> u32 {
        self.come
    }

    /// How the message has failed, if it is not to be sent any more.
    pub(super) fn failure(&self) -> Option<CompletionStatus> {
        self.given_up.then_some(CompletionStatus::TransportRetries)
    }

    fn refill(&mut self) {
        (self.retries, self.rnr_retries) = (self.side.retries, self.side.rnr_retries);
    }

    /// What is next after an attempt at a message of so many packets.
    pub(super) fn judge(&mut self, attempt: Attempt, packets: u32) -> Next {
        match attempt {
            Attempt::Acknowledged => {
                self.psn = self.psn.wrapping_add(packets) & PSN_MASK;
                self.come = 0;
                self.refill();
                Next::Done
            }
            Attempt::Gap(come) if self.comes_on(come) => Next::Again,
            Attempt::Silence(come) if self.comes_on(come) => Next::Wait(self.patience()),
            Attempt::Gap(_) | Attempt::Silence(_) => {
                self.given_up = self.retries == 0;
                self.retries = self.retries.saturating_sub(1);
                Next::Wait(self.patience())
            }
            Attempt::NotReady(code) => self.wait_for_a_receive(code),
            Attempt::Refused(status) => Next::Failed(status),
        }
    }

    /// Whether more of it has come than before.
    fn comes_on(&mut self, come: u32) -> bool {
        let more = come > self.come;
        if more {
            self.come = come;
            self.retries = self.side.retries;
        }
        more
    }

    fn wait_for_a_receive(&mut self, code: u8) -> Next {
        const FOR_EVER: u8 = 7;
        // Somebody is there.
        self.retries = self.side.retries;
        if self.side.rnr_retries != FOR_EVER {
            match self.rnr_retries.checked_sub(1) {
                Some(left) => self.rnr_retries = left,
                None => return Next::Failed(CompletionStatus::ReceiverRetries),
            }
        }
        Next::Wait(Some(pause(code)))
    }

    /// What an acknowledgement may take: as the code says, the least that the standard allows. `None` is for ever.
    fn patience(&self) -> Option<Duration> {
        let code = self.side.ack_timeout & 0x1f;
        (code != 0).then(|| Duration::from_nanos(4_096 << code))
    }
}

/// Units of 10 us that a sender waits for a receive, by code (IBA table 45).
const PAUSES: [u16; 32] = [
    65_535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048,
    3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// What a sender waits for a receive. 655.36 ms for the code 0, whose number is one more than the table can hold.
fn pause(code: u8) -> Duration {
    let units = PAUSES.get(usize::from(code & 0x1f)).map_or(u64::from(u16::MAX), |units| u64::from(*units));
    let units = if code & 0x1f == 0 { units + 1 } else { units };
    Duration::from_micros(units * 10)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Next, Requester, pause};
    use ibtf_provider::{CompletionStatus, SendSide};
    use kernel::time::Duration;

    const SIDE: SendSide = SendSide { psn: 0xff_ffff, ack_timeout: 14, retries: 2, rnr_retries: 1 };
    const PATIENCE: Next = Next::Wait(Some(Duration::from_nanos(4_096 << 14)));

    #[test]
    fn packets_are_numbered_on_from_message_to_message() {
        let mut requester = Requester::start(&SIDE);
        assert_eq!(requester.judge(Attempt::Acknowledged, 3), Next::Done);
        assert_eq!((requester.psn(), requester.come()), (2, 0));
    }

    #[test]
    fn silence_is_met_as_often_as_was_said_and_an_answer_makes_it_forgotten() {
        let mut requester = Requester::start(&SIDE);
        let silence = Attempt::Silence(0);
        assert_eq!([requester.judge(silence, 1), requester.judge(silence, 1)], [PATIENCE; 2]);
        assert_eq!(requester.judge(Attempt::Acknowledged, 1), Next::Done);
        assert_eq!([requester.judge(silence, 1), requester.judge(silence, 1)], [PATIENCE; 2]);
        assert_eq!(requester.failure(), None);
        // The answer to the last one may take as long as that to the first.
        assert_eq!(requester.judge(silence, 1), PATIENCE);
        assert_eq!(requester.failure(), Some(CompletionStatus::TransportRetries));
    }

    #[test]
    fn missing_packet_is_sent_again_at_once_and_once() {
        let mut requester = Requester::start(&SIDE);
        assert_eq!(requester.judge(Attempt::Gap(5), 9), Next::Again);
        assert_eq!(requester.come(), 5);
        assert_eq!(requester.judge(Attempt::Gap(5), 9), PATIENCE);
        assert_eq!(requester.judge(Attempt::Silence(8), 9), PATIENCE);
        assert_eq!(requester.judge(Attempt::Acknowledged, 9), Next::Done);
        assert_eq!(requester.psn(), 8);
    }

    #[test]
    fn message_waits_for_a_receive_as_often_as_was_said_or_for_ever() {
        let mut requester = Requester::start(&SIDE);
        let wait = Next::Wait(Some(Duration::from_micros(640)));
        assert_eq!(requester.judge(Attempt::NotReady(12), 1), wait);
        let failed = Next::Failed(CompletionStatus::ReceiverRetries);
        assert_eq!(requester.judge(Attempt::NotReady(12), 1), failed);
        let mut requester = Requester::start(&SendSide { rnr_retries: 7, ..SIDE });
        assert!((0..100).all(|_| requester.judge(Attempt::NotReady(12), 1) == wait));
    }

    #[test]
    fn who_has_no_timeout_waits_until_it_is_flushed() {
        let mut requester = Requester::start(&SendSide { ack_timeout: 0, ..SIDE });
        assert_eq!(requester.judge(Attempt::Silence(0), 1), Next::Wait(None));
    }

    #[test]
    fn pauses_are_those_of_the_standard() {
        let micros = [(0, 655_360), (1, 10), (12, 640), (14, 1_280), (20, 10_240), (31, 491_520)];
        for (code, expected) in micros {
            assert_eq!(pause(code), Duration::from_micros(expected), "{code}");
        }
    }
}
