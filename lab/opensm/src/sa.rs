//! Subnet administration past ibsim's limits.
//!
//! ibsim overwrites a quarter of each transaction ID, so requests travel under numbers of their own. It knows no segmentation:
//! of a table it carries the first 200 bytes, unsegmented, and only the packet's length says whether that was all. A table
//! that fills a MAD may have been cut and is not passed on as if it were whole.

use std::collections::BTreeMap;

use sm::mad::{DATA_LEN, MAD_LEN};
use sm::rmpp::segments;
use sm::{Mad, Method, SaMad, Status};

use crate::client::OTHERS;

/// Requests remembered until they are answered; older ones are not going to be.
const REMEMBERED: usize = 1024;
/// General header, RMPP header, SA header.
const HEADERS: usize = MAD_LEN - DATA_LEN;

/// The requests of one port that are under way.
#[derive(Debug, Default)]
pub struct SaChannel {
    next: u64,
    /// Our number to the request as the client sent it.
    waiting: BTreeMap<u64, SaMad>,
}

/// What became of a MAD that came in.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// For the client, in this order.
    Deliver(Vec<Mad>),
    /// A table that may have been cut: its client has to know.
    Cut(Box<Mad>),
    /// Nobody's.
    Nothing,
}

impl SaChannel {
    /// A MAD of the client as it goes to ibsim; `None` if it goes nowhere: acknowledgements of segments that OpenSM did not
    /// send, and what is no subnet administration.
    pub fn outgoing(&mut self, mad: &Mad) -> Option<Mad> {
        let request = SaMad::parse(mad).ok()?;
        if request.rmpp.is_active() {
            return None;
        }
        if request.method.is_response() {
            return (request.method == Method::REPORT_RESP).then_some(*mad);
        }
        self.next = (self.next + 1) % OTHERS;
        let ours = self.next | OTHERS;
        self.waiting.insert(ours, request);
        if self.waiting.len() > REMEMBERED {
            self.waiting.pop_first();
        }
        Some(SaMad { transaction: ours, ..request }.emit())
    }

    /// A MAD from ibsim of which `len` bytes mean something, as the client shall see it.
    pub fn incoming(&mut self, mad: &Mad, len: usize) -> Incoming {
        let Ok(answer) = SaMad::parse(mad) else { return Incoming::Nothing };
        if !answer.method.is_response() {
            return Incoming::Deliver(vec![*mad]);
        }
        let Some(request) = self.waiting.remove(&crate::client::transaction(mad)) else {
            return Incoming::Nothing;
        };
        let answer = SaMad { transaction: request.transaction, ..answer };
        let is_table = matches!(answer.method, Method::GET_TABLE_RESP | Method::GET_MULTI_RESP);
        if !is_table || answer.status != Status::SUCCESS {
            return Incoming::Deliver(vec![answer.emit()]);
        }
        if len >= MAD_LEN {
            return Incoming::Cut(Box::new(answer.emit()));
        }
        let data = &answer.data[..len.saturating_sub(HEADERS)];
        Incoming::Deliver(segments(&answer, data).iter().map(SaMad::emit).collect())
    }
}

/// The data of a table's answer, `None` if it may have been cut.
pub(crate) fn whole_table(answer: &SaMad, len: usize) -> Option<&[u8]> {
    (len < MAD_LEN).then(|| &answer.data[..len.saturating_sub(HEADERS)])
}

#[cfg(test)]
mod tests {
    use sm::Attribute;
    use sm::records::{McMemberRecord, PathRecord, attribute_offset, emit_table, parse_table};
    use sm::rmpp::{Received, Receiver};

    use super::*;

    const TRANSACTION: u64 = 0x1122_3344_5566_7788;

    /// OpenSM's answer to `asked` with `data`, as ibsim delivers it.
    fn delivered(asked: &Mad, offset: u16, data: &[u8]) -> (Mad, usize) {
        let asked = SaMad::parse(asked).unwrap();
        let ibsims = asked.transaction | 3 << 48;
        let answer =
            SaMad { transaction: ibsims, attribute_offset: offset, ..asked.respond(Status::SUCCESS) };
        (answer.with_data(data).emit(), (HEADERS + data.len()).min(MAD_LEN))
    }

    fn ask(channel: &mut SaChannel) -> Mad {
        let request = SaMad::request(Method::GET_TABLE, Attribute::PATH_RECORD, TRANSACTION, 0);
        channel.outgoing(&request.emit()).expect("it goes out")
    }

    #[test]
    fn a_short_table_arrives_as_one_segment_with_its_length_under_the_clients_transaction() {
        let mut channel = SaChannel::default();
        let asked = ask(&mut channel);
        let records = vec![PathRecord::default(); 3];
        let (mad, len) = delivered(&asked, attribute_offset::<PathRecord>(), &emit_table(&records));
        let Incoming::Deliver(mads) = channel.incoming(&mad, len) else { panic!("three fit") };
        let segment = SaMad::parse(&mads[0]).unwrap();
        assert_eq!((mads.len(), segment.transaction), (1, TRANSACTION));
        let Received::Complete(ack, message) = Receiver::new().receive(&segment) else {
            panic!("one segment")
        };
        assert_eq!(parse_table::<PathRecord>(&message.data, message.header.attribute_offset), records);
        assert_eq!(channel.outgoing(&ack), None, "OpenSM waits for no acknowledgement");
        assert_eq!(channel.incoming(&mad, len), Incoming::Nothing, "answered");
    }

    #[test]
    fn a_table_that_fills_the_mad_is_never_taken_for_whole() {
        let mut channel = SaChannel::default();
        let asked = ask(&mut channel);
        let records = vec![McMemberRecord::default(); 4];
        let (mad, len) = delivered(&asked, attribute_offset::<McMemberRecord>(), &emit_table(&records));
        let Incoming::Cut(mad) = channel.incoming(&mad, len) else { panic!("it was cut") };
        let cut = SaMad::parse(&mad).unwrap();
        assert_eq!((cut.attribute, cut.transaction), (Attribute::PATH_RECORD, TRANSACTION));
    }

    #[test]
    fn a_table_without_records_is_an_empty_one() {
        let mut channel = SaChannel::default();
        let (mad, len) = delivered(&ask(&mut channel), 0, &[]);
        let Incoming::Deliver(mads) = channel.incoming(&mad, len) else { panic!("nothing is little") };
        let received = Receiver::new().receive(&SaMad::parse(&mads[0]).unwrap());
        assert!(matches!(received, Received::Complete(_, message) if message.data.is_empty()));
    }

    #[test]
    fn reports_and_their_answers_keep_their_transaction() {
        let mut channel = SaChannel::default();
        let report = SaMad::request(Method::REPORT, Attribute::NOTICE, 77, 0);
        assert_eq!(channel.incoming(&report.emit(), MAD_LEN), Incoming::Deliver(vec![report.emit()]));
        let response = SaMad { method: Method::REPORT_RESP, ..report }.emit();
        assert_eq!(channel.outgoing(&response), Some(response));
    }

    #[test]
    fn requests_nobody_answers_are_forgotten_in_the_end() {
        let mut channel = SaChannel::default();
        let first = ask(&mut channel);
        for _ in 0..REMEMBERED {
            ask(&mut channel);
        }
        assert_eq!(channel.waiting.len(), REMEMBERED);
        let (mad, len) = delivered(&first, 0, &[]);
        assert_eq!(channel.incoming(&mad, len), Incoming::Nothing);
    }
}
