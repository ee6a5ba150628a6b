//! Somebody asks a driver how neighbours are reached: every answer there is must be one that `sys/ibd_path.h` allows.

use std::net::IpAddr;

use anyhow::{Result, bail};
use fakekernel::Errno;
use fakekernel::genunix::Cred;
use lab_gldv3::Stream;

use crate::run::host_run::HostRun;

/// `IBD_PATH_INFO`
const PATH_INFO: i32 = 0x6171_0004;
/// `ibd_path_info_t`: its size, and where what is in it.
const LEN: usize = 116;
const KIND: usize = 8;
const ADDRESS: usize = 12;
const NEIGHBOUR: usize = 40;
const DESTINATION: usize = 76;
/// ENXIO, ENETDOWN of `sys/errno.h`.
const ENXIO: Errno = Errno(6);
const ENETDOWN: Errno = Errno(127);
/// EAGAIN, ENOENT, ENXIO, ENETDOWN, ENOMEM.
const REFUSALS: [Errno; 5] = [Errno::EAGAIN, Errno::ENOENT, ENXIO, ENETDOWN, Errno::ENOMEM];

/// Asks about the other hosts, a host that is not there, and groups. A driver without the question (a foreign one, or none)
/// answers EINVAL to all.
pub fn ask(host: &HostRun, targets: &[IpAddr]) -> Result<()> {
    let Ok(stream) = Stream::open_passive(&host.kernel, &host.link()) else { return Ok(()) };
    let mut known = Vec::new();
    for target in targets.iter().chain(&[IpAddr::from([255; 4]), IpAddr::from([224, 0, 0, 1])]) {
        known.extend(ask_one(&stream, &question(*target))?);
    }
    for neighbour in known {
        // The same, by link address; and who would be there if one bit were another.
        let mut other = neighbour;
        other[19] ^= 0x40;
        for link in [neighbour, other] {
            ask_one(&stream, &record(1, &link))?;
        }
    }
    Ok(())
}

fn question(ip: IpAddr) -> [u8; LEN] {
    match ip {
        IpAddr::V4(ip) => record(2, &ip.octets()),
        IpAddr::V6(ip) => record(3, &ip.octets()),
    }
}

fn record(kind: u32, address: &[u8]) -> [u8; LEN] {
    let mut record = [0; LEN];
    record[..4].copy_from_slice(&1_u32.to_ne_bytes());
    record[KIND..KIND + 4].copy_from_slice(&kind.to_ne_bytes());
    record[ADDRESS..ADDRESS + address.len()].copy_from_slice(address);
    record
}

/// The link address that was looked up, if the way is known.
fn ask_one(stream: &Stream, question: &[u8; LEN]) -> Result<Option<[u8; 20]>> {
    let answer = match stream.ioctl(Cred::ROOT, PATH_INFO, question) {
        Ok((_, answer)) => answer,
        Err(errno) if REFUSALS.contains(&errno) || errno == Errno::EINVAL => return Ok(None),
        Err(errno) => bail!("asked for a path: {errno}"),
    };
    let Some(neighbour) = answer.get(NEIGHBOUR..NEIGHBOUR + 20).and_then(|bytes| bytes.first_chunk::<20>())
    else {
        bail!("asked for a path: {} bytes", answer.len());
    };
    let destination = answer.get(DESTINATION..DESTINATION + 16).unwrap_or_default();
    // Scope and P_Key of a group are the link's; a port's GID is its address's.
    if neighbour[4..] != *destination && !(neighbour[4] == 0xff && destination.first() == Some(&0xff)) {
        bail!("asked for the path to {neighbour:02x?}: told one to {destination:02x?}");
    }
    Ok(Some(*neighbour))
}
