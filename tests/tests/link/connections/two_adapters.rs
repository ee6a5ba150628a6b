//! A host with two adapters, whose links have queue pairs of the same number.

use fabric::{Guid, HcaConfig};
use lab_gldv3::{LinkAddress, PropertyId, PropertyValue, Stream};

use super::guest::Guest;
use super::{LEGACY, accepting, holds, pattern, payloads};
use crate::bench::{Bench, PLAIN, address_of};

const SECOND: &str = "ibd1";

/// Beta's second adapter: its port.
fn plug(bench: &Bench) -> Guid {
    let node = Guid(0x0002_c903_0000_5000);
    bench.world.add_hca(&bench.beta.kernel, HcaConfig::new(node, 1)).expect("the GUID is free");
    let port = Guid(node.0 + 1);
    bench.beta.attach_port(port);
    port
}

fn take_connections(bench: &Bench, link: &str, value: &str) {
    let (id, value) =
        (PropertyId::Private("_ibd_rc_accept".to_owned()), PropertyValue::Text(value.to_owned()));
    lab_gldv3::set_property(&bench.beta.kernel, link, &id, &value).expect("it is closed");
}

fn qpn(LinkAddress(address): LinkAddress) -> u32 {
    u32::from_be_bytes(address[..4].try_into().expect("four bytes")) & 0x00ff_ffff
}

#[test]
fn two_links_on_two_adapters_whose_queue_pairs_have_the_same_number_both_take_connections() {
    holds(|bench| {
        let port = plug(bench);
        take_connections(bench, SECOND, "1");
        let (first, to_first, number) = accepting(bench);
        let second = Stream::open(&bench.beta.kernel, SECOND).expect("the link opens");
        let to_second = second.receive_queue(100);
        second.bind(PLAIN).expect("the stream binds");
        bench.settle();
        let addresses = [address_of(&first), address_of(&second)];
        assert_eq!(addresses.map(|address| (i64::from(qpn(address)), address.0[0])), [(number, 0x80); 2]);
        let guest = Guest::new(bench, 3);
        guest.aim(&bench.beta, LEGACY + number, 0x99, 65_524);
        guest.run("probe_connect", 0);
        guest.run("probe_aim", port.0 as i64);
        guest.run("probe_connect", 1);
        guest.send(0, 5_000, PLAIN);
        guest.send(1, 6_000, PLAIN);
        bench.settle();
        assert!(payloads(&to_first) == [pattern(5_000)] && payloads(&to_second) == [pattern(6_000)]);
        // The one that listened first goes; the other one goes on.
        guest.run("probe_close_channel", 0);
        drop((first, to_first));
        bench.settle();
        guest.run("probe_connect", 2);
        guest.send(2, 7_000, PLAIN);
        bench.settle();
        assert!(payloads(&to_second) == [pattern(7_000)]);
        guest.leave();
        drop((second, to_second));
    });
}
