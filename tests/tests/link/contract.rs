//! What the lab's mac asks of the driver, and the driver of it, is what a real kernel's was seen to (`metal run --case contract`).

use fakekernel::{Kernel, Nanos};
use lab_gldv3::{LinkAddress, Promiscuity, Stream};
use serde::Deserialize;

use crate::bench::{Bench, Driver, LINK, PLAIN, Setup};

const RECORD: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/kernel-calls.toml"));

#[derive(Deserialize)]
struct Record {
    act: Vec<Act>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Act {
    name: String,
    calls: Vec<String>,
    told: Vec<String>,
}

/// 239.1.2.3 as IP enables it: without scope and P_Key.
fn group() -> LinkAddress {
    let mut address = [0; 20];
    address[..8].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x10, 0x40, 0x1b]);
    address[16..].copy_from_slice(&[0x0f, 1, 2, 3]);
    LinkAddress(address)
}

impl Act {
    /// With the address last: whoever opens a link tells it, and another thread all the rest.
    fn settled(&self) -> Self {
        let mut act = self.clone();
        act.told.sort_by_key(|told| told.starts_with("mac_unicst_update"));
        act
    }
}

/// Does something and says what it caused, once that has come to rest.
fn act(kernel: &Kernel, name: &str, what: impl FnOnce()) -> Act {
    let machine = kernel.machine();
    let lines = || machine.journal().0.into_iter().filter(|line| line.host == kernel.name());
    let before = lines().count();
    what();
    fakekernel::sleep(Nanos::from_millis(500));
    let mut act = Act { name: name.to_owned(), calls: Vec::new(), told: Vec::new() };
    for line in lines().skip(before) {
        let (_, call) = line.what.split_once(' ').expect("the link, and what happened");
        if call.starts_with("mac_unicst_update") {
            act.told.push("mac_unicst_update(ADDRESS)".to_owned());
        } else if call.starts_with("mac_") {
            act.told.push(call.to_owned());
        } else {
            act.calls.push(call.to_owned());
        }
    }
    act
}

fn acts(bench: &Bench) -> Vec<Act> {
    let host = &bench.alpha;
    let kernel = &host.kernel;
    host.try_delete_partition().expect("nobody uses it");
    let mut acts = vec![act(kernel, "create", || host.create_partition())];
    let mut stream = None;
    acts.push(act(kernel, "open", || stream = Some(Stream::open(kernel, LINK).expect("the link opens"))));
    let stream = stream.expect("it is open");
    let on = |on| stream.set_promiscuous(Promiscuity::Physical, on).expect("promiscuous mode");
    acts.push(act(kernel, "bind", || stream.bind(PLAIN).expect("the stream binds")));
    acts.push(act(kernel, "promiscuous", || on(true)));
    acts.push(act(kernel, "no longer promiscuous", || on(false)));
    acts.push(act(kernel, "enable group", || stream.enable_multicast(group()).expect("a group")));
    acts.push(act(kernel, "disable group", || stream.disable_multicast(group()).expect("a group")));
    acts.push(act(kernel, "set property", || host.set("_ibd_debug", "0").expect("a property")));
    acts.push(act(kernel, "get property", || assert_eq!(host.get("_ibd_debug"), "0")));
    acts.push(act(kernel, "close", || drop(stream)));
    acts.push(act(kernel, "delete", || host.try_delete_partition().expect("nobody uses it")));
    acts
}

#[test]
fn mac_and_the_driver_ask_of_one_another_what_a_kernel_was_seen_to() {
    let setup = Setup { driver: Driver::Ibp, machine: |config| config.journal = true, ..Setup::default() };
    setup.run(|bench| {
        let record: Record = toml::from_str(RECORD).expect("the record");
        for (seen, expected) in acts(bench).iter().zip(&record.act) {
            assert_eq!(seen.settled(), expected.settled());
        }
    });
}
