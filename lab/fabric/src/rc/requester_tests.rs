//! The requester alone.

use super::*;
use crate::{AddressVector, Qpn};

const FIRST: u32 = 0x00ff_fffe;

fn connection(retry: u8, rnr_retry: u8) -> Requester {
    let receive = ReadyToReceive {
        vector: AddressVector::PLACEHOLDER,
        pkey_ix: 0,
        peer: Qpn::truncating(9),
        first_psn: 0,
        path_mtu: Mtu::M256,
        min_rnr: 0,
    };
    let mut requester = Requester::new();
    requester.start(&receive, &ReadyToSend { first_psn: FIRST, ack_timeout: 1, retry, rnr_retry });
    requester
}

fn message(seq: u64, len: usize) -> Message {
    Message {
        seq,
        wr_id: seq + 100,
        signalled: true,
        solicited: false,
        immediate: None,
        bytes: Ok(Arc::new(vec![seq as u8; len])),
        not_before: Nanos(0),
    }
}

/// Numbers of the packets that go now, and until when it waits then.
fn sent(requester: &mut Requester, now: u64) -> (Vec<u32>, Option<Nanos>) {
    let mut psns = Vec::new();
    loop {
        match requester.step(Nanos(now)) {
            Step::Send(segment) => psns.push(segment.psn),
            Step::Wait(until) => return (psns, until),
            Step::Fail(..) => panic!("it failed"),
        }
    }
}

fn say(syndrome: Syndrome) -> Aeth {
    Aeth { syndrome, msn: 0 }
}

fn seqs(arrived: &[Ended]) -> Vec<u64> {
    arrived.iter().map(|message| message.seq).collect()
}

/// Twice the time of code 1.
const PATIENCE: u64 = 2 * 8_192;

#[test]
fn a_message_is_cut_at_the_path_mtu_and_numbers_wrap() {
    let mut requester = connection(1, 1);
    requester.push(message(0, 600));
    requester.push(message(1, 0));
    let mut segments = Vec::new();
    while let Step::Send(segment) = requester.step(Nanos(0)) {
        segments.push((segment.psn, segment.opcode, segment.payload().len()));
    }
    use RcOpcode::{SendFirst, SendLast, SendMiddle, SendOnly};
    let expected =
        [(FIRST, SendFirst, 256), (0x00ff_ffff, SendMiddle, 256), (0, SendLast, 88), (1, SendOnly, 0)];
    assert_eq!(segments, expected);
}

#[test]
fn an_acknowledgement_is_for_everything_before_it_too() {
    let mut requester = connection(1, 1);
    for seq in 0..3 {
        requester.push(message(seq, 300));
    }
    assert_eq!(sent(&mut requester, 0).0.len(), 6);
    let outcome = requester.acknowledged(1, say(Syndrome::Ack), Nanos(5));
    assert_eq!(seqs(&outcome.arrived), [0, 1]);
    assert_eq!(requester.acknowledged(1, say(Syndrome::Ack), Nanos(6)), Acknowledged::default(), "again");
    assert_eq!(
        requester.acknowledged(900, say(Syndrome::Ack), Nanos(6)),
        Acknowledged::default(),
        "never sent"
    );
    assert_eq!(sent(&mut requester, 6).1, Some(Nanos(5 + PATIENCE)));
    assert_eq!(seqs(&requester.acknowledged(3, say(Syndrome::Ack), Nanos(7)).arrived), [2]);
    assert_eq!(sent(&mut requester, 8), (vec![], None), "nothing is owed");
}

#[test]
fn what_nobody_acknowledges_goes_again_so_often_and_then_fails() {
    let mut requester = connection(2, 1);
    requester.push(message(0, 300));
    let mut now = 0;
    for _ in 0..3 {
        let (psns, until) = sent(&mut requester, now);
        assert_eq!(psns, [FIRST, 0x00ff_ffff]);
        now = until.unwrap().0;
    }
    assert_eq!(now, 3 * PATIENCE);
    let Step::Fail(message, status) = requester.step(Nanos(now)) else { panic!("it goes on") };
    assert_eq!((message.seq, status), (0, CompletionStatus::TransportTimeout));
}

#[test]
fn an_acknowledgement_gives_all_tries_back() {
    let mut requester = connection(1, 1);
    requester.push(message(0, 300));
    sent(&mut requester, 0);
    sent(&mut requester, PATIENCE);
    requester.acknowledged(FIRST, say(Syndrome::Ack), Nanos(PATIENCE + 1));
    let (psns, until) = sent(&mut requester, 2 * PATIENCE + 1);
    assert_eq!((psns, until), (vec![0x00ff_ffff], Some(Nanos(3 * PATIENCE + 1))));
}

#[test]
fn a_gap_is_filled_from_where_it_begins() {
    let mut requester = connection(1, 1);
    requester.push(message(0, 1000));
    sent(&mut requester, 0);
    requester.acknowledged(0, say(Syndrome::Nak(NakCode::Sequence)), Nanos(1));
    assert_eq!(sent(&mut requester, 1).0, [0, 1]);
}

#[test]
fn a_peer_without_a_receive_is_waited_for_so_often_and_then_given_up() {
    let mut requester = connection(1, 2);
    requester.push(message(0, 10));
    let mut now = 0;
    for _ in 0..2 {
        assert_eq!(sent(&mut requester, now).0, [FIRST]);
        assert_eq!(requester.acknowledged(FIRST, say(Syndrome::NotReady(1)), Nanos(now)).failed, None);
        assert_eq!(sent(&mut requester, now + 9_999), (vec![], Some(Nanos(now + 10_000))));
        now += 10_000;
    }
    assert_eq!(sent(&mut requester, now).0, [FIRST]);
    let failed = requester.acknowledged(FIRST, say(Syndrome::NotReady(1)), Nanos(now)).failed.unwrap();
    assert_eq!(failed.1, CompletionStatus::RnrTimeout);
}

#[test]
fn seven_is_for_ever() {
    let mut requester = connection(0, 7);
    requester.push(message(0, 10));
    for round in 0..1000 {
        let now = round * 655_360_000;
        assert_eq!(sent(&mut requester, now).0, [FIRST]);
        assert_eq!(requester.acknowledged(FIRST, say(Syndrome::NotReady(0)), Nanos(now)).failed, None);
    }
}

#[test]
fn a_refusal_ends_the_message_it_is_about_and_completes_those_before() {
    let mut requester = connection(1, 1);
    for seq in 0..3 {
        requester.push(message(seq, 10));
    }
    sent(&mut requester, 0);
    let outcome = requester.acknowledged(0x00ff_ffff, say(Syndrome::Nak(NakCode::InvalidRequest)), Nanos(1));
    assert_eq!(seqs(&outcome.arrived), [0]);
    let (failed, status) = outcome.failed.unwrap();
    assert_eq!((failed.seq, status), (1, CompletionStatus::RemoteInvalidRequest));
    assert_eq!(seqs(&requester.abandon()), [2]);
}

#[test]
fn a_message_whose_bytes_could_not_be_had_waits_for_those_before_it_and_then_fails() {
    let mut requester = connection(1, 1);
    requester.push(message(0, 10));
    requester.push(Message { bytes: Err(CompletionStatus::LocalProtection), ..message(1, 0) });
    assert_eq!(sent(&mut requester, 0).0, [FIRST]);
    requester.acknowledged(FIRST, say(Syndrome::Ack), Nanos(1));
    let Step::Fail(failed, status) = requester.step(Nanos(1)) else { panic!("it goes on") };
    assert_eq!((failed.seq, status), (1, CompletionStatus::LocalProtection));
}
