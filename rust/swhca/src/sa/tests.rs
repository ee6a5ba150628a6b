//! What the SA answers, asked as `ibmf` asks.

use ibtf_provider::Gid;

use super::{Administrator, PKEYS, PortView, Requester};
use crate::mad::{self, DATA, DELETE, GET, GET_TABLE, Mad, REPORT, SET};

const PREFIX: u64 = 0xfe80 << 48;
const ALL_HOSTS: Gid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 1 };
const BROADCAST: Gid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff };
const FULL: u8 = 1;
const SEND_ONLY: u8 = 4;

const MC_MEMBER: u16 = 0x38;
const PATH: u16 = 0x35;
const JOIN: u64 = 0x1_0003;
const CREATE: u64 = 0x1_30c7;

fn port(number: u8) -> PortView {
    let mut pkeys = [0; PKEYS];
    (pkeys[0], pkeys[1]) = (0xffff, 0x8001);
    PortView {
        gid: Gid { prefix: PREFIX, guid: 0x10 + u64::from(number) },
        lid: number.into(),
        manager: 0x400,
        node_guid: 0x10,
        number,
        ports: 2,
        active: true,
        pkeys,
        mtu: 5,
        speed: 4,
        told_rate: None,
    }
}

/// A subnet of two ports with the broadcast group of the default partition.
struct Subnet {
    sa: Administrator,
    ports: [PortView; 2],
}

/// An answer: its status and, of a table, how many records.
struct Answer {
    mad: Mad,
    status: u16,
    records: usize,
}

impl Answer {
    fn byte(&self, at: usize) -> u8 {
        self.mad.0[DATA + at]
    }

    fn word(&self, at: usize) -> u16 {
        mad::be16(&self.mad.0, DATA + at)
    }
}

impl Subnet {
    fn new() -> Self {
        let mut sa = Administrator::new(&kernel::MayBlock::on_host());
        sa.make_broadcast_group(0xffff).unwrap();
        Self { sa, ports: [port(1), port(2)] }
    }

    fn ask_from(&mut self, lid: u16, request: &Mad) -> Option<Answer> {
        let mut mad = Mad::new();
        let from = Requester { lid, qpn: 0x1234 };
        self.sa.answer(request, from, &self.ports, 0, &mut mad).then(|| {
            let len = 8 * usize::from(mad::be16(&mad.0, 44));
            let bytes = mad::be32(&mad.0, 32) as usize;
            let records = (bytes.saturating_sub(20)).checked_div(len).unwrap_or(0);
            Answer { status: mad::be16(&mad.0, 4), records, mad }
        })
    }

    fn ask(&mut self, request: &Mad) -> Answer {
        self.ask_from(1, request).expect("an answer")
    }

    fn join(&mut self, number: u8, group: Gid, state: u8, mask: u64) -> Answer {
        self.ask(&member(SET, number, group, state, mask))
    }

    /// The traps that are reported now, each with the GID it is about.
    fn traps(&mut self) -> Vec<(u16, Gid, Requester)> {
        let mut mad = Mad::new();
        core::iter::from_fn(|| {
            let to = self.sa.next_report(&mut mad)?;
            assert_eq!((mad.method(), mad.attribute()), (REPORT, 2));
            Some((mad::be16(&mad.0, DATA + 4), mad::gid(&mad.0, DATA + 16), to))
        })
        .collect()
    }
}

fn request(method: u8, attribute: u16, mask: u64) -> Mad {
    let mut mad = Mad::new();
    (mad.0[0], mad.0[1], mad.0[2], mad.0[3]) = (1, mad::CLASS_SA, 2, method);
    mad::put64(&mut mad.0, 8, 0x77);
    mad::put16(&mut mad.0, 16, attribute);
    mad::put64(&mut mad.0, 48, mask);
    mad
}

fn member(method: u8, number: u8, group: Gid, state: u8, mask: u64) -> Mad {
    let mut mad = request(method, MC_MEMBER, mask);
    mad::put_gid(&mut mad.0, DATA, group);
    mad::put_gid(&mut mad.0, DATA + 16, port(number).gid);
    mad::put32(&mut mad.0, DATA + 32, 0x0b1b);
    mad::put16(&mut mad.0, DATA + 40, 0xffff);
    mad.0[DATA + 48] = 2 << 4 | state;
    mad
}

