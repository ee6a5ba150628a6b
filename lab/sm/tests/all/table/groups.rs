//! Joins, creations and leaves.

use super::*;
use sm::records::mc_member_mask as mask;

const OK: Status = Status::SUCCESS;
const INVALID: Status = Status::REQ_INVALID;
const INSUFFICIENT: Status = Status::REQ_INSUFFICIENT_COMPONENTS;

/// A change to the join of A and the broadcast group.
type Edit = fn(&mut McMemberRecord);

fn row(what: &'static str, mask: u64, edit: Edit, expect: Status) -> Row {
    let mut record = join(broadcast(), A);
    edit(&mut record);
    Row::new(what, set(A, mask, &record), Expect::Status(expect))
}

pub fn rows() -> Vec<Row> {
    let mut all = joins();
    all.extend(creations());
    all.extend(demanding().into_iter().map(|row| row.of(Subnet::Demanding)));
    let ways = McMemberRecord { join_state: JoinState::truncating(5), ..join(broadcast(), A) };
    let leave = |row: Row| row.method(Method::DELETE).after([set(A, mask::JOIN, &ways)]);
    all.extend(leaves().into_iter().map(leave));
    all.extend(sequences());
    all
}

fn joins() -> Vec<Row> {
    vec![
        row("the broadcast group with the least there is", mask::JOIN, |_| (), OK),
        row("no MGID", mask::JOIN & !mask::MGID, |_| (), INSUFFICIENT),
        row("no PortGID", mask::JOIN & !mask::PORT_GID, |_| (), INSUFFICIENT),
        row("no JoinState", mask::JOIN & !mask::JOIN_STATE, |_| (), INSUFFICIENT),
        row(
            "the administrator shall choose, without the MGID bit",
            mask::CREATE & !mask::MGID,
            |r| r.mgid = Gid::ZERO,
            INSUFFICIENT,
        ),
        row("an unknown port", mask::JOIN, |r| r.port_gid.guid = NOBODY.0, INVALID),
        row("JoinState 0", mask::JOIN, |r| r.join_state = JoinState::NONE, INVALID),
        row("another subnet", mask::JOIN, |r| r.port_gid.prefix = 0x1234, Status::REQ_INVALID_GID),
        row("another Q_Key", mask::JOIN | mask::Q_KEY, |r| r.q_key = QKey(1), INVALID),
        row("another traffic class", mask::JOIN | mask::T_CLASS, |r| r.t_class = 1, INVALID),
        row("another service level", mask::JOIN | mask::SL, |r| r.sl = Sl::truncating(1), INVALID),
        row("another flow label", mask::JOIN | mask::FLOW_LABEL, |r| r.flow_label = 1, INVALID),
        row("another hop limit", mask::JOIN | mask::HOP_LIMIT, |r| r.hop_limit = 1, INVALID),
        row("another partition", mask::JOIN | mask::P_KEY, |r| r.p_key = PKey(0x8001), INVALID),
        row("no partition at all", mask::JOIN | mask::P_KEY, |r| r.p_key = PKey(0x8000), INVALID),
        row(
            "the limited form of the P_Key",
            mask::JOIN | mask::P_KEY,
            |r| r.p_key = PKey::DEFAULT_LIMITED,
            OK,
        ),
        row(
            "an MTU that is too small",
            mask::JOIN | mask::MTU_SELECTOR | mask::MTU,
            |r| r.mtu = Bound::exactly(3),
            INVALID,
        ),
        row(
            "an MTU above 1024",
            mask::JOIN | mask::MTU_SELECTOR | mask::MTU,
            |r| r.mtu = Bound { selector: Selector::Greater, value: 3 },
            OK,
        ),
        row(
            "an MTU that does not exist",
            mask::JOIN | mask::MTU_SELECTOR | mask::MTU,
            |r| r.mtu = Bound { selector: Selector::Less, value: 9 },
            INVALID,
        ),
        row(
            "a rate that does not exist",
            mask::JOIN | mask::RATE_SELECTOR | mask::RATE,
            |r| r.rate = Bound::exactly(1),
            INVALID,
        ),
        row(
            "a rate below 30 Gb/s",
            mask::JOIN | mask::RATE_SELECTOR | mask::RATE,
            |r| r.rate = Bound { selector: Selector::Less, value: 4 },
            OK,
        ),
        row("a send-only member", mask::JOIN, |r| r.join_state = JoinState::SEND_ONLY_NON, OK),
    ]
}

