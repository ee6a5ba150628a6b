//! Clients, HCAs and ports, and what asynchronous handlers are told.

use fabric::{HcaAttr, HcaConfig, PKey};
use fakekernel::Ctx;

use crate::bench::{ALPHA, BETA, Bench, Side, with};

const PORT_UP: i64 = 0x100;
const PORT_DOWN: i64 = 0x200;
const HCA_ATTACH: i64 = 0x800;
const HCA_DETACH: i64 = 0x1000;
const PORT_CHANGE: i64 = 0x10_0000;
const CLNT_REREG: i64 = 0x20_0000;

fn codes(side: &Side) -> Vec<i64> {
    (0..side.ask("probe_events", 0)).map(|n| side.ask("probe_event_code", n)).collect()
}

#[test]
fn attach_refuses_what_is_no_client() {
    with("attachment").holds(|b| b.alpha.run("probe_attach_checks", 0));
}

#[test]
fn an_hca_is_opened_once_and_closed_only_when_everything_is_freed() {
    with("attachment").holds(|b| b.alpha.run("probe_open_and_close", ALPHA));
}

#[test]
fn attributes_are_those_of_the_adapter() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        b.alpha.run_in_interrupt("probe_attributes", 0);
        b.alpha.run("probe_close", 0);
    });
    with("attachment").hca(|c: &mut HcaConfig| c.attr = HcaAttr::with_offloads()).holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        b.alpha.run("probe_attributes", 7);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn port_information_is_one_allocation_with_both_tables_inside() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        b.alpha.run("probe_ports", 0);
        b.alpha.run("probe_pkey_of_no_port", 0);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn a_port_without_a_subnet_manager_has_no_lid() {
    with("attachment").holds(|b| {
        b.sm.stop();
        b.world.set_cable(b.alpha.port(), false);
        b.world.set_cable(b.alpha.port(), true);
        b.alpha.run("probe_open", ALPHA);
        assert_eq!(b.alpha.ask("probe_port_state", 0), 2);
        b.alpha.run("probe_no_lid_yet", 0);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn a_pkey_is_found_by_all_sixteen_bits_and_where_it_is_now() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        let index = |pkey| b.alpha.ask("probe_pkey_index", pkey);
        assert_eq!(index(0xffff), 0);
        assert_eq!([index(0x7fff), index(0), index(0x8000), index(0x8001)], [-4; 4]);
        b.world.fabric().set_pkeys(b.alpha.port(), &[PKey(0xffff), PKey(0), PKey(0x8001)]).unwrap();
        b.settle();
        assert_eq!([index(0x8001), index(0x0001)], [2, -4]);
        b.world.fabric().set_pkeys(b.alpha.port(), &[PKey(0x8001), PKey(0xffff)]).unwrap();
        b.settle();
        assert_eq!([index(0x8001), index(0xffff)], [0, 1]);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn present_hcas_are_not_announced_and_later_ones_are_without_a_handle() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_attach_only", 0);
        b.settle();
        assert!(codes(&b.alpha).is_empty());
        let config = HcaConfig::new(fabric::Guid(0x77_0000), 1);
        b.world.add_hca(&b.alpha.kernel, config).unwrap();
        b.settle();
        assert_eq!(codes(&b.alpha), [HCA_ATTACH], "port events of an HCA that is not open are not told");
        b.alpha.run("probe_event_without_handle", 0);
        b.alpha.run("probe_detach_only", 0);
    });
}