fn path(to: Gid, mask: u64) -> Mad {
    let mut mad = request(GET_TABLE, PATH, 0x180c | mask);
    mad::put_gid(&mut mad.0, DATA + 8, to);
    mad::put_gid(&mut mad.0, DATA + 24, port(1).gid);
    mad.0[DATA + 49] = 0x81;
    mad::put16(&mut mad.0, DATA + 50, 0xffff);
    mad
}

#[test]
fn it_can_do_multicast_or_nobody_would_ask_it_for_groups() {
    let answer = Subnet::new().ask(&request(GET, 0x0001, 0));
    assert_eq!((answer.mad.method(), answer.status), (0x81, 0));
    assert_eq!(answer.word(2) & 0x0200, 0x0200);
    assert_eq!(mad::be64(&answer.mad.0, 8), 0x77, "the transaction is the request's");
}

#[test]
fn the_broadcast_group_is_there_and_its_parameters_come_with_the_join() {
    let mut subnet = Subnet::new();
    let found = subnet.ask(&member(GET_TABLE, 1, BROADCAST, 0, 1));
    assert_eq!((found.mad.method(), found.status, found.records), (0x92, 0, 1));
    let joined = subnet.join(1, BROADCAST, FULL, JOIN);
    assert_eq!((joined.mad.method(), joined.status), (0x81, 0));
    assert_eq!((joined.word(36), joined.byte(38), joined.byte(42)), (0xc000, 0x84, 0x83));
    assert_eq!((mad::be32(&joined.mad.0, DATA + 32), joined.byte(48)), (0x0b1b, 0x21));
}

#[test]
fn a_table_without_records_is_a_success_and_a_get_without_one_is_not() {
    let mut subnet = Subnet::new();
    let table = subnet.ask(&member(GET_TABLE, 1, ALL_HOSTS, 0, 1));
    assert_eq!((table.status, table.records, mad::be16(&table.mad.0, 44)), (0, 0, 0));
    assert_eq!(subnet.ask(&member(GET, 1, ALL_HOSTS, 0, 1)).status, 0x0300);
}

#[test]
fn a_full_member_makes_a_group_with_all_it_takes_and_nobody_else_does() {
    let mut subnet = Subnet::new();
    assert_eq!(subnet.join(1, ALL_HOSTS, SEND_ONLY, CREATE).status, 0x0200);
    assert_eq!(subnet.join(1, ALL_HOSTS, FULL, JOIN).status, 0x0600);
    assert_eq!(subnet.join(1, ALL_HOSTS, 0, CREATE).status, 0x0200);
    let made = subnet.join(1, ALL_HOSTS, FULL, CREATE);
    assert_eq!((made.status, made.word(36)), (0, 0xc001));
    let again = subnet.join(2, ALL_HOSTS, SEND_ONLY, JOIN);
    assert_eq!((again.status, again.word(36), again.byte(48) & 0xf), (0, 0xc001, SEND_ONLY));
}

#[test]
fn a_group_of_ip_needs_its_broadcast_group_and_that_ones_qkey() {
    let mut subnet = Subnet::new();
    let elsewhere = Gid { prefix: 0xff12_401b_8001_0000, guid: 1 };
    let mut request = member(SET, 1, elsewhere, FULL, CREATE);
    mad::put16(&mut request.0, DATA + 40, 0x8001);
    assert_eq!(subnet.ask(&request).status, 0x0200, "its partition has no broadcast group");
    let mut request = member(SET, 1, ALL_HOSTS, FULL, CREATE);
    mad::put32(&mut request.0, DATA + 32, 0x0b1c);
    assert_eq!(subnet.ask(&request).status, 0x0200);
}

#[test]
fn a_port_without_the_pkey_neither_joins_nor_sees_the_group() {
    let mut subnet = Subnet::new();
    subnet.ports[0].pkeys[0] = 0x7ffe;
    assert_eq!(subnet.join(1, BROADCAST, FULL, JOIN).status, 0x0200);
    assert_eq!(subnet.ask(&member(GET_TABLE, 1, BROADCAST, 0, 1)).records, 0);
}