fn creations() -> Vec<Row> {
    vec![
        row("an IPv4 group with all components", mask::CREATE, |r| r.mgid = ipv4(1), OK),
        row("an IPv4 group with the least there is", mask::JOIN, |r| r.mgid = ipv4(1), INSUFFICIENT),
        row(
            "an IPv4 group without flow label",
            mask::CREATE & !mask::FLOW_LABEL,
            |r| r.mgid = ipv4(1),
            INSUFFICIENT,
        ),
        row(
            "an IPv4 group by a sender",
            mask::CREATE,
            |r| (r.mgid, r.join_state) = (ipv4(1), JoinState::SEND_ONLY_NON),
            INVALID,
        ),
        row(
            "an IPv4 group by a non-member",
            mask::CREATE,
            |r| (r.mgid, r.join_state) = (ipv4(1), JoinState::NON),
            INVALID,
        ),
        row(
            "an IPv4 group by a send-only full member",
            mask::CREATE,
            |r| (r.mgid, r.join_state) = (ipv4(1), JoinState::SEND_ONLY_FULL),
            OK,
        ),
        row(
            "an IPv4 group in a scope without broadcast group",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xff15_401b_ffff_0000, guid: 1 },
            INVALID,
        ),
        row(
            "an IPv6 group in a partition without broadcast group",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xff12_601b_8001_0000, guid: 1 },
            INVALID,
        ),
        row("an IPv6 group", mask::CREATE, |r| r.mgid = Gid { prefix: 0xff12_601b_ffff_0000, guid: 1 }, OK),
        row(
            "an IPv4 group with another Q_Key than the broadcast group",
            mask::CREATE,
            |r| (r.mgid, r.q_key) = (ipv4(1), QKey(1)),
            INVALID,
        ),
        row(
            "an IPv4 group with another service level",
            mask::CREATE,
            |r| (r.mgid, r.sl) = (ipv4(1), Sl::truncating(1)),
            INVALID,
        ),
        row(
            "an IPv4 group with another hop limit",
            mask::CREATE | mask::HOP_LIMIT,
            |r| (r.mgid, r.hop_limit) = (ipv4(1), 1),
            INVALID,
        ),
        row(
            "a signature of the administrator's, link-local",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xff12_a01b_0000_0000, guid: 1 },
            INVALID,
        ),
        row(
            "a signature of the administrator's, site-local",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xff15_a01b_0000_0000, guid: 1 },
            OK,
        ),
        row(
            "a group that is no IPoIB group, with a Q_Key of its own",
            mask::CREATE,
            |r| (r.mgid, r.q_key) = (Gid { prefix: 0xff15_0000_0000_0000, guid: 1 }, QKey(7)),
            OK,
        ),
        row(
            "a group whose first byte is not 0xff",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xfe80_0000_0000_0000, guid: 1 },
            INVALID,
        ),
        row(
            "a group with reserved flags",
            mask::CREATE,
            |r| r.mgid = Gid { prefix: 0xff32_0000_0000_0000, guid: 1 },
            INVALID,
        ),
        row("a group the administrator chooses", mask::CREATE, |r| r.mgid = Gid::ZERO, OK),
        row(
            "a group with a larger MTU than the port's",
            mask::CREATE | mask::MTU_SELECTOR | mask::MTU,
            |r| (r.mgid, r.mtu) = (ipv4(1), Bound::exactly(5)),
            INVALID,
        ),
        row(
            "a group with an MTU above the port's",
            mask::CREATE | mask::MTU_SELECTOR | mask::MTU,
            |r| (r.mgid, r.mtu) = (ipv4(1), Bound { selector: Selector::Greater, value: 4 }),
            INVALID,
        ),
        row(
            "a faster group than the port",
            mask::CREATE | mask::RATE_SELECTOR | mask::RATE,
            |r| (r.mgid, r.rate) = (ipv4(1), Bound::exactly(7)),
            INVALID,
        ),
    ]
}

