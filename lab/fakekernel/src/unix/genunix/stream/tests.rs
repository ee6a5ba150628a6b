//! What the message functions do, on a host of its own.

use illumos_sys_hdrs::mblk_t;
use sim::{Config, FaultKind, FaultPlan, Rule};

use super::block::Mb;
use super::{Chain, Checksums, Owner};
use crate::loader::cx::{Cx, cx};
use crate::loader::kernels::Machine;
use crate::unix::genunix::Genunix;

/// Runs `test` as the framework on a fresh host.
fn on_a_host(test: impl FnOnce(&Machine, &Cx, &Genunix) + Send + 'static) {
    let machine = Machine::new(Config::default());
    let inner = machine.clone();
    let run = machine.run(move || {
        let kernel = inner.add_host("alice");
        kernel.scope(|| test(&inner, &cx(), &kernel.genunix()));
    });
    if let Err(halt) = run {
        panic!("{halt}");
    }
}

/// As [`on_a_host`], for what breaks a rule.
fn breaks(rule: Rule, test: impl FnOnce(&Cx, &Genunix) + Send + 'static) {
    let machine = Machine::new(Config::default());
    let inner = machine.clone();
    let run = machine.run(move || {
        let kernel = inner.add_host("alice");
        kernel.scope(|| test(&cx(), &kernel.genunix()));
    });
    assert_eq!(run.err().and_then(|halt| halt.rule()), Some(rule));
}

/// A message of several blocks.
fn message(cx: &Cx, genunix: &Genunix, blocks: &[&[u8]]) -> *mut mblk_t {
    let made: Chain = blocks.iter().map(|bytes| genunix.message(cx, 4, bytes)).collect();
    made[1..].iter().for_each(|block| genunix.linkb(cx, made[0], *block));
    made[0]
}

fn lengths(cx: &Cx, genunix: &Genunix, mp: *mut mblk_t) -> Vec<usize> {
    genunix.blocks_of(cx, mp, "a test").into_iter().map(Mb::len).collect()
}

#[test]
fn adjmsg_trims_either_end_and_keeps_the_first_block() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"def", b"gh"]);
        assert!(genunix.adjust(cx, mp, 4, Owner::Framework));
        assert_eq!(
            (genunix.message_bytes(cx, mp, 0), lengths(cx, genunix, mp)),
            (b"efgh".to_vec(), vec![0, 2, 2])
        );
        assert!(genunix.adjust(cx, mp, -3, Owner::Framework));
        assert_eq!((genunix.message_bytes(cx, mp, 0), lengths(cx, genunix, mp)), (b"e".to_vec(), vec![0, 1]));
        assert!(!genunix.adjust(cx, mp, 2, Owner::Framework));
        assert_eq!(genunix.msgdsize(cx, mp), 1);
        genunix.freemsg(cx, mp);
        assert_eq!(genunix.live_messages(), 0);
    });
}

#[test]
fn pullupmsg_keeps_the_pointer_aligns_the_data_and_forgets_the_checksum() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"defgh", b"ij"]);
        genunix.set_checksums(cx, mp, Checksums { flags: 4, value: 7, ..Checksums::default() });
        assert!(genunix.pullupmsg(cx, mp, 5));
        assert_eq!(lengths(cx, genunix, mp), [5, 3, 2]);
        assert_eq!(genunix.message_bytes(cx, mp, 0), b"abcdefghij");
        assert_eq!(Mb::new(mp).rptr().addr() % 8, 0);
        assert_eq!(genunix.checksums(cx, mp).flags, 0);
        assert!(!genunix.pullupmsg(cx, mp, 11));
        assert!(genunix.pullupmsg(cx, mp, -1));
        assert_eq!(lengths(cx, genunix, mp), [10]);
        genunix.freemsg(cx, mp);
        assert_eq!(genunix.live_messages(), 0);
    });
}

#[test]
fn pullupmsg_without_memory_changes_nothing() {
    on_a_host(|machine, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"de"]);
        machine.set_fault(FaultKind::ALLOCB, FaultPlan::OneIn(1));
        assert!(!genunix.pullupmsg(cx, mp, -1));
        assert_eq!(
            (genunix.message_bytes(cx, mp, 0), lengths(cx, genunix, mp)),
            (b"abcde".to_vec(), vec![3, 2])
        );
        genunix.freemsg(cx, mp);
    });
}

