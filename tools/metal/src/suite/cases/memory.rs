//! What the kernel's allocators hold after cycles of load and unload, and whose it is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use crate::suite::bench::Bench;

/// What the kernel's allocators hold, by name.
pub type Memory = BTreeMap<String, i64>;

/// What they hold, and when that was, in nanoseconds since the start.
pub fn held(bench: &mut Bench) -> Result<(Memory, u64)> {
    let answer = bench.must("0", "memory")?;
    let at = answer.number("at").context("the list of caches was cut")?;
    let held = answer.pairs().filter(|(name, _)| name.contains('/'));
    let held = held.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect();
    Ok((held, at))
}

/// Who allocated what these caches and arenas hold more than at that time: a line for each stack.
pub fn owners(bench: &Bench, grown: &[(String, i64)], since: u64) -> Result<Vec<String>> {
    let names: BTreeSet<String> = grown.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(Vec::new()) } else { bench.debugger.owners(&names, since) }
}

/// Caches and arenas with what they hold more, as a person reads them.
pub fn named(grown: &[(String, i64)]) -> String {
    let each = |(name, difference): &(String, i64)| format!("{name} +{difference}");
    grown.iter().map(each).collect::<Vec<_>>().join(", ")
}

/// Caches and arenas that hold more than before.
pub fn grown(before: &Memory, after: &Memory) -> Vec<(String, i64)> {
    let more = |(name, now): (&String, &i64)| {
        let difference = now - before.get(name).copied().unwrap_or(0);
        (difference > 0).then(|| (name.clone(), difference))
    };
    after.iter().filter_map(more).collect()
}

/// What the kernel keeps of each zone that was there, with the C driver as with ours: a statistic nobody deletes and its list.
const KEPT_OF_A_ZONE: [(&str, i64); 2] = [("arena/kstat", 3760), ("cache/kmem_alloc_320", 1)];

/// A line of the log is kept as a message of these two blocks.
const LOG_LINE: [&str; 2] = ["cache/streams_dblk_80", "cache/streams_dblk_208"];

/// What moves with the load and not with a driver: memory of the allocators for themselves, page tables, timers, cached files.
const OF_THE_KERNEL: [&str; 12] = [
    "arena/heap",
    "arena/kmem_",
    "arena/vmem_",
    "arena/hat_",
    "arena/segkp",
    "cache/kmem_bufctl",
    "cache/kmem_magazine_",
    "cache/kmem_slab_cache",
    "cache/kmem_va_",
    "cache/callout_",
    "cache/htable_t",
    "cache/vn_cache",
];

/// What has grown at all, and is not the kernel's own affair.
pub fn unexplained(before: &Memory, after: &Memory, cycles: i64) -> Vec<(String, i64)> {
    let more: Memory = grown(before, after).into_iter().collect();
    let of = |name: &str| more.get(name).copied().unwrap_or(0);
    let [first, second] = LOG_LINE.map(of);
    let lines = first.min(second);
    let explained = |name: &str| {
        let zones =
            KEPT_OF_A_ZONE.iter().find(|(kept, _)| *kept == name).map_or(0, |(_, each)| each * 2 * cycles);
        let log = if name == "cache/streams_mblk" {
            2 * lines
        } else if LOG_LINE.contains(&name) {
            lines
        } else {
            0
        };
        zones + log
    };
    more.iter()
        .filter(|(name, _)| !OF_THE_KERNEL.iter().any(|part| name.starts_with(part)))
        .map(|(name, difference)| (name.clone(), difference - explained(name)))
        .filter(|(_, difference)| *difference > 0)
        .collect()
}

/// Functions whose memory the kernel keeps by itself, whoever was the cause. The first two keep it for as long as the thread that
/// called them is there, once for each of the kernel's threads that comes along: a client of doors, such as the threads that ask
/// `dlmgmtd`, and a DEBUG `ip`'s list of what a thread refers to. The others make lines of the log, and events (of a link's state, since
/// 2021) that wait for a `syseventd`, which is not there.
const KEPT_BY_THE_KERNEL: [&str; 5] =
    ["door_my_data", "th_trace_gethash", "log_makemsg", "log_sendmsg", "log_sysevent"];

