//! Paths, queries of groups, subscriptions, and what nobody answers.

use super::*;
use sm::records::{
    ClassPortInfo, InformInfo, PKeyTableRecord, mc_member_mask, p_key_table_mask, path_mask as mask,
};

const INVALID: Status = Status::REQ_INVALID;

const MTU: u64 = ONE_PATH | mask::MTU_SELECTOR | mask::MTU;
const RATE: u64 = ONE_PATH | mask::RATE_SELECTOR | mask::RATE;

pub fn rows() -> Vec<Row> {
    let mut all = paths();
    all.extend(refused_paths());
    all.extend(multicast_paths());
    all.extend(group_queries());
    all.extend(others());
    all.extend(p_key_tables());
    all
}

fn table<R: Record>(from: Guid, mask: u64, record: &R) -> Request {
    Request::of(from, Method::GET_TABLE, mask, record)
}

fn row(what: &'static str, mask: u64, edit: fn(&mut PathRecord), records: usize) -> Row {
    let mut asked = path(gid(B));
    edit(&mut asked);
    Row::new(what, table(A, mask, &asked), Expect::Records(records))
}

fn paths() -> Vec<Row> {
    let partitioned = |row: Row| row.of(Subnet::Partitioned);
    vec![
        row("a path to B", ONE_PATH, |_| (), 1),
        row("a path to itself", ONE_PATH, |r| r.dgid = gid(A), 1),
        row("a path to a port nobody has", ONE_PATH, |r| r.dgid = gid(NOBODY), 0),
        row("a path to another subnet", ONE_PATH, |r| r.dgid.prefix = 0x1234, 0),
        row("a path from another subnet", ONE_PATH, |r| r.sgid.prefix = 0x1234, 0),
        row("a path in a partition neither has", ONE_PATH, |r| r.p_key = PKey(0x8001), 0),
        partitioned(row("a path between full and limited", ONE_PATH, |r| r.p_key = PKey(0x8001), 1)),
        partitioned(row("a path in the limited form", ONE_PATH, |r| r.p_key = PKey(0x0001), 1)),
        partitioned(row(
            "a path between limited members",
            ONE_PATH,
            |r| (r.dgid, r.p_key) = (gid(C), PKey(2)),
            0,
        )),
        partitioned(row(
            "a path between ports that share no partition",
            ONE_PATH & !mask::P_KEY,
            |r| r.dgid = gid(C),
            0,
        )),
        row("a path without a P_Key", ONE_PATH & !mask::P_KEY, |_| (), 1).of(Subnet::Three),
        row(
            "a path with an MTU above the link's",
            MTU,
            |r| r.mtu = Bound { selector: Selector::Greater, value: 4 },
            0,
        ),
        row("a path with an exact smaller MTU", MTU, |r| r.mtu = Bound::exactly(3), 1),
        row("a path with the largest MTU", MTU, |r| r.mtu = Bound { selector: Selector::Best, value: 4 }, 1),
        row("a path with an exact other rate", RATE, |r| r.rate = Bound::exactly(2), 0),
        row("none of the paths", ONE_PATH, |r| r.numb_path = 0, 0),
    ]
}

fn refused_paths() -> Vec<Row> {
    let refused = |what, mask, record: PathRecord, status| {
        Row::new(what, table(A, mask, &record), Expect::Status(status))
    };
    let other_source = Request { lid: Some((42, B)), ..table(A, ONE_PATH | mask::SLID, &path(gid(B))) };
    let mtu = PathRecord { mtu: Bound::exactly(9), rate: Bound::exactly(3), ..path(gid(B)) };
    let rate = PathRecord { mtu: Bound::exactly(4), rate: Bound::exactly(1), ..path(gid(B)) };
    vec![
        refused("a path with an MTU that does not exist", MTU, mtu, INVALID),
        refused("a path with a rate that does not exist", RATE, rate, INVALID),
        refused(
            "a path with the largest MTU, and none given",
            MTU,
            PathRecord { mtu: Bound { selector: Selector::Best, value: 0 }, ..path(gid(B)) },
            INVALID,
        ),
        refused(
            "a path with half a service ID",
            ONE_PATH | 1,
            path(gid(B)),
            Status::REQ_INSUFFICIENT_COMPONENTS,
        ),
        Row::new("a path whose SGID and SLID disagree", other_source, Expect::Status(INVALID)),
    ]
}

