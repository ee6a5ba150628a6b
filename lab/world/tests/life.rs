//! The life of a host, with the objects that ship.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use fabric::{Guid, HcaConfig};
use fakekernel::{Config, Machine, Nanos};
use lab_world::{Driver, Host, PORT_LINK, Plan, World};
use sm::partition::{GroupParams, Membership, Ports};
use sm::{PKey, Partition, SmConfig};

fn object(class: &str, name: &str) -> PathBuf {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/kernel");
    let path = proto.join(class).join("amd64").join(name);
    sources::refresh(&path).expect("built");
    path
}

/// One host on a fabric with its subnet manager.
fn live(driver: Driver, cabled: bool, life: fn(&World, &Host)) {
    let machine = Machine::new(Config::seeded(1));
    let inner = machine.clone();
    let outcome = machine.run(move || {
        let mut world = World::new(&inner, 1);
        let mut adapter = HcaConfig::new(Guid(0x0002_c903_0000_1000), 1);
        adapter.ports[0].cabled = cabled;
        let (object, plugin) = (object("drv", driver.name()), object("mac", "mac_ib"));
        let host = world.add_host(Plan::new("alice", driver, object, plugin, adapter)).expect("a host");
        let all = Partition::new("all", PKey(0xffff)).with_members(Ports::All, Membership::Full);
        let partitions = vec![all.with_ipoib(GroupParams::default())];
        world.infiniband.start_sm(SmConfig { partitions, ..SmConfig::default() }, Nanos::from_millis(1));
        life(&world, &host);
        host.unload().expect("nobody has a link open");
        host.check_nothing_is_left().expect("an empty kernel");
        assert!(lab_gldv3::links(&host.kernel).is_empty(), "no link is left");
    });
    outcome.unwrap_or_else(|halt| panic!("{halt}"));
}

#[test]
fn a_link_that_could_not_be_made_is_made_from_where_that_failed() {
    live(Driver::Ibp, false, |world, host| {
        let refused = host.make_link().expect_err("the port has no cable").to_string();
        assert_eq!(refused, "dladm create-part pFFFF.ibp0");
        assert!(!host.has_link());
        let (_, instance) = host.driven().expect("the driver has its instance all the same");
        world.infiniband.set_cable(host.port, true);
        host.make_link().expect("the port comes up");
        assert!(host.has_link());
        let (_, now) = host.driven().expect("it has one");
        assert_eq!(now.as_ptr(), instance.as_ptr(), "it was not attached again");
        host.make_link().expect("there is nothing left to do");
    });
}

#[test]
fn an_adapter_that_is_put_back_finds_a_kernel_without_the_driver() {
    for driver in Driver::ALL {
        live(driver, true, |world, host| {
            host.make_link().expect("a link");
            host.pull_adapter(&world.infiniband).expect("nobody is in the way");
            assert!(host.is_pulled());
            host.plug_adapter(&world.infiniband).expect("it has its place");
            assert!(!host.is_pulled() && !host.has_link());
            assert!(host.kernel.module(host.driver_name()).is_none(), "what knew the adapter is gone");
            host.make_link().expect("a link on the adapter that is back");
        });
    }
}

#[test]
fn a_host_that_unloads_deletes_partitions_that_others_have_made() {
    live(Driver::Ibp, true, |_, host| {
        host.make_link().expect("a link");
        lab_gldv3::create_partition(&host.kernel, PORT_LINK, 0x8001, "other0", true).expect("a partition");
    });
}

#[test]
fn a_partition_that_somebody_else_has_deleted_is_no_hindrance() {
    live(Driver::Ibp, true, |_, host| {
        host.make_link().expect("a link");
        lab_gldv3::delete_partition(&host.kernel, &host.link()).expect("nobody uses it");
        assert_eq!(host.try_delete_partition(), Ok(()));
        host.make_link().expect("it is made again");
        assert!(host.has_link());
    });
}