#[test]
fn a_group_faster_or_larger_than_the_port_is_not_joined() {
    let mut subnet = Subnet::new();
    subnet.ports[0].speed = 0;
    assert_eq!(subnet.join(1, BROADCAST, FULL, JOIN).status, 0, "10 Gb/s is what it has");
    let mut request = member(SET, 2, ALL_HOSTS, FULL, CREATE | 0x300 | 0x30);
    (request.0[DATA + 38], request.0[DATA + 42]) = (0x85, 0x87);
    assert_eq!(subnet.ask(&request).status, 0, "port 2 has 4096 bytes and 40 Gb/s");
    assert_eq!(subnet.join(1, ALL_HOSTS, FULL, JOIN).status, 0x0200, "port 1 has 10 Gb/s");
}

#[test]
fn no_group_is_made_with_an_mtu_or_a_rate_that_there_is_not() {
    let mut subnet = Subnet::new();
    // Exactly or more than codes that are none's.
    for (at, byte, mask) in [(38, 0x80, 0x30), (38, 0x87, 0x30), (38, 0x07, 0x30)].into_iter().chain([
        (42, 0x81, 0x300),
        (42, 0xbf, 0x300),
        (42, 0x3f, 0x300),
    ]) {
        let mut request = member(SET, 1, ALL_HOSTS, FULL, CREATE | mask);
        request.0[DATA + at] = byte;
        assert_eq!(subnet.ask(&request).status, 0x0200, "{byte:#x} at {at}");
    }
    assert_eq!(subnet.ask(&member(GET_TABLE, 1, ALL_HOSTS, 0, 1)).records, 0);
    let mut request = member(SET, 1, ALL_HOSTS, FULL, CREATE | 0x330);
    assert_eq!(subnet.ask(&request).status, 0, "more than nothing is anything");
    (request.0[DATA + 38], request.0[DATA + 42]) = (0x85, 0x87);
    assert_eq!(subnet.ask(&request).status, 0, "it is what the port has");
}

#[test]
fn unknown_ports_and_foreign_prefixes_are_refused() {
    let mut subnet = Subnet::new();
    assert_eq!(subnet.join(7, BROADCAST, FULL, JOIN).status, 0x0200);
    let mut request = member(SET, 1, BROADCAST, FULL, JOIN);
    mad::put64(&mut request.0, DATA + 16, 0xfec0 << 48);
    assert_eq!(subnet.ask(&request).status, 0x0500);
}

#[test]
fn a_group_ends_with_its_last_full_member_and_the_lid_is_used_again() {
    let mut subnet = Subnet::new();
    subnet.join(1, ALL_HOSTS, FULL, CREATE);
    subnet.join(2, ALL_HOSTS, SEND_ONLY, JOIN);
    assert_eq!(subnet.ask(&member(DELETE, 2, ALL_HOSTS, FULL, JOIN)).status, 0x0200, "it does not hold that");
    let left = subnet.ask(&member(DELETE, 1, ALL_HOSTS, FULL, JOIN));
    assert_eq!((left.mad.method(), left.status, left.byte(48) & 0xf), (0x95, 0, 0));
    assert_eq!(subnet.ask(&member(GET_TABLE, 1, ALL_HOSTS, 0, 1)).records, 0);
    assert_eq!(subnet.ask(&member(DELETE, 2, ALL_HOSTS, SEND_ONLY, JOIN)).status, 0x0200);
    assert_eq!(subnet.join(2, ALL_HOSTS, FULL, CREATE).word(36), 0xc001);
}

#[test]
fn the_broadcast_group_stays_when_everybody_has_left() {
    let mut subnet = Subnet::new();
    subnet.join(1, BROADCAST, FULL, JOIN);
    assert_eq!(subnet.ask(&member(DELETE, 1, BROADCAST, FULL, JOIN)).status, 0);
    assert_eq!(subnet.join(2, BROADCAST, FULL, JOIN).word(36), 0xc000);
}

#[test]
fn a_path_has_what_both_ports_have() {
    let mut subnet = Subnet::new();
    subnet.ports[1].speed = 1;
    subnet.ports[1].mtu = 4;
    let answer = subnet.ask(&path(port(2).gid, 0x2000));
    assert_eq!((answer.status, answer.records), (0, 1));
    assert_eq!((answer.word(40), answer.word(42), answer.word(50)), (2, 1, 0xffff));
    assert_eq!((answer.byte(49), answer.byte(54), answer.byte(55)), (0x81, 0x84, 0x83));
}

