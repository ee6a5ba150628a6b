//! Objects, linkage, instances, and what a module leaves behind.

use fakekernel::genunix::Service;
use fakekernel::{Errno, Rule};

use crate::case::{broken, cases, kept, refused};

const LEAKS: &str = "leaks";
const LINKAGE: &str = "linkage";
const OBJECT: &str = "object";
const DRIVER: &str = "driver";

/// What the driver's attach and detach do.
const LEAVE_MEMORY: i64 = 1;
const FAIL_AND_LEAVE: i64 = 2;
const FAIL: i64 = 3;

cases! {
    rule_19_kmem_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_kmem").saying("kmem");
    rule_19_kmem_cache_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_kmem_cache").saying("kmem_cache");
    rule_19_mutex_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_mutex").saying("mutex");
    rule_19_cv_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_cv").saying("cv");
    rule_19_rwlock_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_rwlock").saying("rwlock");
    rule_19_timeout_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_timeout").saying("timeout");
    rule_19_callb_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_callb").saying("callb");
    rule_19_mod_hash_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_mod_hash").saying("mod_hash");
    rule_19_soft_state_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_soft_state").saying("soft state");
    rule_19_mblk_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_mblk").saying("mblk");
    rule_19_duplicate_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_dup_of_mblk").saying("mblk");
    rule_19_loan_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_loan").saying("loaned dblk");
    rule_19_taskq_left_behind: broken(Rule::Leak, LEAKS, "_fini").calls("probe_taskq").saying("taskq");
    rule_19_memory_left_behind_by_detach:
        broken(Rule::Leak, DRIVER, "detach")
            .does(|bench| {
                bench.call_with("probe_mode", LEAVE_MEMORY);
                let node = bench.attached();
                bench.detach(&node).map_or(-1, |()| 0)
            })
            .saying("kmem");
    rule_19_memory_left_behind_by_failed_attach:
        broken(Rule::Leak, DRIVER, "attach")
            .does(|bench| {
                bench.call_with("probe_mode", FAIL_AND_LEAVE);
                bench.kernel.attach(&bench.module, &bench.node()).map_or(-1, |()| 0)
            })
            .saying("kmem");
    rule_19_memory_left_behind_by_failed_init:
        broken(Rule::Leak, LINKAGE, "_init").with(&["FAIL_AND_LEAK"]).saying("kmem");
    rule_19_everything_given_back_is_kept: kept(Rule::Leak, LEAKS).calls("probe_nothing");
    rule_19_failed_attach_that_gives_back_is_kept:
        kept(Rule::Leak, DRIVER).does(|bench| {
            bench.call_with("probe_mode", FAIL);
            let attached = bench.kernel.attach(&bench.module, &bench.node());
            i64::from(attached != Err(Errno::EIO))
        });

    rule_41_report_without_its_version:
        broken(Rule::AbsurdArgument, DRIVER, "ndi_fm_ereport_post")
            .does(|bench| {
                bench.attached_below();
                bench.call("probe_report_without_its_version")
            })
            .saying("version");
    rule_41_report_that_may_not_sleep:
        broken(Rule::AbsurdArgument, DRIVER, "ndi_fm_ereport_post")
            .does(|bench| {
                bench.attached_below();
                bench.call("probe_report_that_may_not_sleep")
            })
            .saying("flag");
    rule_41_report_about_a_node_with_nothing_above_it:
        broken(Rule::AbsurdArgument, DRIVER, "ndi_fm_ereport_post")
            .does(|bench| {
                bench.attached();
                bench.call("probe_report")
            })
            .saying("above");
    rule_41_impact_of_no_kind:
        broken(Rule::AbsurdArgument, DRIVER, "ddi_fm_service_impact")
            .does(|bench| {
                bench.attached_below();
                bench.call("probe_impact_of_no_kind")
            })
            .saying("impact 1");
    rule_41_report_in_order_is_kept:
        kept(Rule::AbsurdArgument, DRIVER).does(|bench| {
            let node = bench.attached_below();
            let returned = bench.call("probe_report");
            let reports = bench.kernel.ereports();
            let told = reports.iter().any(|report| {
                report.class == "ereport.io.device.stall" && report.details == [("port".to_owned(), 7)]
            });
            let degraded = node.service() == Service::Degraded;
            let detached = bench.detach(&node).is_ok();
            if told && degraded && detached { returned } else { -1 }
        });

    rule_31_fini_without_mod_remove:
        broken(Rule::BadFini, LINKAGE, "_fini").with(&["NO_MOD_REMOVE"]).saying("mod_remove");
    rule_31_fini_with_mod_remove_is_kept: kept(Rule::BadFini, LINKAGE);

    rule_40_undefined_symbol:
        refused(Rule::BadObject, OBJECT).with(&["UNDEFINED_SYMBOL"]).saying("undefined symbol 'no_such_function'");
    rule_40_symbol_of_an_undeclared_dependency:
        refused(Rule::BadObject, OBJECT).with(&["UNDECLARED_DEPENDENCY"]).saying("undefined symbol 'linkage_answer'");
    rule_40_zero_extended_address: refused(Rule::BadObject, OBJECT).with(&["ZERO_EXTENDED_ADDRESS"]).saying("relocation");
    rule_40_offset_in_the_got: refused(Rule::BadObject, OBJECT).with(&["GOT_OFFSET"]).saying("relocation");
    rule_40_thread_local_data: refused(Rule::BadObject, OBJECT).with(&["THREAD_LOCAL"]).saying("TLS");
    rule_40_global_that_the_kernel_has_too:
        refused(Rule::BadObject, OBJECT).with(&["DUPLICATE_GLOBAL"]).saying("multiply defined");
    rule_40_object_without_any_of_it_is_kept: kept(Rule::BadObject, OBJECT);

    rule_43_mod_install_twice:
        broken(Rule::LinkageOrder, LINKAGE, "mod_install").with(&["INSTALL_TWICE"]).saying("twice");
    rule_43_mod_install_once_is_kept: kept(Rule::LinkageOrder, LINKAGE);

    rule_46_node_used_after_detach:
        broken(Rule::BadDevInfo, DRIVER, "ddi_get_instance").does(|bench| {
            let node = bench.attached();
            bench.detach(&node).expect("nothing is in use");
            bench.call("probe_use_of_node")
        });
    rule_46_node_used_after_its_removal:
        broken(Rule::BadDevInfo, DRIVER, "ddi_get_instance").does(|bench| {
            let node = bench.attached();
            bench.detach(&node).expect("nothing is in use");
            assert!(bench.kernel.remove_device(&node));
            bench.call("probe_use_of_node")
        });
    rule_46_node_used_while_attached_is_kept:
        kept(Rule::BadDevInfo, DRIVER).does(|bench| {
            let node = bench.attached();
            let instance = bench.call("probe_use_of_node");
            bench.detach(&node).expect("nothing is in use");
            instance
        });
}