#[test]
fn a_port_that_goes_and_comes_is_told_in_order_with_the_clients_own_handle() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        b.world.set_cable(b.alpha.port(), false);
        b.settle();
        assert_eq!(codes(&b.alpha), [PORT_DOWN]);
        b.world.set_cable(b.alpha.port(), true);
        b.settle();
        assert_eq!(codes(&b.alpha)[..2], [PORT_DOWN, PORT_UP]);
        assert_eq!(b.alpha.ask("probe_event_port", 1), 1);
        b.alpha.run("probe_events_name_the_handle", 0);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn a_quick_down_and_up_is_told_as_up_alone() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        let port = b.alpha.port();
        let fabric = b.world.fabric();
        // Nothing in between lets another thread run.
        fabric.set_cable(port, false).unwrap();
        fabric.set_cable(port, true).unwrap();
        let up = fabric::subnet::PortSet { state: Some(fabric::PortState::Active), ..Default::default() };
        fabric.program_port(port, &up).unwrap();
        b.settle();
        assert_eq!(codes(&b.alpha), [PORT_UP]);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn a_port_that_goes_down_takes_what_waits_for_it_along() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        let (port, fabric) = (b.alpha.port(), b.world.fabric());
        let rereg = fabric::subnet::PortSet { client_reregister: true, ..Default::default() };
        fabric.program_port(port, &rereg).unwrap();
        fabric.set_pkeys(port, &[PKey(0xffff), PKey(0x8001)]).unwrap();
        fabric.set_cable(port, false).unwrap();
        b.settle();
        assert_eq!(codes(&b.alpha), [PORT_DOWN]);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn changes_merge_and_come_before_reregistration() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        let (port, fabric) = (b.alpha.port(), b.world.fabric());
        let rereg = fabric::subnet::PortSet { client_reregister: true, ..Default::default() };
        fabric.program_port(port, &rereg).unwrap();
        fabric.set_pkeys(port, &[PKey(0xffff), PKey(0x8001)]).unwrap();
        let timeout = fabric::subnet::PortSet { subnet_timeout: Some(17), ..Default::default() };
        fabric.program_port(port, &timeout).unwrap();
        b.settle();
        assert_eq!(codes(&b.alpha), [PORT_CHANGE, CLNT_REREG]);
        assert_eq!(b.alpha.ask("probe_event_flags", 0), 2 | 0x10);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn a_handler_sees_the_port_as_the_event_left_it() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_start_looking", ALPHA);
        b.world.set_cable(b.alpha.port(), false);
        b.settle();
        assert_eq!(b.alpha.ask("probe_looked_state", 0), 1);
        b.world.set_cable(b.alpha.port(), true);
        b.settle();
        assert_eq!(b.alpha.ask("probe_looked_state", 0), 4);
        b.world.fabric().set_pkeys(b.alpha.port(), &[PKey(0xffff), PKey(0x8001)]).unwrap();
        b.settle();
        assert_eq!(b.alpha.ask("probe_looked_pkey", 0), 1);
        b.alpha.run("probe_stop_looking", 0);
    });
}

#[test]
fn detach_waits_for_a_handler_that_is_out() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_start_sleeper", ALPHA);
        b.world.set_cable(b.alpha.port(), false);
        fakekernel::sleep(fakekernel::Nanos::from_millis(100));
        b.alpha.run("probe_detach_during_callback", 0);
    });
}

#[test]
fn a_client_that_lets_go_in_the_detach_event_gives_the_hca_free() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_start_looking", ALPHA);
        b.world.remove_hca(&b.alpha.kernel, b.alpha.hca.guid()).unwrap();
        b.alpha.run("probe_detach_looker", 0);
        assert!(b.world.fabric().hca(b.alpha.hca.guid()).is_none());
    });
}

#[test]
fn a_client_that_keeps_the_hca_is_named_and_nobody_opens_it_any_more() {
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        let error = b.world.remove_hca(&b.alpha.kernel, b.alpha.hca.guid()).unwrap_err();
        assert!(error.to_string().contains("PROBE"), "{error}");
        assert_eq!(codes(&b.alpha), [HCA_DETACH]);
        b.alpha.run("probe_events_name_the_handle", 0);
        b.alpha.run("probe_open_while_detaching", ALPHA);
        b.alpha.run("probe_close", 0);
    });
}

#[test]
fn opening_at_interrupt_level_breaks_rule_1() {
    with("attachment").breaks(fakekernel::Rule::SleepInInterrupt, "ibt_attach", "", |b: &Bench| {
        b.alpha.within(Ctx::Soft { pil: 4 }, "probe_open", ALPHA);
    });
}

#[test]
fn a_port_that_leaves_and_returns_is_announced_with_gids_by_value() {
    const GID_AVAILABLE: i64 = 5;
    const GID_UNAVAILABLE: i64 = 6;
    with("attachment").holds(|b| {
        b.alpha.run("probe_open", ALPHA);
        b.alpha.run("probe_listen", 0);
        b.settle();
        let heard = |code: i64| b.alpha.ask("probe_heard", code << 56 | (BETA + 1));
        assert_eq!([heard(GID_UNAVAILABLE), heard(GID_AVAILABLE)], [0, 0]);
        b.world.set_cable(b.beta.port(), false);
        b.settle();
        assert_eq!([heard(GID_UNAVAILABLE), heard(GID_AVAILABLE)], [1, 0]);
        b.world.set_cable(b.beta.port(), true);
        b.settle();
        assert_eq!([heard(GID_UNAVAILABLE), heard(GID_AVAILABLE)], [1, 1]);
        b.alpha.run("probe_listen_no_more", 0);
        b.world.set_cable(b.beta.port(), false);
        b.settle();
        assert_eq!(heard(GID_UNAVAILABLE), 1);
        b.alpha.run("probe_close", 0);
    });
}