#[test]
fn there_is_no_path_to_a_port_that_is_down_or_in_another_partition() {
    let mut subnet = Subnet::new();
    subnet.ports[1].pkeys[0] = 0x8002;
    assert_eq!(subnet.ask(&path(port(2).gid, 0x2000)).records, 0);
    let shared = subnet.ask(&path(port(2).gid, 0));
    assert_eq!((shared.records, shared.word(50)), (1, 0x8001), "the first that both have");
    subnet.ports[1].active = false;
    assert_eq!(subnet.ask(&path(port(2).gid, 0)).records, 0);
}

#[test]
fn a_path_to_a_group_is_for_its_members() {
    let mut subnet = Subnet::new();
    assert_eq!(subnet.ask(&path(BROADCAST, 0x2000)).records, 0);
    subnet.join(1, BROADCAST, FULL, JOIN);
    let answer = subnet.ask(&path(BROADCAST, 0x2000));
    assert_eq!((answer.records, answer.word(40), answer.byte(49) & 0x80), (1, 0xc000, 0));
}

#[test]
fn the_subnet_manager_is_a_node_that_can_be_asked_for_by_its_lid() {
    let mut subnet = Subnet::new();
    let mut ask = request(GET_TABLE, 0x11, 1);
    mad::put16(&mut ask.0, DATA, 0x400);
    let answer = subnet.ask(&ask);
    assert_eq!((answer.status, answer.records, answer.byte(6)), (0, 1, 2));
    mad::put16(&mut ask.0, DATA, 2);
    let answer = subnet.ask(&ask);
    assert_eq!((answer.byte(6), answer.byte(40), mad::be64(&answer.mad.0, DATA + 24)), (1, 2, 0x12));
}

/// In a segment's flags: its sender does not say how long it takes to respond.
const NO_TIME: u8 = 0xf8;

#[test]
fn query_gets_the_records_that_have_all_that_it_names_and_none_for_what_is_not_known() {
    let mut subnet = Subnet::new();
    let mut by_image = request(GET_TABLE, 0x11, 1 << 6);
    mad::put64(&mut by_image.0, DATA + 8, 0x10);
    assert_eq!(subnet.ask(&by_image).records, 2, "the ports of one adapter");
    mad::put64(&mut by_image.0, DATA + 8, 0x11);
    assert_eq!(subnet.ask(&by_image).records, 0);
    assert_eq!(subnet.ask(&request(GET_TABLE, 0x11, 1 << 40)).records, 0, "there is no such field");
    let mut by_number = request(GET_TABLE, 0x12, 1 << 1);
    by_number.0[DATA + 2] = 2;
    assert_eq!(subnet.ask(&by_number).records, 1);
    assert_eq!(subnet.ask(&request(GET_TABLE, 0x12, 1 << 40)).records, 0);
    let mlid = subnet.join(1, BROADCAST, FULL, JOIN).word(36);
    let mut by_mlid = member(GET_TABLE, 1, BROADCAST, 0, 1 << 3);
    mad::put16(&mut by_mlid.0, DATA + 36, mlid);
    assert_eq!(subnet.ask(&by_mlid).records, 1);
    mad::put16(&mut by_mlid.0, DATA + 36, mlid + 1);
    assert_eq!(subnet.ask(&by_mlid).records, 0);
    let mut from = path(port(2).gid, 1 << 5);
    mad::put16(&mut from.0, DATA + 42, 1);
    assert_eq!(subnet.ask(&from).records, 1);
    mad::put16(&mut from.0, DATA + 42, 2);
    assert_eq!(subnet.ask(&from).records, 0, "it is not from there");
}

/// What a receiver of segments says: that it has all up to `last`, and how far it can take more.
fn acknowledge(last: u32, window: u32) -> Mad {
    let mut mad = request(GET_TABLE, 0x11, 0);
    (mad.0[24], mad.0[25], mad.0[26]) = (1, 2, 1);
    mad::put32(&mut mad.0, 28, last);
    mad::put32(&mut mad.0, 32, window);
    mad
}

impl Subnet {
    /// The segments that are sent at a moment: number, flags and payload length of each.
    fn segments(&mut self, now: u64, data: &mut Vec<u8>) -> Vec<(u32, u8, u32)> {
        let mut mad = Mad::new();
        core::iter::from_fn(|| {
            self.sa.next_segment(now, &mut mad)?;
            data.extend_from_slice(mad.data());
            Some((mad::be32(&mad.0, 28), mad.0[26], mad::be32(&mad.0, 32)))
        })
        .collect()
    }
}

