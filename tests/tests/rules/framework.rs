//! Rules that are broken in a driver's dealings with mac.

use fakekernel::Rule;
use lab_gldv3::{LinkAddress, Offload, Stream};

use crate::bench::Bench;
use crate::case::{broken, cases, kept};

const GLD: &str = "gld";
const LINK: &str = "gld0";
const PEER: LinkAddress =
    LinkAddress([0, 0, 0, 0x49, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 0, 0, 0, 0, 2]);

/// What the driver does with a packet to send, as in its source.
const TAKE: i64 = 0;
const SCRIBBLE: i64 = 4;
const FREE_UNDER_MUTEX: i64 = 5;
const NOTHING_UNDER_MUTEX: i64 = 6;

/// Attaches the driver, opens its link, does something and takes everything down again.
fn with_link(bench: &Bench, steps: impl FnOnce(&Bench, &Stream)) -> i64 {
    let node = bench.attached();
    let stream = Stream::open(&bench.kernel, LINK).expect("the link is there");
    stream.bind(0x800).expect("a legal SAP");
    steps(bench, &stream);
    drop(stream);
    bench.detach(&node).expect("nothing holds the link");
    0
}

/// Calls a probe that makes an upcall holding the driver's mutex.
fn upcall_under_mutex(bench: &Bench, probe: &'static str) -> i64 {
    with_link(bench, |bench, _| {
        bench.call(probe);
    })
}

/// Sends a packet of which the stack keeps a duplicate.
fn send_kept(bench: &Bench, mode: i64) -> i64 {
    with_link(bench, |bench, stream| {
        bench.call_with("probe_tx_mode", mode);
        stream.transmit_and_keep(PEER, b"payload").expect("bound, and small enough");
    })
}

fn send(bench: &Bench, mode: i64) -> i64 {
    with_link(bench, |bench, stream| {
        bench.call_with("probe_tx_mode", mode);
        stream.transmit(PEER, b"payload", Offload::default()).expect("bound, and small enough");
    })
}

cases! {
    rule_04_mac_rx_under_mutex:
        broken(Rule::UpcallWithMutex, GLD, "mac_rx").over_gldv3().does(|bench| {
            upcall_under_mutex(bench, "probe_rx_under_mutex")
        });
    rule_04_mac_tx_update_under_mutex:
        broken(Rule::UpcallWithMutex, GLD, "mac_tx_update").over_gldv3().does(|bench| {
            upcall_under_mutex(bench, "probe_tx_update_under_mutex")
        });
    rule_04_mac_link_update_under_mutex:
        broken(Rule::UpcallWithMutex, GLD, "mac_link_update").over_gldv3().does(|bench| {
            upcall_under_mutex(bench, "probe_link_update_under_mutex")
        });
    rule_04_foreign_message_freed_under_mutex:
        broken(Rule::UpcallWithMutex, GLD, "freemsg").over_gldv3().does(|bench| send(bench, FREE_UNDER_MUTEX));
    rule_04_message_freed_after_the_mutex_is_kept:
        kept(Rule::UpcallWithMutex, GLD).over_gldv3().does(|bench| send(bench, NOTHING_UNDER_MUTEX));

    rule_52_packets_handed_up_by_a_driver_that_is_stopped:
        broken(Rule::PacketsAfterStop, GLD, "mac_rx").over_gldv3().does(|bench| {
            let stopped = with_link(bench, |_, _| ());
            let _node = bench.attached();
            bench.call_with("probe_rx", 1);
            stopped
        }).saying("gld0 is not started");
    rule_52_packets_handed_up_by_a_driver_that_runs_are_kept:
        kept(Rule::PacketsAfterStop, GLD).over_gldv3().does(|bench| with_link(bench, |bench, _| {
            bench.call_with("probe_rx", 1);
        }));

    rule_22_payload_of_shared_message_written:
        broken(Rule::SharedMessageWrite, GLD, "mc_tx").over_gldv3().does(|bench| send_kept(bench, SCRIBBLE));
    rule_22_payload_of_shared_message_read_is_kept:
        kept(Rule::SharedMessageWrite, GLD).over_gldv3().does(|bench| send_kept(bench, TAKE));
    rule_22_payload_of_unshared_message_written_is_kept:
        kept(Rule::SharedMessageWrite, GLD).over_gldv3().does(|bench| send(bench, SCRIBBLE));

    rule_19_mac_left_registered_by_detach:
        broken(Rule::Leak, GLD, "detach")
            .over_gldv3()
            .with(&["NO_UNREGISTER"])
            .does(|bench| with_link(bench, |_, _| ()))
            .saying("mac handle");
    rule_19_ioctls_left_registered:
        broken(Rule::Leak, "ibp", "_fini").over_gldv3().with(&["NO_UNREGISTER"]).saying("dld ioctls");

    rule_43_mac_init_ops_after_mod_install:
        broken(Rule::LinkageOrder, GLD, "mac_init_ops").over_gldv3().with(&["INIT_OPS_LATE"]);
    rule_43_mac_fini_ops_left_out:
        broken(Rule::LinkageOrder, GLD, "_fini").over_gldv3().with(&["NO_FINI_OPS"]).saying("mac_init_ops");
    rule_43_mac_fini_ops_before_mod_remove:
        broken(Rule::LinkageOrder, GLD, "mac_fini_ops").over_gldv3().with(&["FINI_OPS_EARLY"]);
    rule_43_mac_init_ops_in_order_is_kept:
        kept(Rule::LinkageOrder, GLD).over_gldv3();
}
