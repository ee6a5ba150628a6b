//! Ports of any speed reach each other, whatever static rates their adapter knows.

use std::collections::BTreeMap;

use fabric::{HcaAttr, LinkSpeed};
use lab_gldv3::{LinkAddress, Offload, ReceiveQueue, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, Host, PLAIN, Setup, address_of, group};

const GROUP: u32 = 0x0007_0001;
/// Where a path record has its rate, and a member record.
const PATH_RATE: usize = 55;
const GROUP_RATE: usize = 42;

fn with(hca: fn(&mut fabric::HcaConfig), test: fn(&Bench)) {
    Setup { seeds: 1, hca, ..Setup::default() }.run(test);
}

/// Unicast and a datagram to a group, both ways, and nothing is dropped.
fn everything_arrives(bench: &Bench) -> [(Stream, ReceiveQueue); 2] {
    let ends = [bench.alpha.open_up(PLAIN), bench.beta.open_up(PLAIN)];
    for (stream, _) in &ends {
        stream.enable_multicast(group(GROUP)).unwrap();
    }
    bench.settle();
    for (from, to) in [(0, 1), (1, 0)] {
        arrives(bench, &ends[from].0, &ends[to], address_of(&ends[to].0));
        arrives(bench, &ends[from].0, &ends[to], group(GROUP));
    }
    for host in [&bench.alpha, &bench.beta] {
        let dropped = drops(host);
        assert!(dropped.is_empty(), "{dropped:?}: {:?}", host.console());
    }
    ends
}

#[track_caller]
fn arrives(bench: &Bench, from: &Stream, (_, heard): &(Stream, ReceiveQueue), to: LinkAddress) {
    let own = |packet: &[u8]| packet == b"there and back";
    while heard.try_next().is_some() {}
    from.transmit(to, b"there and back", Offload::default()).unwrap();
    bench.settle();
    let packet =
        heard.try_next().unwrap_or_else(|| panic!("{to:?} hears nothing: {:?}", bench.alpha.console()));
    assert!(own(&packet.payload));
}

/// Packets that were not sent, by why.
fn drops(host: &Host) -> Vec<String> {
    let dropped = |name: &String| name.starts_with("tx_drop");
    host.counters().into_iter().map(|(name, _)| name).filter(dropped).collect()
}

/// How often each rate code was asked of alpha's adapter.
fn asked(bench: &Bench) -> BTreeMap<u8, u64> {
    let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's adapter");
    hca.rates_asked().into_iter().map(|(rate, times)| (rate.code(), times)).collect()
}

#[test]
fn two_fdr_ports_reach_each_other_by_an_adapter_that_ends_at_qdr() {
    with(|config| config.ports[0].speed = LinkSpeed::Fdr, |bench| drop(everything_arrives(bench)));
}

#[test]
fn what_the_adapter_refuses_is_asked_once_and_told_once() {
    with(
        |config| config.ports[0].speed = LinkSpeed::Hdr,
        |bench| {
            let [(alpha, _), (beta, heard)] = everything_arrives(bench);
            for n in 0..20_u8 {
                let mut other = address_of(&beta).0;
                other[3] ^= n + 1;
                alpha.transmit(LinkAddress(other), b"nobody is there", Offload::default()).unwrap();
            }
            bench.settle();
            assert!(heard.try_next().is_none());
            let asked = asked(bench);
            // 200 Gb/s, then 168, 112, 100, and 120, which carry less and which it has; twenty-one handles of ports.
            let fast: Vec<_> = asked.iter().filter(|(code, _)| **code >= 10).map(|(c, n)| (*c, *n)).collect();
            assert_eq!(fast, [(10, 21), (13, 1), (14, 1), (16, 1), (17, 1)]);
            let lines: Vec<_> =
                bench.alpha.console().into_iter().filter(|line| line.contains("static rate")).collect();
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(
                lines[0].ends_with("the adapter has no static rate of 200 Gb/s; 120 Gb/s is used for it"),
                "{lines:?}"
            );
        },
    );
}

/// Every code that a record has room for: what the SA says goes for paths, and for groups.
fn the_administrator_says(bench: &Bench, code: &'static [u8]) {
    for (attribute, at) in [(Attribute::PATH_RECORD, PATH_RATE), (Attribute::MC_MEMBER_RECORD, GROUP_RATE)] {
        bench.fault(attribute, None, None, FaultAction::Overwrite { at, bytes: code });
    }
}

/// A selector that says "exactly", and a code.
const CODES: [[u8; 1]; 64] = {
    let mut codes = [[0x80]; 64];
    let mut code = 0;
    while code < 64 {
        codes[code as usize][0] |= code;
        code += 1;
    }
    codes
};

#[test]
fn whatever_rate_the_administrator_says_packets_go_there() {
    // IBTF takes no path without a rate.
    for code in CODES.iter().skip(1) {
        let code: &'static [u8] = code;
        let said = code[0] & 0x3f;
        println!("rate code {said}");
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            the_administrator_says(bench, code);
            drop(everything_arrives(bench));
            let used: Vec<u8> =
                asked(bench).into_keys().filter(|rate| HcaAttr::HERMON_RATES.contains(rate)).collect();
            let wanted = sm::RateCode(code[0] & 0x3f);
            for rate in used {
                let slower = sm::RateCode(rate).cmp_speed(wanted).is_le();
                assert!(rate == 0 || slower, "{rate} for {wanted:?}");
            }
        });
    }
}

#[test]
fn an_adapter_that_knows_no_rate_above_ddr_sends_to_faster_ports() {
    fn tavor(config: &mut fabric::HcaConfig) {
        config.attr.static_rates = &HcaAttr::TAVOR_RATES;
        config.ports[0].speed = LinkSpeed::Edr;
    }
    with(tavor, |bench| {
        drop(everything_arrives(bench));
        assert_eq!(asked(bench).get(&6), Some(&1), "20 Gb/s: {:?}", asked(bench));
    });
}

#[test]
fn an_adapter_that_knows_no_rate_at_all_sends() {
    fn nothing(config: &mut fabric::HcaConfig) {
        config.attr.static_rates = &[0];
    }
    with(nothing, |bench| drop(everything_arrives(bench)));
}