#[test]
fn a_long_answer_goes_in_segments_as_far_as_the_receiver_can_take_them() {
    let mut subnet = Subnet::new();
    let first = subnet.ask(&request(GET_TABLE, 0x11, 0));
    let mut data = first.mad.data().to_vec();
    // Three nodes of 112 bytes.
    let flags = first.mad.0[26];
    assert_eq!((first.status, flags, mad::be32(&first.mad.0, 32)), (0, NO_TIME | 1 | 2, 3 * 112 + 2 * 20));
    assert_eq!(subnet.segments(0, &mut data), [], "one until it is heard of");
    assert!(subnet.ask_from(1, &acknowledge(1, 5)).is_none());
    assert_eq!(subnet.segments(0, &mut data), [(2, NO_TIME | 1 | 4, 3 * 112 - 200 + 20)]);
    assert!(subnet.ask_from(1, &acknowledge(2, 5)).is_none());
    assert_eq!(
        (subnet.segments(u64::MAX / 2, &mut data), subnet.sa.next_due()),
        (vec![], None),
        "it is over"
    );
    let lids: Vec<u16> = (0..3).map(|node| mad::be16(&data, node * 112)).collect();
    assert_eq!(lids, [1, 2, 0x400]);
}

#[test]
fn a_segment_that_nobody_acknowledges_is_sent_again_and_not_for_ever() {
    let mut subnet = Subnet::new();
    subnet.ask(&request(GET_TABLE, 0x11, 0));
    let mut times = 0;
    while let Some(due) = subnet.sa.next_due() {
        let again = subnet.segments(due, &mut Vec::new());
        assert!(again.iter().all(|(number, ..)| *number == 1), "{again:?}");
        times += again.len();
    }
    assert_eq!(times, 39);
}

#[test]
fn an_answer_that_its_receiver_stops_is_not_gone_on_with() {
    let mut subnet = Subnet::new();
    subnet.ask(&request(GET_TABLE, 0x11, 0));
    assert!(subnet.ask_from(2, &acknowledge(1, 5)).is_none(), "somebody else");
    assert_eq!(subnet.segments(0, &mut Vec::new()), []);
    let mut stop = acknowledge(1, 5);
    stop.0[25] = 3;
    assert!(subnet.ask_from(1, &stop).is_none());
    assert_eq!((subnet.segments(0, &mut Vec::new()), subnet.sa.next_due()), (vec![], None));
}

#[test]
fn what_it_does_not_know_is_refused_and_what_is_no_request_is_not_answered() {
    let mut subnet = Subnet::new();
    assert_eq!(subnet.ask(&request(GET, 0x3a, 0)).status, 0x000c);
    assert_eq!(subnet.ask(&request(DELETE, PATH, 0)).status, 0x000c);
    assert!(subnet.ask_from(1, &request(0x86, 2, 0)).is_none(), "a report's answer");
    let mut acknowledgement = request(0x92, PATH, 0);
    (acknowledgement.0[25], acknowledgement.0[26]) = (2, 1);
    assert!(subnet.ask_from(1, &acknowledgement).is_none());
    let mut other = request(GET, 1, 0);
    other.0[1] = 4;
    assert!(subnet.ask_from(1, &other).is_none(), "performance management");
}

fn subscription(subscribe: u8, producer: u8) -> Mad {
    let mut mad = request(SET, 0x0003, 0);
    (mad.0[DATA + 22], mad.0[DATA + 23]) = (1, subscribe);
    mad::put16(&mut mad.0, DATA + 16, 0xffff);
    mad::put32(&mut mad.0, DATA + 24, 0xffff_ffff);
    mad.0[DATA + 35] = producer;
    mad
}

