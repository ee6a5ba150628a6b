//! Everything that reads what comes from outside, as functions that take any bytes and must come back.
//!
//! `tests/smoke.rs` runs each over its corpus and a few thousand mutations of it, with a fixed seed; `make fuzz TARGET=...`
//! lets libFuzzer do that for as long as one likes. A failure becomes a named test where the code is.

#![forbid(unsafe_code)]

mod ipv6;
mod receive;

use std::path::Path;

use ipoib::{LinkAddr, Qpn};
use lab_ip::{arp, dhcp, nd};
use sm::records::{McMemberRecord, Record, emit_table, parse_table};
use sm::{Lid, Mad, Nanos, SaMad, Sm, SmConfig, rmpp};

pub use ipv6::{ipv6_fragments, routers};
pub use receive::receive_path;

/// Takes an input and panics if what it reads cannot bear it.
pub type Target = fn(&[u8]);

/// Name and function of each target.
pub const TARGETS: [(&str, Target); 15] = [
    ("sa_mad", sa_mad),
    ("rmpp", rmpp_transfer),
    ("subnet_administrator", subnet_administrator),
    ("wire_frame", wire_frame),
    ("capture", capture),
    ("ipoib_frame", ipoib_frame),
    ("arp_and_nd", arp_and_nd),
    ("routers", routers),
    ("ipv6_fragments", ipv6_fragments),
    ("scenario", scenario),
    ("suppressions", suppressions),
    ("snoop_file", snoop_file),
    ("host_files", host_files),
    ("module_object", module_object),
    ("receive_path", receive_path),
];

/// MADs of 256 bytes, one after the other.
fn mads(bytes: &[u8]) -> impl Iterator<Item = Mad> + '_ {
    bytes.chunks(256).map(|chunk| {
        let mut mad = [0; 256];
        mad[..chunk.len()].copy_from_slice(chunk);
        Mad(mad)
    })
}

/// A MAD of subnet administration: what is read writes and reads back the same.
pub fn sa_mad(bytes: &[u8]) {
    for mad in mads(bytes) {
        let Ok(parsed) = SaMad::parse(&mad) else { continue };
        assert_eq!(SaMad::parse(&parsed.emit()).as_ref(), Ok(&parsed));
        if let Some(record) = parsed.record::<McMemberRecord>() {
            assert_eq!(McMemberRecord::parse(&record.emit()), Some(record));
        }
    }
    if let Some((offset, table)) = bytes.split_first() {
        let records: Vec<McMemberRecord> = parse_table(table, u16::from(*offset));
        assert_eq!(parse_table::<McMemberRecord>(&emit_table(&records), 7).len(), records.len());
    }
}

/// The receiving side of a transfer in many segments, and the sending side given the same MADs as acknowledgements.
pub fn rmpp_transfer(bytes: &[u8]) {
    let mut receiver = rmpp::Receiver::new();
    let header = mads(bytes).find_map(|mad| SaMad::parse(&mad).ok());
    let Some(header) = header else { return };
    let (mut sender, _) = rmpp::Sender::start(Nanos(0), &header, bytes);
    for (n, mad) in mads(bytes).enumerate() {
        if let Ok(mad) = SaMad::parse(&mad) {
            let _ = receiver.receive(&mad);
            let _ = sender.receive(Nanos(n as u64), &mad);
        }
    }
    let _ = sender.handle_timeout(Nanos(u64::MAX / 2));
}

/// Requests to the administrator, from anybody.
pub fn subnet_administrator(bytes: &[u8]) {
    let mut sm = Sm::new(SmConfig::default());
    for (n, mad) in mads(bytes).enumerate() {
        let now = Nanos(n as u64 * 1_000_000);
        let from = sm::sa::Address { lid: Lid(n as u16 % 5), qpn: sm::Qpn::GSI };
        sm.receive(now, from, &mad);
        while sm.poll_send(now).is_some() {}
    }
}

/// A frame of the fabric.
pub fn wire_frame(bytes: &[u8]) {
    let _ = fabric::wire::Packet::parse(bytes);
}

/// A capture file.
pub fn capture(bytes: &[u8]) {
    let _ = ibdlab::capture::count(bytes);
}

/// What the adapter put into a receive buffer: first byte odd if there is a GRH.
pub fn ipoib_frame(bytes: &[u8]) {
    let Some((flags, frame)) = bytes.split_first() else { return };
    let own = LinkAddr::from_bytes([7; 20]);
    let mut frame = frame.to_vec();
    let received = ipoib::header::receive(&mut frame, flags & 1 == 1, Qpn::from_low_bits(9), &own, &[]);
    if received.is_ok() {
        ipoib::nd::pad_for_ip(frame.get_mut(40..).unwrap_or_default(), &own);
    }
    ipoib::nd::pad_for_wire(&mut frame);
}

/// What the lab's IP layer reads of neighbours and of DHCP servers.
pub fn arp_and_nd(bytes: &[u8]) {
    let client = dhcp::ClientId([0; 21]);
    let _ = dhcp::for_client(bytes);
    let _ = dhcp::Answer::parse(bytes, &client);
    if let Some(message) = arp::Arp::parse(bytes) {
        assert_eq!(arp::Arp::parse(&message.emit()), Some(message));
    }
    let _ = nd::is_nd(bytes);
    let _ = nd::Nd::parse(bytes);
}

/// A capture file of `snoop`, and each frame in it as every style shows it.
pub fn snoop_file(bytes: &[u8]) {
    for frame in admin::read_capture(bytes).unwrap_or_default() {
        let _ = admin::describe_frame(&frame.bytes);
    }
    let _ = admin::describe_frame(bytes);
}

/// What a host of the desk keeps for good, frames to be sent, and what a client says to a lab.
pub fn host_files(bytes: &[u8]) {
    let _ = ibdlab::desk::frame_files::lines(bytes, Some([0; 20]));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    admin::read_host_files(text);
    let _ = ibdlab::desk::read_frames(text);
    let _ = ibdlab::desk::read_request(bytes);
}

/// A scenario file: what is read is written and reads back.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(scenario) = ibdlab::scenario::parse(Path::new("fuzz.toml"), text) else { return };
    // TOML has no numbers of 2^63 and above, and a seed may be one.
    let Ok(written) = scenario.to_toml() else { return };
    let again = ibdlab::scenario::parse(Path::new("fuzz.toml"), &written);
    assert_eq!(again.expect("what was written is right").to_toml().ok(), Some(written));
}

/// A file of known violations.
pub fn suppressions(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = ibdlab::suppress::read(Path::new("fuzz.toml"), text);
}

/// A kernel module object, as far as the loader decides by the file alone.
pub fn module_object(bytes: &[u8]) {
    let _ = fakekernel::object_is_acceptable("fuzz", bytes);
}