/// Groups the ports are too slow or too small for, and a partition A is not in.
fn demanding() -> Vec<Row> {
    vec![
        row(
            "a group with a larger MTU than the link's",
            mask::JOIN,
            |r| r.mgid = broadcast_mgid(PKey(1), 2),
            INVALID,
        ),
        row("a faster group than the link", mask::JOIN, |r| r.mgid = broadcast_mgid(PKey(2), 2), INVALID),
        row(
            "a group of a partition the port is not in",
            mask::JOIN,
            |r| r.mgid = broadcast_mgid(PKey(3), 2),
            INVALID,
        ),
        row(
            "the broadcast group of a partition that has none",
            mask::CREATE,
            |r| (r.mgid, r.p_key) = (broadcast_mgid(PKey(4), 2), PKey(0x8004)),
            INVALID,
        ),
    ]
}

/// A is a full and a sending member of the broadcast group.
fn leaves() -> Vec<Row> {
    vec![
        row("one of two ways", mask::JOIN, |_| (), OK),
        row("both ways", mask::JOIN, |r| r.join_state = JoinState::truncating(5), OK),
        row("a way the port is not in", mask::JOIN, |r| r.join_state = JoinState::NON, INVALID),
        row(
            "a way it is in and one it is not",
            mask::JOIN,
            |r| r.join_state = JoinState::truncating(3),
            INVALID,
        ),
        row("no way", mask::JOIN, |r| r.join_state = JoinState::NONE, INVALID),
        row("a port that is no member", mask::JOIN, |r| r.port_gid.guid = B.0, INVALID),
        row("a group that is not there", mask::JOIN, |r| r.mgid = ipv4(9), INVALID),
        row("no PortGID", mask::JOIN & !mask::PORT_GID, |_| (), INSUFFICIENT),
        row("another subnet", mask::JOIN, |r| r.port_gid.prefix = 0x1234, Status::REQ_INVALID_GID),
        row("by another port", mask::JOIN, |_| (), INVALID).from(B),
    ]
}

fn full(port: Guid, mgid: Gid) -> Request {
    set(port, mask::CREATE, &join(mgid, port))
}

fn gone(port: Guid, mgid: Gid) -> Request {
    Request { method: Method::DELETE, ..set(port, mask::JOIN, &join(mgid, port)) }
}

fn sender(port: Guid, mgid: Gid) -> McMemberRecord {
    McMemberRecord { join_state: JoinState::SEND_ONLY_NON, ..join(mgid, port) }
}

fn of(p_key: u16, record: McMemberRecord) -> McMemberRecord {
    McMemberRecord { p_key: PKey(p_key), ..record }
}

