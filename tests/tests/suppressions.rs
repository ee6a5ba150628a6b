//! What the lab does behind a violation that is known: it goes on, and nothing of it is left for the next one to stumble over.

#![forbid(unsafe_code)]

use conformance::probe::Probe;
use fakekernel::{Config, Ctx, Kernel, Machine, Module, Note, Rule, Suppression, Suppressions};

const SOURCE: &str = "
    #include <sys/types.h>
    #include <sys/kmem.h>
    #include <sys/modctl.h>
    #include <sys/stream.h>
    #include <sys/strsun.h>
    #include <sys/sunddi.h>

    long probe_crossed(long arg) {
        mblk_t *mp = allocb(64, BPRI_HI);
        mp->b_wptr += 10;
        mp->b_rptr = mp->b_wptr + 1;
        long size = msgdsize(mp);
        freemsg(mp);
        return (size);
    }
    static void *left;
    static void take(void) { left = kmem_alloc(64, KM_SLEEP); }
    long probe_leave(long arg) { take(); return (0); }

    static struct modlmisc misc = { &mod_miscops, \"known\" };
    static struct modlinkage linkage = { MODREV_1, { &misc, NULL } };
    int _init(void) { return (mod_install(&linkage)); }
    int _fini(void) { return (mod_remove(&linkage)); }
    int _info(struct modinfo *info) { return (mod_info(&linkage, info)); }";

fn known(rule: Rule, call: Option<&str>, function: &str) -> Suppressions {
    Suppressions(vec![Suppression {
        host: Some("probed".into()),
        module: "known".into(),
        rule,
        call: call.map(str::to_owned),
        function: Some(function.into()),
        evidence: "its source".into(),
    }])
}

/// Runs `body` with the module, unloads it, and returns what was noted.
fn with_module(
    suppress: Suppressions,
    body: impl FnOnce(&Kernel, &Module) + Send + 'static,
) -> (Vec<Note>, Vec<Suppression>) {
    let path = Probe::new("known").source(SOURCE).build();
    let machine = Machine::new(Config { suppress, ..Config::default() });
    let kernel = machine.add_host("probed");
    let end = machine.run(move || {
        let module = kernel.load(&path, "known", "misc").expect("it loads");
        kernel.scope(|| {
            module.install().expect("it installs");
            body(&kernel, &module);
        });
    });
    end.unwrap_or_else(|halt| panic!("{halt}"));
    (machine.notes(), machine.unused_suppressions())
}

#[test]
fn a_block_with_crossed_pointers_is_empty_from_then_on() {
    let suppress = known(Rule::BadMessagePointers, None, "probe_crossed");
    let (notes, unused) = with_module(suppress, |kernel, module| {
        assert_eq!(module.call_probe("probe_crossed", Some(Ctx::User), 0), 0);
        assert_eq!(kernel.genunix().live_messages(), 0);
        module.unload().expect("nothing is left");
    });
    assert_eq!(notes.iter().map(|note| note.count).sum::<u64>(), 1, "{notes:?}");
    assert!(unused.is_empty());
}

#[test]
fn what_is_known_to_be_left_behind_is_struck_out() {
    let suppress = known(Rule::Leak, Some("_fini"), "probe_leave");
    let (notes, unused) = with_module(suppress, |kernel, module| {
        module.call_probe("probe_leave", Some(Ctx::User), 0);
        module.unload().expect("what is left is known");
        assert!(kernel.resources().of("known", None).is_empty());
    });
    assert!(notes[0].detail.contains("kmem"), "{notes:?}");
    assert!(unused.is_empty());
}

#[test]
fn what_did_not_come_up_is_named() {
    let suppress = known(Rule::Leak, Some("_fini"), "probe_leave");
    let (notes, unused) = with_module(suppress, |_, module| module.unload().expect("nothing is left"));
    assert!(notes.is_empty());
    assert_eq!(unused[0].function.as_deref(), Some("probe_leave"));
}
