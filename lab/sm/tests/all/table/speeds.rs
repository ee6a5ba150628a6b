//! Rates of paths and of groups where ports differ: every code that OpenSM 3.3.23 knows, which is up to 22.

use super::*;
use sm::records::{mc_member_mask, path_mask};

const PATH: u64 = ONE_PATH | path_mask::RATE_SELECTOR | path_mask::RATE;
const JOIN: u64 = mc_member_mask::JOIN | mc_member_mask::RATE_SELECTOR | mc_member_mask::RATE;
const CREATE: u64 = mc_member_mask::CREATE | mc_member_mask::RATE_SELECTOR | mc_member_mask::RATE;

const EXACTLY: Selector = Selector::Exactly;
const ABOVE: Selector = Selector::Greater;
const BELOW: Selector = Selector::Less;
const BEST: Selector = Selector::Best;

pub fn rows() -> Vec<Row> {
    let mut all = paths();
    all.extend(creations());
    all.extend(joins());
    all.extend((2..=22).flat_map(every_code));
    all.into_iter().map(|row| row.of(Subnet::Mixed)).collect()
}

/// From A, whose port does 100 Gb/s, to B with 40, C with 10, or itself.
fn way(what: &'static str, to: Guid, selector: Selector, value: u8, records: usize) -> Row {
    let asked = PathRecord { rate: Bound { selector, value }, ..path(gid(to)) };
    Row::new(what, Request::of(A, Method::GET_TABLE, PATH, &asked), Expect::Records(records))
}

fn paths() -> Vec<Row> {
    let any = |what, to| {
        Row::new(what, Request::of(A, Method::GET_TABLE, ONE_PATH, &path(gid(to))), Expect::Records(1))
    };
    vec![
        any("the way from EDR to QDR", B),
        any("the way from EDR to SDR", C),
        any("the way from EDR to itself", A),
        way("exactly 40 Gb/s to QDR", B, EXACTLY, 7, 1),
        way("exactly the sender's 100 Gb/s to QDR", B, EXACTLY, 16, 0),
        way("exactly 10 Gb/s to QDR", B, EXACTLY, 3, 0),
        way("above 10 Gb/s to QDR", B, ABOVE, 3, 1),
        way("above 40 Gb/s to QDR", B, ABOVE, 7, 0),
        way("below 40 Gb/s to QDR", B, BELOW, 7, 1),
        way("below 56 Gb/s to QDR", B, BELOW, 12, 1),
        way("the best to SDR", C, BEST, 3, 1),
    ]
}

fn group(number: u64, port: Guid, selector: Selector, value: u8) -> McMemberRecord {
    McMemberRecord { rate: Bound { selector, value }, ..join(ipv4(number), port) }
}

fn creation(what: &'static str, port: Guid, selector: Selector, value: u8, expect: Status) -> Row {
    Row::new(what, set(port, CREATE, &group(70, port, selector, value)), Expect::Status(expect))
}

const OK: Status = Status::SUCCESS;
const INVALID: Status = Status::REQ_INVALID;

fn creations() -> Vec<Row> {
    let bare = |what, port| {
        Row::new(what, set(port, mc_member_mask::CREATE, &join(ipv4(70), port)), Expect::Status(OK))
    };
    vec![
        bare("a group that EDR creates and says nothing", A),
        bare("a group that QDR creates and says nothing", B),
        bare("a group that SDR creates and says nothing", C),
        creation("a group that QDR creates for 100 Gb/s", B, EXACTLY, 16, INVALID),
        creation("a group that SDR creates for 20 Gb/s", C, EXACTLY, 6, INVALID),
        creation("a group for the best there is", A, BEST, 3, OK),
        creation("a group for less than QDR has", B, BELOW, 7, OK),
        creation("a group for less than anybody has", B, BELOW, 2, INVALID),
    ]
}

fn joins() -> Vec<Row> {
    let made = |code| set(A, CREATE, &group(71, A, EXACTLY, code));
    let joined = |what, port, code, expect| {
        let ask = set(port, mc_member_mask::JOIN, &join(ipv4(71), port));
        Row::new(what, ask, Expect::Status(expect)).after([made(code)])
    };
    let bounded = |what, selector, value, expect| {
        Row::new(what, set(B, JOIN, &group(71, B, selector, value)), Expect::Status(expect)).after([made(7)])
    };
    vec![
        joined("QDR joins a group of 100 Gb/s", B, 16, INVALID),
        joined("QDR joins a group of 56 Gb/s", B, 12, INVALID),
        joined("QDR joins a group of 40 Gb/s", B, 7, OK),
        joined("SDR joins a group of 40 Gb/s", C, 7, INVALID),
        joined("SDR joins a group of 10 Gb/s", C, 3, OK),
        bounded("a group of 40 Gb/s, if above 30", ABOVE, 4, OK),
        bounded("a group of 40 Gb/s, if above 56", ABOVE, 12, INVALID),
        bounded("a group of 40 Gb/s, if below 50", BELOW, 20, OK),
        bounded("a group of 40 Gb/s, if below 14", BELOW, 11, INVALID),
        bounded("a group of 40 Gb/s, if it has 28", EXACTLY, 19, INVALID),
    ]
}

/// A path of A to itself, 100 Gb/s, and a group that A creates, with each bound by this code.
fn every_code(code: u8) -> Vec<Row> {
    let (wanted, own) = (RateCode(code), RateCode(16));
    let order = wanted.cmp_speed(own);
    let named = |what: &str| -> &'static str { format!("{what} rate code {code}").leak() };
    let granted = |yes: bool| if yes { OK } else { INVALID };
    // Below 2.5 Gb/s there is nothing.
    let some_below = code != 2;
    vec![
        way(named("a way of exactly"), A, EXACTLY, code, usize::from(order.is_eq())),
        way(named("a way above"), A, ABOVE, code, usize::from(order.is_lt())),
        way(named("a way below"), A, BELOW, code, usize::from(some_below)),
        creation(named("a group of exactly"), A, EXACTLY, code, granted(order.is_le())),
        creation(named("a group above"), A, ABOVE, code, granted(order.is_lt())),
        creation(named("a group below"), A, BELOW, code, granted(some_below)),
    ]
}