fn multicast_paths() -> Vec<Row> {
    let mgid = broadcast_mgid(PKey(1), 2);
    let asked = PathRecord { p_key: PKey(0x8001), ..path(mgid) };
    let member = |port| McMemberRecord {
        p_key: PKey(0x8001),
        join_state: JoinState::SEND_ONLY_NON,
        ..join(mgid, port)
    };
    let joined = |port| set(port, mc_member_mask::JOIN, &member(port));
    let limited = PathRecord { sgid: gid(B), p_key: PKey(0x0001), ..asked };
    let open = PathRecord { p_key: PKey::DEFAULT_FULL, ..path(ipv4(1)) };
    let created = set(A, mc_member_mask::CREATE, &join(ipv4(1), A));
    let rows: [(&'static str, Request, Vec<Request>, usize); 3] = [
        ("a path to a group, by no member", table(A, ONE_PATH, &asked), vec![], 0),
        ("a path to a group, by a sender", table(A, ONE_PATH, &asked), vec![joined(A)], 1),
        ("a path to a group in the limited form", table(B, ONE_PATH, &limited), vec![joined(B)], 0),
    ];
    let row = |(what, ask, before, count)| {
        Row::new(what, ask, Expect::Records(count)).of(Subnet::Partitioned).after(before)
    };
    let mut all: Vec<Row> = rows.into_iter().map(row).collect();
    all.push(
        Row::new("a path to a client's group", table(A, ONE_PATH, &open), Expect::Records(1))
            .after([created]),
    );
    all
}

fn group_queries() -> Vec<Row> {
    let created = || set(A, mc_member_mask::CREATE, &join(ipv4(1), A));
    let scopeless = McMemberRecord { scope: 0, ..join(ipv4(1), A) };
    let scopeless = || set(A, mc_member_mask::CREATE, &scopeless);
    let both = || [A, B].map(|port| set(port, mc_member_mask::JOIN, &join(broadcast(), port)));
    let count = |what, ask, count| Row::new(what, ask, Expect::Records(count));
    let mgid = |mgid| table(A, mc_member_mask::MGID, &join(mgid, A));
    let hidden = join(broadcast_mgid(PKey(3), 2), A);
    let get = |mask, record: &McMemberRecord| Request::of(A, Method::GET, mask, record);
    vec![
        count("a group by its MGID", mgid(ipv4(1)), 1).after([created()]),
        count("a group that is not there", mgid(ipv4(9)), 0),
        count("all groups", table(B, 0, &McMemberRecord::default()), 2).after([created()]),
        count(
            "groups by MLID",
            {
                table(
                    A,
                    mc_member_mask::MLID,
                    &McMemberRecord { mlid: Lid(0xc001), ..McMemberRecord::default() },
                )
            },
            1,
        )
        .after([created()]),
        count("groups by P_Key", table(A, mc_member_mask::P_KEY, &join(ipv4(1), A)), 2).after([created()]),
        count("groups by scope", table(A, mc_member_mask::SCOPE, &join(ipv4(1), A)), 2).after([created()]),
        count(
            "a group made without scope, by scope",
            table(A, mc_member_mask::MGID | mc_member_mask::SCOPE, &join(ipv4(1), A)),
            0,
        )
        .after([scopeless()]),
        count("members, by somebody who is not trusted", mgid(broadcast()), 1).after(both()),
        count("members, by somebody who is trusted", mgid(broadcast()).trusted(), 2).after(both()),
        count(
            "one member, by somebody who is trusted",
            table(A, mc_member_mask::MGID | mc_member_mask::PORT_GID, &join(broadcast(), B)).trusted(),
            1,
        )
        .after(both()),
        count("a group of a partition the port is not in", table(A, mc_member_mask::MGID, &hidden), 0)
            .of(Subnet::Demanding),
        count("a group of a partition the port is in", table(B, mc_member_mask::MGID, &hidden), 1)
            .of(Subnet::Demanding),
        Row::new(
            "a Get that finds one",
            get(mc_member_mask::MGID, &join(broadcast(), A)),
            Expect::Status(Status::SUCCESS),
        ),
        Row::new(
            "a Get that finds nothing",
            get(mc_member_mask::MGID, &join(ipv4(9), A)),
            Expect::Status(Status::NO_RECORDS),
        ),
        Row::new("a Get that finds two", get(0, &join(ipv4(9), A)), Expect::Status(Status::TOO_MANY_RECORDS))
            .after([created()]),
    ]
}

/// Of B, whose LID stands where the record begins.
fn p_key_tables() -> Vec<Row> {
    let block = |number| PKeyTableRecord { block: number, ..PKeyTableRecord::default() };
    let of_b = |mask, record: &PKeyTableRecord| Request {
        lid: Some((0, B)),
        ..table(A, p_key_table_mask::LID | mask, record).trusted()
    };
    let first = of_b(p_key_table_mask::BLOCK, &block(0));
    let asked = |mask| table(A, mask, &PKeyTableRecord { lid: Lid(0x77), ..block(0) }).trusted();
    vec![
        Row::new("the P_Keys of a port", first.clone(), Expect::Records(1)),
        Row::new("the P_Keys of a port", first.clone(), Expect::Records(1)).of(Subnet::Partitioned),
        Row::new(
            "a block of P_Keys that no port has",
            of_b(p_key_table_mask::BLOCK, &block(9)),
            Expect::Records(1),
        ),
        Row::new("P_Keys for the untrusted", Request { sm_key: 0, ..first }, Expect::Status(INVALID)),
        Row::new("P_Keys at a LID nobody has", asked(p_key_table_mask::LID), Expect::Records(0)),
    ]
}

fn others() -> Vec<Row> {
    let inform = |subscribe, qpn| InformInfo { subscribe, qpn, ..InformInfo::every_trap(4) };
    let ask = |inform: InformInfo| Request::of(C, Method::SET, 0, &inform);
    let nothing = Qpn::truncating(0);
    let unknown = |method| Request {
        from: A,
        method,
        attribute: Attribute(0x7777),
        mask: 0,
        sm_key: 0,
        data: vec![],
        lid: None,
    };
    let info = Request::of(A, Method::GET, 0, &ClassPortInfo::default());
    let status = Expect::Status;
    vec![
        Row::new("a subscription", ask(inform(true, nothing)), status(Status::SUCCESS)),
        Row::new("its end without the queue pair", ask(inform(false, nothing)), status(INVALID)),
        Row::new("its end with the queue pair", ask(inform(false, Qpn::GSI)), status(Status::SUCCESS)),
        Row::new("the end of what was not subscribed", ask(inform(false, Qpn::GSI)), status(INVALID)),
        Row::new("what the administrator can do", info.clone(), status(Status::SUCCESS)),
        Row::new("a request with a wrong SM_Key", Request { sm_key: 2, ..info }, Expect::Silence),
        Row::new("an attribute that does not exist", unknown(Method::GET), Expect::Silence),
        Row::new(
            "Delete(PathRecord)",
            Request::of(A, Method::DELETE, ONE_PATH, &path(gid(B))),
            Expect::Silence,
        ),
        Row::new(
            "GetTraceTable(PathRecord)",
            Request::of(A, Method::GET_TRACE_TABLE, ONE_PATH, &path(gid(B))),
            Expect::Silence,
        ),
        Row::new(
            "Get(PathRecord)",
            Request::of(A, Method::GET, ONE_PATH, &path(gid(B))),
            status(Status::SUCCESS),
        ),
        Row::new(
            "Get(PathRecord) of none",
            Request::of(A, Method::GET, ONE_PATH, &path(gid(NOBODY))),
            status(Status::NO_RECORDS),
        ),
    ]
}