/// A thread that waits for a lock leaves its turnstile with it and takes another one when it goes on (`turnstile_block`): when it ends, the one
/// that was made with it may be somebody else's.
const WANDERING: &str = "cache/turnstile_cache";

/// The modules that were unloaded.
const UNLOADED: [&str; 3] = ["ibp", "ibd", "mac_ib"];

/// A line about who allocated what is left: `cache/NAME COUNT: STACK`, or `arena/NAME COUNT, OCTETS octets: STACK`, the stack's
/// functions from the innermost on, `MODULE`NAME`, or an address that is in no module.
struct Owner<'a> {
    name: &'a str,
    /// As the growth of the cache or arena is counted.
    held: i64,
    stack: Vec<&'a str>,
}

impl<'a> Owner<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (what, stack) = line.split_once(": ")?;
        let mut words = what.split([' ', ',']).filter(|word| !word.is_empty());
        let (name, count, octets) = (words.next()?, words.next()?, words.next());
        let stack = stack.split(" < ").collect();
        Some(Self { name, held: octets.unwrap_or(count).parse().ok()?, stack })
    }

    fn is_kept_by_the_kernel(&self) -> bool {
        let function =
            |frame: &&str| frame.rsplit('`').next().is_some_and(|name| KEPT_BY_THE_KERNEL.contains(&name));
        self.stack.iter().any(function)
    }

    /// One of the modules that are gone is among the callers, or what is gone without a name.
    fn is_of_the_unloaded(&self) -> bool {
        if self.name == WANDERING {
            return false;
        }
        let of_a_module =
            |frame: &str| frame.split_once('`').is_some_and(|(module, _)| UNLOADED.contains(&module));
        self.stack.iter().any(|frame| frame.starts_with("0x") || of_a_module(frame))
    }
}

