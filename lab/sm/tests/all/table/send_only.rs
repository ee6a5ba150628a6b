//! Members that only send and keep their group alive: JoinState 8.

use super::*;
use sm::records::mc_member_mask as mask;

const OK: Status = Status::SUCCESS;
const INVALID: Status = Status::REQ_INVALID;
const INSUFFICIENT: Status = Status::REQ_INSUFFICIENT_COMPONENTS;
/// Full member, and full member that only sends.
const BOTH: JoinState = JoinState::FULL.union(JoinState::SEND_ONLY_FULL);

fn ask(method: Method, mask: u64, port: Guid, mgid: Gid, join_state: JoinState) -> Request {
    Request::of(port, method, mask, &McMemberRecord { join_state, ..join(mgid, port) })
}

fn joins(port: Guid, mgid: Gid, join_state: JoinState) -> Request {
    ask(Method::SET, mask::JOIN, port, mgid, join_state)
}

fn makes(port: Guid, mgid: Gid, join_state: JoinState) -> Request {
    ask(Method::SET, mask::CREATE, port, mgid, join_state)
}

fn leaves(port: Guid, mgid: Gid, join_state: JoinState) -> Request {
    ask(Method::DELETE, mask::JOIN, port, mgid, join_state)
}

/// What the administrator shows a trusted requester of a group: a record for each member.
fn members(mgid: Gid) -> Request {
    let asked = McMemberRecord { mgid, ..McMemberRecord::default() };
    Request::of(A, Method::GET_TABLE, mask::MGID, &asked).trusted()
}

/// Each has a group of its own. The last one is a member in two ways that both keep the group: OpenSM 3.3 never ends a group when such a
/// member leaves one way after the other, so nothing can come behind it.
pub fn rows() -> Vec<Row> {
    const ONLY: JoinState = JoinState::SEND_ONLY_FULL;
    let (all, group) = (broadcast(), |number: u64| ipv4(100 + number));
    let says = |what, request, status| Row::new(what, request, Expect::Status(status));
    let counts = |what, request, count| Row::new(what, request, Expect::Records(count));
    vec![
        says("JoinState 8 in a group that is there", joins(A, all, ONLY), OK),
        says("JoinState 8 in a group that is not there", joins(A, group(1), ONLY), INSUFFICIENT),
        says("JoinState 12 makes a group", makes(A, group(2), ONLY.union(JoinState::SEND_ONLY_NON)), OK),
        says("JoinState 10 makes a group", makes(A, group(3), ONLY.union(JoinState::NON)), OK),
        says("JoinState 6 makes no group", makes(A, group(4), JoinState::truncating(6)), INVALID),
        says("a non-member beside JoinState 8", joins(B, group(5), JoinState::NON), OK).after([makes(
            A,
            group(5),
            ONLY,
        )]),
        says("JoinState 8 leaves as a full member", leaves(A, group(6), JoinState::FULL), INVALID)
            .after([makes(A, group(6), ONLY)]),
        says("JoinState 8 leaves as a sender", leaves(A, group(7), JoinState::SEND_ONLY_NON), INVALID)
            .after([makes(A, group(7), ONLY)]),
        says("JoinState 8 leaves", leaves(A, group(8), ONLY), OK).after([makes(A, group(8), ONLY)]),
        says("a group that JoinState 8 has left", joins(B, group(9), JoinState::FULL), INSUFFICIENT)
            .after([makes(A, group(9), ONLY), leaves(A, group(9), ONLY)]),
        says("JoinState 8 keeps what its full member has left", joins(C, group(10), JoinState::FULL), OK)
            .after([
                makes(A, group(10), JoinState::FULL),
                joins(B, group(10), ONLY),
                leaves(A, group(10), JoinState::FULL),
            ]),
        counts("members of JoinState 8 are counted", members(group(11)), 2)
            .after([makes(A, group(11), ONLY), joins(B, group(11), ONLY)]),
        counts("a member of JoinState 8 that has left is none", members(group(12)), 1).after([
            makes(A, group(12), ONLY),
            joins(B, group(12), ONLY),
            leaves(A, group(12), ONLY),
        ]),
        says(
            "JoinState 8 is left of JoinState 9 and keeps the group",
            joins(B, group(13), JoinState::FULL),
            OK,
        )
        .after([makes(A, group(13), BOTH), leaves(A, group(13), JoinState::FULL)]),
    ]
}