#[test]
fn subscribers_hear_of_groups_and_ports_and_each_of_each_once() {
    let mut subnet = Subnet::new();
    for producer in [4, 1, 2, 3] {
        assert_eq!(subnet.ask(&subscription(1, producer)).status, 0);
    }
    assert_eq!(subnet.ask_from(2, &subscription(1, 4)).unwrap().status, 0);
    subnet.join(1, ALL_HOSTS, FULL, CREATE);
    subnet.sa.port_down(port(1).gid);
    let heard: Vec<_> = subnet.traps().into_iter().map(|(trap, gid, to)| (trap, gid, to.lid)).collect();
    let gone = port(1).gid;
    assert_eq!(
        heard,
        [
            (66, ALL_HOSTS, 1),
            (66, ALL_HOSTS, 2),
            (67, ALL_HOSTS, 1),
            (67, ALL_HOSTS, 2),
            (65, gone, 1),
            (65, gone, 2)
        ]
    );
    assert_eq!(subnet.ask(&subscription(0, 4)).status, 0);
    assert_eq!(subnet.ask(&subscription(0, 4)).status, 0x0200, "it has none any more");
    subnet.sa.port_up(gone);
    assert_eq!(subnet.traps().len(), 1);
}

#[test]
fn port_that_is_removed_leaves_its_groups_and_is_told_of_unless_it_was_down() {
    for (was_active, told) in [(true, vec![66, 67, 65]), (false, vec![66, 67])] {
        let mut subnet = Subnet::new();
        assert_eq!(subnet.ask_from(2, &subscription(1, 4)).unwrap().status, 0);
        subnet.join(1, ALL_HOSTS, FULL, CREATE);
        subnet.sa.port_removed(port(1).gid, was_active);
        let traps: Vec<_> = subnet.traps().into_iter().map(|(trap, ..)| trap).collect();
        assert_eq!(traps, told);
        assert_eq!(subnet.ask(&member(GET_TABLE, 2, ALL_HOSTS, 0, 1)).records, 0);
    }
}

#[test]
fn each_port_that_there_can_be_subscribes_four_times() {
    use crate::port::{MAX_ADAPTERS, MAX_PORTS};
    let mut subscribers = super::Subscribers::new(&kernel::MayBlock::on_host());
    for lid in 1..=MAX_ADAPTERS as u16 * u16::from(MAX_PORTS) {
        for producer in [4, 1, 2, 3] {
            let set = subscribers.set(&subscription(1, producer), Requester { lid, qpn: 1 });
            assert!(set.is_ok(), "LID {lid}");
        }
    }
}

#[test]
fn subscriber_whose_lid_is_another_now_is_not_told_and_the_others_are() {
    let mut subnet = Subnet::new();
    assert_eq!(subnet.ask(&subscription(1, 4)).status, 0);
    assert_eq!(subnet.ask_from(2, &subscription(1, 4)).unwrap().status, 0);
    subnet.sa.port_down(port(1).gid);
    subnet.sa.port_up(port(1).gid);
    subnet.sa.forget(1);
    let heard: Vec<_> = subnet.traps().into_iter().map(|(trap, _, to)| (trap, to.lid)).collect();
    assert_eq!(heard, [(65, 2), (64, 2)]);
}

#[test]
fn subscribers_hear_of_what_happened_elsewhere_and_what_is_too_much_to_tell_is_refused() {
    use super::{NOTICES, Notice, Trap};
    let mut subnet = Subnet::new();
    assert_eq!(subnet.ask(&subscription(1, 4)).status, 0);
    let elsewhere = Gid { prefix: PREFIX, guid: 0x99 };
    let trap = Trap::of(65).expect("a port that went");
    assert!((0..NOTICES).all(|_| subnet.sa.happened(Notice { trap, gid: elsewhere })));
    assert!(!subnet.sa.happened(Notice { trap, gid: elsewhere }));
    let told = subnet.traps();
    assert_eq!(told.len(), NOTICES);
    assert!(told.iter().all(|(trap, gid, to)| (*trap, *gid, to.lid) == (65, elsewhere, 1)));
    assert_eq!((Trap::of(63), Trap::of(68)), (None, None));
}

#[test]
fn a_restart_forgets_groups_members_and_subscribers_but_not_what_is_configured() {
    let mut subnet = Subnet::new();
    subnet.ask(&subscription(1, 4));
    subnet.join(1, BROADCAST, FULL, JOIN);
    subnet.join(1, ALL_HOSTS, FULL, CREATE);
    subnet.sa.restart();
    assert_eq!(subnet.traps(), []);
    assert_eq!(subnet.ask(&member(GET_TABLE, 1, ALL_HOSTS, 0, 1)).records, 0);
    assert_eq!(subnet.ask(&path(BROADCAST, 0x2000)).records, 0, "nobody is a member");
    assert_eq!(subnet.join(2, BROADCAST, FULL, JOIN).status, 0);
}