/// What is wrong after `cycles`, of which `thirds` has the beginning and the end of each third, and `left` who allocated what has
/// grown: nothing may be left that a module allocated which is gone, and whoever did it, nothing may grow with each cycle.
pub fn leaks(thirds: &[Memory; 4], cycles: u32, left: &[String]) -> Vec<String> {
    let owners: Vec<(Owner<'_>, &String)> =
        left.iter().filter_map(|line| Some((Owner::read(line)?, line))).collect();
    let (kept, others): (Vec<_>, Vec<_>) =
        owners.iter().partition(|(owner, _)| owner.is_kept_by_the_kernel());
    let ours = others.iter().filter(|(owner, _)| owner.is_of_the_unloaded());
    let mut wrong: Vec<String> = ours.map(|(_, line)| format!("of a module that is gone: {line}")).collect();
    let each = i64::from(cycles / 3);
    let grows = |pair: &[Memory], name: &str| {
        unexplained(&pair[0], &pair[1], each).iter().any(|(growing, by)| growing == name && *by >= each)
    };
    for (name, difference) in unexplained(&thirds[0], &thirds[3], cycles.into()) {
        let known: i64 =
            kept.iter().filter(|(owner, _)| owner.name == name).map(|(owner, _)| owner.held).sum();
        // What a thread of the kernel's holds for a while does not grow in each third.
        if difference - known >= i64::from(cycles) && thirds.windows(2).all(|pair| grows(pair, &name)) {
            wrong.push(format!("with each cycle: {name} +{}", difference - known));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(pairs: &[(&str, i64)]) -> Memory {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    /// Four lists, from nothing in equal steps.
    fn growing(pairs: &[(&str, i64)]) -> [Memory; 4] {
        [0, 1, 2, 3].map(|step| pairs.iter().map(|(name, each)| ((*name).to_owned(), each * step)).collect())
    }

    #[test]
    fn a_cache_that_is_new_or_fuller_has_grown_and_others_have_not() {
        let before = memory(&[("cache/a", 5), ("cache/b", 5), ("cache/c", 1)]);
        let after = memory(&[("cache/a", 7), ("cache/b", 4), ("cache/d", 2)]);
        assert_eq!(grown(&before, &after), [("cache/a".to_owned(), 2), ("cache/d".to_owned(), 2)]);
        assert_eq!(named(&grown(&before, &after)), "cache/a +2, cache/d +2");
    }

    #[test]
    fn a_leak_is_what_grows_with_the_cycles_beyond_zones_and_log() {
        let known = [
            ("arena/kstat", 2 * 3760),
            ("arena/heap", 100_000),
            ("cache/kmem_alloc_320", 2),
            ("cache/streams_dblk_80", 55),
            ("cache/streams_dblk_208", 55),
            ("cache/streams_mblk", 110),
        ];
        assert_eq!(leaks(&growing(&known), 3, &[]), [""; 0]);
        let mut leaking = known.to_vec();
        leaking.pop();
        leaking.extend([
            ("cache/streams_dblk_2128", 1),
            ("cache/streams_mblk", 111),
            ("cache/kmem_alloc_64", 1),
        ]);
        let grow = |name: &str| format!("with each cycle: cache/{name} +3");
        let expected = ["kmem_alloc_64", "streams_dblk_2128", "streams_mblk"].map(grow);
        assert_eq!(leaks(&growing(&leaking), 3, &[]), expected);
    }

    #[test]
    fn what_grew_in_one_third_only_does_not_grow_with_the_cycles() {
        let [nothing, ..] = growing(&[]);
        let once = memory(&[("cache/kmem_alloc_64", 9)]);
        assert_eq!(leaks(&[nothing, once.clone(), once.clone(), once], 9, &[]), [""; 0]);
    }

    #[test]
    fn what_the_kernel_keeps_for_each_of_its_threads_is_no_leak_and_the_rest_of_the_cache_is() {
        let line = "cache/kmem_alloc_192 3: kmem_zalloc < doorfs`door_my_data < doorfs`door_upcall < dls`dls_devnet_prop_task < taskq_d_thread";
        assert_eq!(leaks(&growing(&[("cache/kmem_alloc_192", 1)]), 3, &[line.to_owned()]), [""; 0]);
        let more = leaks(&growing(&[("cache/kmem_alloc_192", 2)]), 3, &[line.to_owned()]);
        assert_eq!(more, ["with each cycle: cache/kmem_alloc_192 +3"]);
    }

    #[test]
    fn a_turnstile_of_a_thread_that_is_gone_may_be_another_thread_s_and_one_more_with_each_cycle_is_a_leak() {
        let line =
            "cache/turnstile_cache 3: kmem_cache_alloc < thread_create < ibp`ibd::link::incoming::listen";
        let once = [memory(&[]), memory(&[]), memory(&[]), memory(&[(WANDERING, 1)])];
        assert_eq!(leaks(&once, 3, &[line.to_owned()]), [""; 0]);
        let each = leaks(&growing(&[(WANDERING, 1)]), 3, &[line.to_owned()]);
        assert_eq!(each, ["with each cycle: cache/turnstile_cache +3"]);
    }

    #[test]
    fn one_buffer_that_a_module_allocated_which_is_gone_is_a_leak() {
        let once = [memory(&[]), memory(&[]), memory(&[]), memory(&[("cache/kmem_alloc_64", 1)])];
        for caller in ["ibp`ibd::ring::open", "mac_ib`mac_ib_header", "0xfffffffff7a3b2c0"] {
            let line =
                format!("cache/kmem_alloc_64 1: kmem_zalloc < mac`mac_alloc < {caller} < taskq_thread");
            assert_eq!(
                leaks(&once, 102, std::slice::from_ref(&line)),
                [format!("of a module that is gone: {line}")]
            );
        }
        let others = "cache/kmem_alloc_64 1: kmem_zalloc < contract_process_create < cfork";
        assert_eq!(leaks(&once, 102, &[others.to_owned()]), [""; 0]);
        let traced = "cache/kmem_alloc_64 1: kmem_zalloc < ip`th_trace_gethash < ip`ill_refhold < mac`mac_rx < ibp`ibd::receive";
        assert_eq!(leaks(&once, 102, &[traced.to_owned()]), [""; 0]);
    }

    #[test]
    fn an_arena_is_counted_in_octets() {
        let owner =
            Owner::read("arena/kstat 2, 7520 octets: vmem_alloc < kstat_create").expect("it is a line");
        assert_eq!((owner.name, owner.held, owner.stack.len()), ("arena/kstat", 7520, 2));
        assert!(Owner::read("nonsense").is_none());
    }
}
