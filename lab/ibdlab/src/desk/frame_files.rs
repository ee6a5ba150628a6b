//! The files that `ibdlab send` takes frames from: lines of hexadecimal digits, or captures of a link.
//!
//! A raw writer needs the destination. Lines have it, pcap of link type 242 has it unless a unicast packet came with a GRH; a
//! snoop file has none, so that whoever sends it has to say one.

use std::fmt::Write as _;

use super::captured::{self, Captured};
use super::frames;
use super::ipoib_pcap::{self, PREFIX};

/// Link types: of captures of the fabric, and of a link.
const ERF: u32 = 197;
const IPOIB: u32 = 242;
/// Octets of a link address.
const ADDRESS: usize = 20;

/// A destination from the command line: 20 octets, as 40 hexadecimal digits or divided by colons as `arp` prints them.
///
/// # Errors
///
/// What is expected.
pub fn address(text: &str) -> Result<[u8; ADDRESS], String> {
    let why = || format!("`{text}` is no link address: expected {ADDRESS} octets, `0:0:0:48:fe:80:...`");
    let octets: Option<Vec<u8>> = if text.contains(':') {
        text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect()
    } else {
        frames::octets(text)
    };
    octets.and_then(|octets| octets.try_into().ok()).ok_or_else(why)
}

