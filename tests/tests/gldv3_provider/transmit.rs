//! What `mc_tx` gets, and what becomes of packets it gives back.

use fakekernel::{Config, Halt};
use lab_gldv3::{Offload, Stream};

use crate::rig::Counter::{Refused, Tx};
use crate::rig::{Driver, Host, LINK, TxMode, examine, run};
use crate::{IP, PEER, settle};

fn bound(driver: &Driver) -> Stream {
    let stream = Stream::open(&driver.host.kernel, LINK).expect("the link is there");
    stream.bind(IP).expect("a legal SAP");
    stream
}

fn send(stream: &Stream, payload: &[u8]) {
    stream.transmit(PEER, payload, Offload::default()).expect("bound, and small enough");
}

#[test]
fn driver_gets_the_plugins_header_and_the_payload() {
    examine(|host| {
        let driver = host.driver();
        let stream = bound(&driver);
        send(&stream, b"payload");
        let header = [&[0; 20][..], &PEER.0, &[0x08, 0x00, 0, 0]].concat();
        assert_eq!(driver.last_sent(), [&header[..], b"payload"].concat());
        assert_eq!(driver.count(Tx), 1);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn update_from_inside_the_refusing_call_is_not_lost() {
    examine(|host| {
        let driver = host.driver();
        let stream = bound(&driver);
        driver.tx_mode(TxMode::RefuseAndUpdate);
        send(&stream, b"twice");
        settle();
        assert_eq!((driver.count(Tx), driver.count(Refused)), (2, 1));
        assert_eq!(stream.transmit_queue(), 0);
        assert_eq!(driver.last_sent()[44..], *b"twice");
        drop(stream);
        driver.leave();
    });
}

#[test]
fn refused_packet_waits_for_the_update_and_others_behind_it() {
    examine(|host| {
        let driver = host.driver();
        let stream = bound(&driver);
        driver.tx_mode(TxMode::Refuse);
        send(&stream, b"first");
        settle();
        let tried = driver.count(Tx);
        assert_eq!(driver.count(Refused), tried);
        send(&stream, b"second");
        send(&stream, b"third");
        settle();
        assert_eq!(driver.count(Tx), tried, "nothing is offered while the link is blocked");
        assert_eq!(stream.transmit_queue(), 3);
        driver.tx_mode(TxMode::Take);
        driver.call("probe_tx_update", 0);
        settle();
        assert_eq!(driver.count(Tx), tried + 3);
        assert_eq!(stream.transmit_queue(), 0);
        assert_eq!(driver.last_sent()[44..], *b"third");
        drop(stream);
        driver.leave();
    });
}

#[test]
fn updates_that_nobody_waits_for_do_no_harm() {
    examine(|host| {
        let driver = host.driver();
        driver.call("probe_tx_update", 0);
        let stream = bound(&driver);
        driver.call("probe_tx_update", 0);
        send(&stream, b"payload");
        driver.call("probe_tx_update", 0);
        assert_eq!(driver.count(Tx), 1);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn close_drops_what_the_driver_never_took() {
    examine(|host| {
        let driver = host.driver();
        let stream = bound(&driver);
        driver.tx_mode(TxMode::Refuse);
        send(&stream, b"never");
        settle();
        drop(stream);
        driver.leave();
    });
}

#[test]
fn payload_the_stack_keeps_a_duplicate_of_is_read_and_freed() {
    examine(|host| {
        let driver = host.driver();
        let stream = bound(&driver);
        stream.transmit_and_keep(PEER, b"kept").unwrap();
        assert_eq!(driver.last_sent()[44..], *b"kept");
        drop(stream);
        driver.leave();
    });
}

/// The real transmit drain compares pointers: another message is a panic or a use after free.
#[test]
fn substituted_packet_panics_and_the_driver_is_named() {
    let halt = run(Config::default(), |host: &Host| {
        let driver = host.driver();
        let stream = bound(&driver);
        driver.tx_mode(TxMode::Substitute);
        send(&stream, b"payload");
    });
    let Err(Halt::Panic(panic)) = halt else { panic!("{halt:?}") };
    assert_eq!(panic.module, "gld");
    assert!(panic.message.contains("mc_tx"), "{panic}");
}
