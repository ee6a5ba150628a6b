//! Answers longer than one MAD (IBA volume 1, 13.6): the sender a subnet administrator needs and the receiver its clients need.
//!
//! Each segment repeats the SA header and carries up to 200 bytes of data. The payload length of the first segment counts
//! all segments' SA headers and data, that of the last one its own.

use crate::mad::{DATA_LEN, Mad, Rmpp, RmppKind, SA_HEADER_LEN, SaMad};
use crate::types::Nanos;

/// Why a transfer ends early: `RMPPStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortCode(pub u8);

impl AbortCode {
    #![allow(missing_docs, reason = "the standard's names")]
    pub const RESOURCES: Self = Self(1);
    pub const TIME_TOO_LONG: Self = Self(118);
    pub const BAD_LENGTH: Self = Self(119);
    pub const BAD_FIRST: Self = Self(120);
    pub const BAD_TYPE: Self = Self(121);
    pub const WINDOW_TOO_SMALL: Self = Self(122);
    pub const SEGMENT_TOO_BIG: Self = Self(123);
    pub const BAD_VERSION: Self = Self(125);
    pub const TOO_MANY_RETRIES: Self = Self(126);
}

/// Cuts an answer into segments: at least one, however little data.
pub fn segments(header: &SaMad, data: &[u8]) -> Vec<SaMad> {
    let chunks: Vec<&[u8]> = if data.is_empty() { vec![&[]] } else { data.chunks(DATA_LEN).collect() };
    let count = chunks.len();
    let total = count * SA_HEADER_LEN + data.len();
    let segment = |(index, chunk): (usize, &&[u8])| {
        let first = index == 0;
        let last = index + 1 == count;
        let length = if first {
            total
        } else if last {
            SA_HEADER_LEN + chunk.len()
        } else {
            0
        };
        let mut mad = header.with_data(chunk);
        mad.rmpp = Rmpp {
            version: 1,
            kind: RmppKind::Data,
            resp_time: NO_RESP_TIME,
            flags: Rmpp::ACTIVE | if first { Rmpp::FIRST } else { 0 } | if last { Rmpp::LAST } else { 0 },
            status: 0,
            data1: index as u32 + 1,
            data2: length as u32,
        };
        mad
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// `RRespTime` that gives no time.
const NO_RESP_TIME: u8 = 31;

/// Sends one segmented answer: the first segment, and then as far as the receiver's window goes.
#[derive(Debug)]
pub struct Sender {
    segments: Vec<SaMad>,
    /// Segments acknowledged.
    acked: usize,
    /// Segments sent.
    sent: usize,
    /// Last segment the receiver has room for.
    window_end: usize,
    retries_left: u8,
    deadline: Nanos,
}

/// What a sender wants done.
#[derive(Debug, Default)]
pub struct Step {
    /// Send these, in order.
    pub send: Vec<Mad>,
    /// The transfer is over.
    pub finished: bool,
}

impl Sender {
    /// Between a segment and its acknowledgement.
    pub const TIMEOUT: Nanos = Nanos::from_millis(200);
    /// How often a window is sent again before the transfer is given up.
    pub const RETRIES: u8 = 3;

    /// Starts a transfer; the step holds its first segment.
    pub fn start(now: Nanos, header: &SaMad, data: &[u8]) -> (Self, Step) {
        Self::start_with(now, segments(header, data))
    }

    /// The same with these segments, one at least.
    pub(crate) fn start_with(now: Nanos, segments: Vec<SaMad>) -> (Self, Step) {
        let mut sender =
            Self { segments, acked: 0, sent: 0, window_end: 1, retries_left: Self::RETRIES, deadline: now };
        let step = sender.fill_window(now);
        (sender, step)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub const fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// Takes an ACK, STOP or ABORT of this transfer. Others, and acknowledgements of nothing new, change nothing.
    pub fn receive(&mut self, now: Nanos, mad: &SaMad) -> Step {
        match mad.rmpp.kind {
            RmppKind::Ack => self.acknowledge(now, mad.rmpp.data1 as usize, mad.rmpp.data2 as usize),
            RmppKind::Stop | RmppKind::Abort => Step { finished: true, ..Step::default() },
            _ => Step::default(),
        }
    }

    /// Sends the window again, or gives up.
    pub fn handle_timeout(&mut self, now: Nanos) -> Step {
        if now < self.deadline {
            return Step::default();
        }
        let Some(left) = self.retries_left.checked_sub(1) else {
            return Step { send: vec![self.abort(AbortCode::TOO_MANY_RETRIES)], finished: true };
        };
        self.retries_left = left;
        self.sent = self.acked;
        self.fill_window(now)
    }

    fn acknowledge(&mut self, now: Nanos, last_received: usize, window_end: usize) -> Step {
        if last_received > self.sent {
            return Step { send: vec![self.abort(AbortCode::BAD_FIRST)], finished: true };
        }
        if window_end < last_received {
            return Step { send: vec![self.abort(AbortCode::WINDOW_TOO_SMALL)], finished: true };
        }
        if last_received > self.acked {
            self.acked = last_received;
            self.retries_left = Self::RETRIES;
        }
        self.window_end = self.window_end.max(window_end);
        if self.acked == self.segments.len() {
            return Step { finished: true, ..Step::default() };
        }
        self.fill_window(now)
    }

    fn fill_window(&mut self, now: Nanos) -> Step {
        let end = self.window_end.min(self.segments.len());
        let send = self.segments[self.sent.min(end)..end].iter().map(SaMad::emit).collect();
        self.sent = self.sent.max(end);
        self.deadline = now.after(Self::TIMEOUT);
        Step { send, finished: false }
    }

    fn abort(&self, code: AbortCode) -> Mad {
        answer(&self.segments[0], RmppKind::Abort, code, 0, 0).emit()
    }
}

fn answer(to: &SaMad, kind: RmppKind, code: AbortCode, data1: u32, data2: u32) -> SaMad {
    let rmpp =
        Rmpp { version: 1, kind, resp_time: NO_RESP_TIME, flags: Rmpp::ACTIVE, status: code.0, data1, data2 };
    SaMad { rmpp, ..to.with_data(&[]) }
}

/// Puts one segmented answer together again.
#[derive(Debug)]
pub struct Receiver {
    data: Vec<u8>,
    next: u32,
}

/// What a receiver makes of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// Send this acknowledgement; more segments are to come.
    More(Mad),
    /// Send this acknowledgement; here is the answer, its header and all its data.
    Complete(Mad, Box<Message>),
    /// Send this abort; the transfer failed.
    Failed(Mad, AbortCode),
    /// The sender ended the transfer.
    Aborted(AbortCode),
}

/// An answer, however many MADs it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Header of its first MAD.
    pub header: SaMad,
    /// Its attribute data, without the padding of the last segment.
    pub data: Vec<u8>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// Segments a receiver has room for beyond the last one it acknowledged (what ibmf announces).
    pub const WINDOW: u32 = 5;
    /// More data than any answer the lab can give; a longer one is refused rather than held in memory.
    pub const MAX_DATA: usize = 4 << 20;

    /// A receiver that expects the first segment.
    pub const fn new() -> Self {
        Self { data: Vec::new(), next: 1 }
    }

    /// Takes the next MAD of the transfer. Segments seen before are acknowledged again, later ones than the next dropped
    /// and what was received acknowledged, so that the sender starts again there.
    pub fn receive(&mut self, mad: &SaMad) -> Received {
        match mad.rmpp.kind {
            RmppKind::Data => self.segment(mad),
            RmppKind::Stop | RmppKind::Abort => Received::Aborted(AbortCode(mad.rmpp.status)),
            _ => Self::fail(mad, AbortCode::BAD_TYPE),
        }
    }

    fn segment(&mut self, mad: &SaMad) -> Received {
        if mad.rmpp.version != 1 {
            return Self::fail(mad, AbortCode::BAD_VERSION);
        }
        let number = mad.rmpp.data1;
        if number == 0 || (number == 1) != (mad.rmpp.flags & Rmpp::FIRST != 0) {
            return Self::fail(mad, AbortCode::BAD_FIRST);
        }
        if number != self.next {
            return Received::More(self.ack(mad));
        }
        if self.data.len() + DATA_LEN > Self::MAX_DATA {
            return Self::fail(mad, AbortCode::RESOURCES);
        }
        let last = mad.rmpp.flags & Rmpp::LAST != 0;
        let used = if last { Self::last_length(mad) } else { Some(DATA_LEN) };
        let Some(used) = used else { return Self::fail(mad, AbortCode::BAD_LENGTH) };
        self.data.extend_from_slice(&mad.data[..used]);
        self.next += 1;
        let ack = self.ack(mad);
        if !last {
            return Received::More(ack);
        }
        let header = SaMad { rmpp: Rmpp::default(), ..*mad };
        Received::Complete(ack, Box::new(Message { header, data: std::mem::take(&mut self.data) }))
    }

    /// Bytes of data in the last segment; a length that cannot be is refused.
    fn last_length(mad: &SaMad) -> Option<usize> {
        (mad.rmpp.data2 as usize).checked_sub(SA_HEADER_LEN).filter(|length| *length <= DATA_LEN)
    }

    fn ack(&self, mad: &SaMad) -> Mad {
        let received = self.next - 1;
        answer(mad, RmppKind::Ack, AbortCode(0), received, received + Self::WINDOW).emit()
    }

    fn fail(mad: &SaMad, code: AbortCode) -> Received {
        Received::Failed(answer(mad, RmppKind::Abort, code, 0, 0).emit(), code)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mad::{Attribute, Method};

    fn header() -> SaMad {
        SaMad::request(Method::GET_TABLE_RESP, Attribute::PATH_RECORD, 7, 0)
    }

    /// Runs a transfer, losing the segments and acknowledgements whose turn `lost` names.
    fn transfer(data: &[u8], lost: &[usize]) -> Option<Message> {
        let mut turn = 0;
        let mut is_lost = || {
            turn += 1;
            lost.contains(&turn)
        };
        let mut now = Nanos(0);
        let (mut sender, mut step) = Sender::start(now, &header(), data);
        let mut receiver = Receiver::new();
        let mut message = None;
        for _ in 0..10_000 {
            let mut acks = Vec::new();
            for mad in step.send.iter().filter(|_| !is_lost()) {
                match receiver.receive(&SaMad::parse(mad).unwrap()) {
                    Received::More(ack) => acks.push(ack),
                    Received::Complete(ack, done) => {
                        acks.push(ack);
                        message = Some(*done);
                    }
                    other => panic!("{other:?}"),
                }
            }
            if step.finished {
                return message;
            }
            step = Step::default();
            for ack in acks.iter().filter(|_| !is_lost()) {
                let next = sender.receive(now, &SaMad::parse(ack).unwrap());
                step.send.extend(next.send);
                step.finished |= next.finished;
            }
            if step.send.is_empty() && !step.finished {
                now = sender.deadline();
                step = sender.handle_timeout(now);
                if step.finished {
                    return message;
                }
            }
        }
        panic!("the transfer does not end");
    }

    #[test]
    fn an_empty_table_is_one_segment_without_data() {
        let segments = segments(&header(), &[]);
        assert_eq!(segments.len(), 1);
        assert_eq!(segments[0].rmpp.flags, Rmpp::ACTIVE | Rmpp::FIRST | Rmpp::LAST);
        assert_eq!(segments[0].rmpp.data2, 20);
    }

    #[test]
    fn the_first_segment_counts_all_and_the_last_its_own() {
        let segments = segments(&header(), &[0; 450]);
        let lengths: Vec<u32> = segments.iter().map(|segment| segment.rmpp.data2).collect();
        assert_eq!(lengths, [450 + 3 * 20, 0, 50 + 20]);
    }

    /// What becomes of a garbled transfer: the data that arrive, or why they do not. It ends, and in time.
    fn garbled(data: &[u8], garbled: crate::fault::Garbled) -> Result<Vec<u8>, AbortCode> {
        let mut segments = segments(&header(), data);
        garbled.garble(&mut segments);
        let (mut sender, mut step) = Sender::start_with(Nanos(0), segments);
        let mut receiver = Receiver::new();
        for _ in 0..100 {
            let mut answers = Vec::new();
            for mad in std::mem::take(&mut step.send) {
                match receiver.receive(&SaMad::parse(&mad).unwrap()) {
                    Received::More(ack) => answers.push(ack),
                    Received::Complete(_, message) => return Ok(message.data),
                    Received::Failed(_, why) | Received::Aborted(why) => return Err(why),
                }
            }
            let now = sender.deadline();
            step = sender.handle_timeout(now);
            for answer in answers {
                step.send.extend(sender.receive(now, &SaMad::parse(&answer).unwrap()).send);
            }
        }
        panic!("the transfer does not end");
    }

    #[test]
    fn a_receiver_takes_no_answer_whose_segments_are_wrong() {
        use crate::fault::Garbled;
        const MANY: [u8; 900] = [7; 900];
        const ONE: [u8; 64] = [7; 64];
        let gives_up = Err(AbortCode::TOO_MANY_RETRIES);
        for (how, many, one) in [
            (Garbled::Missing, gives_up.clone(), Ok(ONE.to_vec())),
            (Garbled::Twice, Ok(MANY.to_vec()), Ok(ONE.to_vec())),
            (Garbled::Length, Err(AbortCode::BAD_LENGTH), Err(AbortCode::BAD_LENGTH)),
            (Garbled::Number, gives_up, Err(AbortCode::BAD_FIRST)),
            (Garbled::Abort, Err(AbortCode::RESOURCES), Err(AbortCode::RESOURCES)),
        ] {
            assert_eq!(garbled(&MANY, how), many, "{how:?}");
            assert_eq!(garbled(&ONE, how), one, "{how:?}");
        }
    }

    #[test]
    fn a_sender_nobody_acknowledges_gives_up() {
        let (mut sender, step) = Sender::start(Nanos(0), &header(), &[0; 450]);
        assert_eq!(step.send.len(), 1, "one segment until the receiver opens its window");
        for _ in 0..Sender::RETRIES {
            assert!(!sender.handle_timeout(sender.deadline()).finished);
        }
        let step = sender.handle_timeout(sender.deadline());
        assert!(step.finished);
        let abort = SaMad::parse(&step.send[0]).unwrap();
        assert_eq!((abort.rmpp.kind, abort.rmpp.status), (RmppKind::Abort, AbortCode::TOO_MANY_RETRIES.0));
    }

    proptest! {
        #[test]
        fn data_of_any_length_arrives(data in prop::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(transfer(&data, &[]).map(|message| message.data), Some(data));
        }

        #[test]
        fn loss_of_single_packets_does_not_change_the_answer(data in prop::collection::vec(any::<u8>(), 0..3000),
                                                             lost in prop::collection::btree_set(1..60_usize, 0..4)) {
            let lost: Vec<usize> = lost.into_iter().collect();
            let consecutive = lost.windows(2).any(|pair| pair[1] == pair[0] + 1);
            prop_assume!(!consecutive);
            prop_assert_eq!(transfer(&data, &lost).map(|message| message.data), Some(data));
        }

        #[test]
        fn a_receiver_survives_any_mads(mads in prop::collection::vec(prop::collection::vec(any::<u8>(), 256), 0..20)) {
            let mut receiver = Receiver::new();
            for bytes in mads {
                let mut bytes: [u8; 256] = bytes.try_into().unwrap();
                bytes[..3].copy_from_slice(&[1, 3, 2]);
                bytes[25] &= 3;
                bytes[28..31].fill(0);
                let _ = receiver.receive(&SaMad::parse(&Mad(bytes)).unwrap());
            }
        }
    }
}
