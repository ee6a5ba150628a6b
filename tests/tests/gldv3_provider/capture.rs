//! What snoop writes of a link.

use lab_gldv3::{Offload, Snoop, Stream};

use crate::rig::Counter::{PromiscOff, PromiscOn, Start, Stop};
use crate::rig::{LINK, TxMode, examine};
use crate::{IP, PEER, settle};

/// A record: original length, data, bytes from its start to the next one's, seconds.
struct Record<'a> {
    original: usize,
    data: &'a [u8],
    total: usize,
    seconds: usize,
}

fn word(file: &[u8], at: usize) -> usize {
    u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

/// The records behind the 16 bytes of the file's header, stepping by each one's own length.
fn records(file: &[u8]) -> Vec<Record<'_>> {
    let mut at = 16;
    let mut found = Vec::new();
    while at < file.len() {
        let [original, included, total, seconds] = [0, 4, 8, 16].map(|field| word(file, at + field));
        let data = &file[at + 24..at + 24 + included];
        found.push(Record { original, data, total, seconds });
        at += total;
    }
    assert_eq!(at, file.len(), "the last record ends with the file");
    found
}

#[test]
fn listener_is_no_user_of_the_address_and_puts_the_driver_into_promiscuous_mode() {
    examine(|host| {
        let driver = host.driver();
        let snoop = Snoop::start(&host.kernel, LINK, 65535).unwrap();
        assert_eq!(driver.events(), [Start, PromiscOn]);
        assert_eq!(snoop.file(), b"snoop\0\0\0\0\0\0\x02", "the medium comes with the first packet");
        drop(snoop);
        assert_eq!(driver.events(), [Start, PromiscOn, PromiscOff, Stop]);
        driver.leave();
    });
}

#[test]
fn file_names_the_medium_and_its_records_follow_each_other() {
    examine(|host| {
        let driver = host.driver();
        let stream = Stream::open(&host.kernel, LINK).unwrap();
        stream.bind(IP).unwrap();
        let snoop = Snoop::start(&host.kernel, LINK, 65535).unwrap();
        driver.call("probe_rx", 1);
        stream.transmit(PEER, b"payload", Offload::default()).unwrap();
        let file = snoop.file();
        assert_eq!(word(&file, 8), 2);
        assert_eq!(word(&file, 12), 26, "DL_IB");
        let records = records(&file);
        let sizes: Vec<(usize, usize)> = records.iter().map(|r| (r.data.len(), r.total)).collect();
        assert_eq!(sizes, [(40, 64), (11, 40)]);
        // The type, two zero bytes and the payload; no address.
        assert_eq!(records[0].data[..5], [0x08, 0x00, 0, 0, 0x45]);
        assert_eq!(records[1].data, [&[0x08, 0x00, 0, 0][..], b"payload"].concat());
        assert!(records.iter().all(|r| r.original == r.data.len() && r.seconds > 0));
        drop((snoop, stream));
        driver.leave();
    });
}

#[test]
fn records_are_padded_except_one_that_fills_its_chunk() {
    examine(|host| {
        let driver = host.driver();
        let stream = Stream::open(&host.kernel, LINK).unwrap();
        stream.bind(IP).unwrap();
        let snoop = Snoop::start(&host.kernel, LINK, 65535).unwrap();
        // 4 + 97 bytes behind a header of 24 make 125, padded to 128; 512 of these are a chunk.
        for _ in 0..600 {
            stream.transmit(PEER, &[7; 97], Offload::default()).unwrap();
        }
        let file = snoop.file();
        let totals: Vec<usize> = records(&file).iter().map(|record| record.total).collect();
        assert_eq!(totals.len(), 600);
        assert_eq!(totals.iter().position(|total| *total != 128), Some(511));
        assert_eq!(totals[511], 125);
        assert!(totals[512..].iter().all(|total| *total == 128));
        drop((snoop, stream));
        driver.leave();
    });
}

#[test]
fn snap_length_cuts_the_data_and_not_the_length_told() {
    examine(|host| {
        let driver = host.driver();
        let snoop = Snoop::start(&host.kernel, LINK, 20).unwrap();
        driver.call("probe_rx", 1);
        let file = snoop.file();
        let records = records(&file);
        assert_eq!((records[0].original, records[0].data.len(), records[0].total), (40, 20, 48));
        drop(snoop);
        driver.leave();
    });
}

/// The copy is made before the driver is asked, and again when it is asked again.
#[test]
fn packet_the_driver_refuses_is_captured_each_time_it_is_offered() {
    examine(|host| {
        let driver = host.driver();
        let stream = Stream::open(&host.kernel, LINK).unwrap();
        stream.bind(IP).unwrap();
        let snoop = Snoop::start(&host.kernel, LINK, 65535).unwrap();
        driver.tx_mode(TxMode::RefuseAndUpdate);
        stream.transmit(PEER, b"twice", Offload::default()).unwrap();
        settle();
        let file = snoop.file();
        let seen: Vec<&[u8]> = records(&file).iter().map(|record| &record.data[4..]).collect();
        assert_eq!(seen, [b"twice", b"twice"]);
        drop((snoop, stream));
        driver.leave();
    });
}