#[test]
fn a_pulled_up_duplicate_leaves_the_original_its_data() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"de"]);
        let twin = genunix.dupmsg(cx, mp);
        assert!(genunix.is_shared(cx, mp));
        assert!(genunix.pullupmsg(cx, twin, -1));
        assert!(!genunix.is_shared(cx, mp));
        assert_eq!(lengths(cx, genunix, mp), [3, 2]);
        genunix.freemsg(cx, twin);
        assert_eq!(genunix.message_bytes(cx, mp, 0), b"abcde");
        genunix.freemsg(cx, mp);
        assert_eq!(genunix.live_messages(), 0);
    });
}

#[test]
fn a_copy_keeps_the_offset_in_its_buffer_and_the_offload_information() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abcdef"]);
        genunix.set_checksums(cx, mp, Checksums { flags: 0x10, mss: 1460, ..Checksums::default() });
        let copy = genunix.copymsg(cx, mp);
        let headroom = |mp| Mb::new(mp).rptr().addr() - Mb::new(mp).data().base().addr();
        assert_eq!(headroom(copy), headroom(mp));
        assert_eq!(genunix.checksums(cx, copy).mss, 1460);
        assert!(!genunix.is_shared(cx, copy));
        genunix.freemsgchain(cx, genunix.make_chain(cx, &[mp, copy]));
        assert_eq!(genunix.live_messages(), 0);
    });
}

#[test]
fn msgpullup_gathers_a_new_message_and_copies_the_rest() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"def", b"gh"]);
        for (len, want) in [(4, vec![4, 2, 2]), (3, vec![3, 3, 2]), (8, vec![8]), (-1, vec![8])] {
            let new = genunix.pulled_copy(cx, mp, len, Owner::Framework);
            assert_eq!(
                (genunix.message_bytes(cx, new, 0), lengths(cx, genunix, new)),
                (b"abcdefgh".to_vec(), want)
            );
            genunix.freemsg(cx, new);
        }
        assert!(genunix.pulled_copy(cx, mp, 9, Owner::Framework).is_null());
        assert_eq!(lengths(cx, genunix, mp), [3, 3, 2]);
        genunix.freemsg(cx, mp);
    });
}

#[test]
fn a_checksum_over_blocks_is_that_of_the_bytes() {
    on_a_host(|_, cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"", b"defgh", b"i"]);
        let mut whole = super::sum::Sum::default();
        whole.add(b"bcdefghi");
        assert_eq!(genunix.checksum(cx, mp, 1, 0), whole.fold());
        genunix.freemsg(cx, mp);
    });
}

#[test]
fn a_message_freed_twice_is_known_by_who_freed_it_first() {
    breaks(Rule::BadMessageFree, |cx, genunix| {
        let mp = genunix.message(cx, 0, b"abc");
        genunix.freemsg(cx, mp);
        genunix.freemsg(cx, mp);
    });
}

#[test]
fn a_message_of_somebody_elses_may_not_be_freed() {
    breaks(Rule::BadMessageFree, |cx, genunix| {
        let mp = genunix.message(cx, 0, b"abc");
        genunix.hand_over(cx, mp, Owner::Framework, Owner::module("ibd"), "mc_tx");
        genunix.freemsg(cx, mp);
    });
}

#[test]
fn pointers_outside_the_buffer_are_found_at_the_crossing() {
    breaks(Rule::BadMessagePointers, |cx, genunix| {
        let mp = genunix.message(cx, 0, b"abc");
        genunix.advance(cx, mp, 4);
        genunix.mblk_check(cx, mp, Owner::Framework, "mac_rx");
    });
}

#[test]
fn a_ring_of_blocks_is_found_at_the_crossing() {
    breaks(Rule::BadMessageFree, |cx, genunix| {
        let mp = message(cx, genunix, &[b"abc", b"def"]);
        let last = Mb::new(Mb::new(mp).cont());
        last.set_cont(mp);
        genunix.mblk_check(cx, mp, Owner::Framework, "mac_rx");
    });
}
