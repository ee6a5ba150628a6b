//! The request table, asked of the embedded administrator. OpenSM is asked the same in the crate `opensm`.

use crate::table::{self, Administrator, Answer, Request, Subnet};
use crate::world::World;
use sm::rmpp::{Received, Receiver};
use sm::{SaMad, SmConfig, Status};

impl Administrator for World {
    fn ask(&mut self, request: &Request, _: bool) -> Option<Answer> {
        let transaction = self.next_transaction();
        let mad = request.mad(transaction, |port| self.lid(port));
        self.send(request.from, &mad);
        let mut receiver = Receiver::new();
        loop {
            let mut arrived = self.take(request.from, |mad| mad.transaction == transaction).into_iter();
            let first = arrived.next()?;
            if !first.rmpp.is_active() {
                return Some(Answer::of_one(&first));
            }
            for mad in std::iter::once(first).chain(arrived) {
                match receiver.receive(&mad) {
                    Received::More(ack) => self.send(request.from, &SaMad::parse(&ack).unwrap()),
                    Received::Complete(ack, message) => {
                        self.send(request.from, &SaMad::parse(&ack).unwrap());
                        let offset = message.header.attribute_offset;
                        return Some(Answer { status: Status::SUCCESS, offset, data: message.data });
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn every_row_of_the_request_table_is_answered_as_it_says() {
    let rows = table::rows();
    let mut wrong = Vec::new();
    for subnet in Subnet::ALL {
        let config = SmConfig { partitions: subnet.partitions(), ..SmConfig::default() };
        let mut world = World::with_lanes(config, |port| subnet.lane(port));
        for row in rows.iter().filter(|row| row.subnet == subnet) {
            let answer = table::play(&mut world, row);
            if !Answer::meets(answer.as_ref(), row.expect) {
                wrong.push(format!("{}: {:?}, expected {:?}", row.what, answer, row.expect));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
