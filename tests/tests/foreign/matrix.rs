//! Who meets whom: ours and the C driver, each with connections (cm) and without (ud), under both subnet managers. What Linux and others
//! are to ours is in `tests/link/connections/matrix.rs`.

use ibdlab::report::SmKind;

use super::traffic::Exchange;

const SEEDS: u64 = 2;

/// Alice and bob in these modes. `sizes` are those of echoes that have to be answered at once.
fn cell(modes: [&str; 2], sizes: &str, foreign: &'static str) -> Exchange {
    let host = |name: &str, last: u8, mode: &str| {
        format!(
            "[[host]]\nname = \"{name}\"\ndriver = \"ibp\"\nproperties = {{ linkmode = \"{mode}\" }}\n\
             addresses = [\"192.168.76.{last}/24\", \"fd00:76::{last}/64\"]\n\n"
        )
    };
    let ping = |from: &str, to: &str, sizes: &str| {
        format!("[[step]]\nping = {{ from = \"{from}\", to = \"{to}\", count = 20, sizes = [{sizes}] }}\n\n")
    };
    let tcp = |from: &str, to: &str| {
        format!("[[step]]\ntcp = {{ from = \"{from}\", to = \"{to}\", bytes = \"2MiB\" }}\n\n")
    };
    let text = [
        format!("name = \"{} meets {}\"\n\n", modes[0], modes[1]),
        host("alice", 1, modes[0]),
        host("bob", 2, modes[1]),
        "[[step]]\nattach = { after_ports = true }\n\n[[step]]\nup = {}\n\n[[step]]\nresolve = {}\n\n"
            .to_owned(),
        ping("alice", "192.168.76.2", sizes),
        ping("bob", "192.168.76.1", sizes),
        ping("alice", "fd00:76::2", "0, 56, 1992"),
        ping("bob", "fd00:76::1", "0, 56, 1992"),
        tcp("alice", "192.168.76.2"),
        tcp("bob", "192.168.76.1"),
        tcp("alice", "fd00:76::2"),
        tcp("bob", "fd00:76::1"),
        "[[step]]\nmulticast = { from = \"alice\", to = \"bob\", group = \"239.1.2.3\", count = 20 }\n\n"
            .to_owned(),
        "[[step]]\nmulticast = { from = \"bob\", to = \"alice\", group = \"239.1.2.4\", count = 20 }\n\n"
            .to_owned(),
        "[[step]]\nunload = {}\n".to_owned(),
    ];
    Exchange::of(&text.concat(), &[foreign])
}

fn goes_well_under_both(mut cell: Exchange) {
    for seed in 1..=SEEDS {
        cell.goes_well(seed, false);
    }
    let report = cell.run_under(SmKind::Opensm, 1, true);
    cell.went_well(&report);
}

/// Long echoes that nobody loses: where the C driver has connections and its neighbour none, it drops the first one, and more of IPv6.
const ANY: &str = "0, 56, 2016, 2017, 4096, 20_000, 65_492";
const SHORT: &str = "0, 56, 2016";

#[test]
fn ours_cm_and_c_cm_carry_64_kib_each_way() {
    ["alice", "bob"].into_iter().for_each(|c| goes_well_under_both(cell(["cm", "cm"], ANY, c)));
}

#[test]
fn ours_cm_and_c_ud_exchange_datagrams_and_ours_cuts_what_may_be_cut() {
    goes_well_under_both(cell(["cm", "ud"], ANY, "bob"));
}

#[test]
fn ours_ud_and_c_cm_exchange_datagrams() {
    goes_well_under_both(cell(["ud", "cm"], SHORT, "bob"));
}

#[test]
fn ours_ud_and_c_ud_exchange_datagrams() {
    goes_well_under_both(cell(["ud", "ud"], ANY, "bob"));
}