/// What depends on what was asked before.
fn sequences() -> Vec<Row> {
    let one = broadcast_mgid(PKey(1), 2);
    let five = broadcast_mgid(PKey::DEFAULT_FULL, 5);
    let other = Gid { prefix: 0xff12_401b_8001_0000, guid: 5 };
    let status = Expect::Status;
    let plain = |what, request| Row::new(what, request, status(OK));
    let leave =
        |record: McMemberRecord, from| Request { method: Method::DELETE, ..set(from, mask::JOIN, &record) };
    vec![
        plain("a join of what the port is in already", full(A, broadcast())).after([full(A, broadcast())]),
        plain("a second way to be a member", set(A, mask::JOIN, &sender(A, broadcast())))
            .after([full(A, broadcast())]),
        plain("a member as a non-member too", {
            set(A, mask::JOIN, &McMemberRecord { join_state: JoinState::NON, ..join(broadcast(), A) })
        })
        .after([full(A, broadcast())]),
        plain("B joins for A", set(B, mask::JOIN, &join(broadcast(), A))),
        plain("C takes A out that B put in", leave(join(broadcast(), A), C)).after([set(
            B,
            mask::JOIN,
            &join(broadcast(), A),
        )]),
        Row::new(
            "B joins for A, which did so itself",
            set(B, mask::JOIN, &join(broadcast(), A)),
            status(INVALID),
        )
        .after([full(A, broadcast())]),
        plain("A joins for itself after B did", full(A, broadcast())).after([set(
            B,
            mask::JOIN,
            &join(broadcast(), A),
        )]),
        plain(
            "a leave echoes what the request holds",
            leave(McMemberRecord { q_key: QKey(0x77), mlid: Lid(0xcafe), ..join(broadcast(), A) }, A),
        )
        .after([full(A, broadcast()), full(B, broadcast())]),
        plain(
            "a leave in one of two ways echoes too",
            leave(McMemberRecord { q_key: QKey(0x77), mlid: Lid(0xcafe), ..sender(A, broadcast()) }, A),
        )
        .after([full(A, broadcast()), set(A, mask::JOIN, &sender(A, broadcast()))]),
        plain("a leave of a non-member way of a full member", gone(A, ipv4(1))).after([full(A, ipv4(1))]),
        Row::new("a second leave", gone(A, ipv4(1)), status(INVALID))
            .after([full(A, ipv4(1)), gone(A, ipv4(1))]),
        Row::new(
            "a sender's leave when the last full member has gone",
            leave(sender(B, ipv4(1)), B),
            status(INVALID),
        )
        .after([full(A, ipv4(1)), set(B, mask::JOIN, &sender(B, ipv4(1))), gone(A, ipv4(1))]),
        plain("a group that takes the place of one that has gone", full(A, ipv4(3))).after([
            full(A, ipv4(1)),
            full(A, ipv4(2)),
            gone(A, ipv4(1)),
        ]),
        plain("a permanent group when its member has gone", full(A, broadcast()))
            .after([full(A, broadcast()), gone(A, broadcast())]),
        plain("a sender in somebody's group", set(B, mask::JOIN, &sender(B, ipv4(1))))
            .after([full(A, ipv4(1))]),
        Row::new(
            "a group with another Q_Key than it has",
            set(B, mask::CREATE, &McMemberRecord { q_key: QKey(7), ..join(ipv4(1), B) }),
            status(INVALID),
        )
        .after([full(A, ipv4(1))]),
        plain(
            "a group without scope",
            set(A, mask::CREATE, &McMemberRecord { scope: 0, ..join(ipv4(1), A) }),
        ),
        plain(
            "a group that lasts",
            set(
                A,
                mask::CREATE | mask::LIFETIME_SELECTOR | mask::LIFETIME,
                &McMemberRecord { lifetime: Bound::exactly(12), ..join(ipv4(1), A) },
            ),
        ),
        plain("a broadcast group made by a client", set(A, mask::CREATE, &of(0x8001, join(one, A))))
            .of(Subnet::NoGroup),
        plain("a group under a client's broadcast group", set(A, mask::CREATE, &of(0x8001, join(other, A))))
            .of(Subnet::NoGroup)
            .after([set(A, mask::CREATE, &of(0x8001, join(one, A)))]),
        plain("a group that outlives its broadcast group", set(B, mask::CREATE, &of(0x8001, join(other, B))))
            .of(Subnet::NoGroup)
            .after([
                set(A, mask::CREATE, &of(0x8001, join(one, A))),
                set(A, mask::CREATE, &of(0x8001, join(other, A))),
                leave(of(0x8001, join(one, A)), A),
            ]),
        Row::new(
            "a group without its broadcast group",
            set(A, mask::CREATE, &of(0x8001, join(other, A))),
            status(INVALID),
        )
        .of(Subnet::NoGroup),
        plain("a limited member", set(B, mask::JOIN | mask::P_KEY, &of(1, join(one, B))))
            .of(Subnet::Partitioned),
        plain("a limited member creates", set(B, mask::CREATE, &of(1, join(other, B))))
            .of(Subnet::Partitioned),
        plain("a limited member asks with the full P_Key", set(B, mask::CREATE, &of(0x8001, join(other, B))))
            .of(Subnet::Partitioned),
        Row::new(
            "no member of the partition",
            set(C, mask::JOIN, &of(0x8001, join(one, C))),
            status(INVALID),
        )
        .of(Subnet::Partitioned),
        plain("a site-local broadcast group", full(A, five)).of(Subnet::SiteLocal),
        plain("a group under a site-local broadcast group", {
            let mgid = Gid { prefix: 0xff15_401b_ffff_0000, guid: 9 };
            set(A, mask::CREATE, &McMemberRecord { scope: 5, ..join(mgid, A) })
        })
        .of(Subnet::SiteLocal),
    ]
}