/// The frames of a file as lines of hexadecimal digits, destination first; `to` where the file has none.
///
/// # Errors
///
/// What the file is instead, or the first frame that cannot be sent, and why.
pub fn lines(file: &[u8], to: Option<[u8; ADDRESS]>) -> Result<String, String> {
    let frames = match captured::reader_of(file) {
        Some(read) => {
            let packets = read(file)?;
            let frame = |(number, packet): (usize, &Captured<'_>)| from_packet(number, packet, to);
            (1..).zip(&packets).map(frame).collect::<Result<_, _>>()?
        }
        None if file.starts_with(b"snoo") => from_snoop(file, to)?,
        None => {
            let none = "neither lines of hexadecimal digits nor a capture (snoop, pcap, pcapng)";
            let text = std::str::from_utf8(file).map_err(|_| none)?;
            frames::parse(text)?;
            return Ok(text.to_owned());
        }
    };
    if frames.is_empty() {
        return Err("there is no frame in it".to_owned());
    }
    Ok(frames.iter().fold(String::new(), |mut lines, frame| {
        frame.iter().for_each(|octet| {
            // To a string, which takes everything.
            let _ = write!(lines, "{octet:02x}");
        });
        lines.push('\n');
        lines
    }))
}

fn from_snoop(file: &[u8], to: Option<[u8; ADDRESS]>) -> Result<Vec<Vec<u8>>, String> {
    let records = admin::read_capture(file)?;
    let to = to.ok_or("a snoop file has no destinations: say one with --to")?;
    let frame = |(number, record): (usize, &admin::Frame)| {
        whole(number, record.bytes.len(), record.size)?;
        Ok([&to[..], &record.bytes].concat())
    };
    (1..).zip(&records).map(frame).collect()
}

fn from_packet(number: usize, packet: &Captured<'_>, to: Option<[u8; ADDRESS]>) -> Result<Vec<u8>, String> {
    if packet.link_type == ERF {
        return Err(
            "a capture of the fabric has LIDs and no link addresses: send a capture of a link".to_owned()
        );
    }
    if packet.link_type != IPOIB {
        return Err(format!("frame {number} is of link type {}, expected 242 (IPoIB)", packet.link_type));
    }
    whole(number, packet.kept.len(), packet.size)?;
    let packet = packet.kept;
    let Some((prefix, rest)) = packet.split_first_chunk::<PREFIX>() else {
        return Err(format!(
            "frame {number} has {} octets, fewer than link type 242 puts in front",
            packet.len()
        ));
    };
    let known = to.or_else(|| ipoib_pcap::destination(prefix));
    let to = known.ok_or_else(|| {
        format!("frame {number} is to a station and has a GRH in the place of its address: say --to")
    })?;
    Ok([&to[..], rest].concat())
}

fn whole(number: usize, kept: usize, size: usize) -> Result<(), String> {
    if kept == size {
        Ok(())
    } else {
        Err(format!("frame {number} was cut: {kept} of {size} octets are there"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab_gldv3::{Destination, LinkAddress, Received};

    use super::*;

    const TO: [u8; 20] = [0x42; 20];

    fn received(source: Option<LinkAddress>, kind: Destination, first: u8) -> Received {
        let mut destination = TO;
        destination[..5].copy_from_slice(&[0, 0xff, 0xff, 0xff, first]);
        Received {
            source,
            destination: LinkAddress(destination),
            kind,
            sap: 0x0800,
            payload: vec![1, 2, 3],
            ip_checksum_ok: false,
            full_checksum_ok: false,
            loopback: false,
        }
    }

    fn pcap(packets: &[Received]) -> Vec<u8> {
        let mut writer = ipoib_pcap::writer(Vec::new()).unwrap();
        for one in packets {
            writer.write_packet(&ipoib_pcap::packet(LinkAddress(TO), one, Duration::from_secs(1))).unwrap();
        }
        writer.into_writer()
    }

    fn snoop(kept: &[u8], size: u32) -> Vec<u8> {
        let mut file = b"snoop\0\0\0".to_vec();
        let total = 24 + kept.len() as u32;
        for word in [2, 26, size, kept.len() as u32, total, 0, 1, 0] {
            file.extend(u32::to_be_bytes(word));
        }
        [file, kept.to_vec()].concat()
    }

    #[test]
    fn a_pcap_has_its_destinations_and_a_snoop_file_is_given_one() {
        let unicast = received(None, Destination::Unicast, 0xfe);
        let group = received(Some(LinkAddress(TO)), Destination::Multicast, 0xff);
        let sent = lines(&pcap(&[unicast, group]), None).unwrap();
        let tail = "42".repeat(15) + "08000000010203";
        assert_eq!(sent, format!("00fffffffe{tail}\n00ffffffff{tail}\n"));
        let sent = lines(&snoop(&[8, 0, 0, 0, 9], 5), Some(TO)).unwrap();
        assert_eq!(sent, "42".repeat(20) + "0800000009\n");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_by_its_reason() {
        let station = received(Some(LinkAddress(TO)), Destination::Unicast, 0xfe);
        let mut ethernet = pcap(&[received(None, Destination::Unicast, 0xfe)]);
        ethernet[20..24].copy_from_slice(&1u32.to_be_bytes());
        let mut tiny = pcap(&[]);
        tiny.extend([1u32, 0, 3, 3].iter().flat_map(|word| word.to_be_bytes()));
        tiny.extend([1, 2, 3]);
        let whole = pcap(&[received(None, Destination::Unicast, 0xfe)]);
        for (file, why) in [
            (snoop(&[8, 0, 0, 0], 4), "a snoop file has no destinations: say one with --to"),
            (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec(), "MAC type 4 is not that of IP over InfiniBand"),
            (b"snoop\0\0\0\0\0\0\x02\0\0\0\x1a".to_vec(), "there is no frame in it"),
            (pcap(&[station]), "frame 1 is to a station and has a GRH in the place of its address: say --to"),
            (ethernet, "frame 1 is of link type 1, expected 242 (IPoIB)"),
            (tiny, "frame 1 has 3 octets, fewer than link type 242 puts in front"),
            (whole[..whole.len() - 1].to_vec(), "the pcap is damaged: "),
            (vec![0x0a, 0x0d, 0x0d, 0x0a, 9], "the pcapng is damaged: "),
            (vec![0xff, 0xfe], "neither lines of hexadecimal digits nor a capture (snoop, pcap, pcapng)"),
        ] {
            let to = why.contains("--to").then_some(()).map_or(Some(TO), |()| None);
            let said = lines(&file, to).unwrap_err();
            assert!(said.starts_with(why), "{said}, expected {why}");
        }
        let cut = lines(&snoop(&[8, 0, 0, 0], 60), Some(TO)).unwrap_err();
        assert_eq!(cut, "frame 1 was cut: 4 of 60 octets are there");
    }

    #[test]
    fn no_file_makes_the_reader_panic() {
        let group = received(Some(LinkAddress(TO)), Destination::Multicast, 0xff);
        for file in [pcap(&[group.clone(), group]), snoop(&[8, 0, 0, 0, 9], 5)] {
            for at in 0..file.len() {
                let _ = lines(&file[..at], Some(TO));
                for value in [0, 0x7f, 0xff] {
                    let mut damaged = file.clone();
                    damaged[at] = value;
                    let _ = lines(&damaged, Some(TO));
                }
            }
        }
    }

    #[test]
    fn an_address_is_forty_digits_or_octets_between_colons() {
        assert_eq!(address(&"42".repeat(20)), Ok(TO));
        assert_eq!(address(&["42"; 20].join(":")), Ok(TO));
        for text in ["42:42", "0x42", "", &"4g".repeat(20), &["142"; 20].join(":")] {
            assert!(address(text).unwrap_err().contains("is no link address"), "{text}");
        }
    }
}
