//! `ibdlab capture`: the frames of the fabric, or the packets of a link, in a file, for as long as somebody wants them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric::capture::io_error;
use fakekernel::{Kernel, Nanos};
use lab_gldv3::{Promiscuity, Received, Stream};
use lab_ibtf::InfiniBand;
use serde::{Deserialize, Serialize};

use super::heard::{Heard, boot_time};
use super::ipoib_pcap;

/// How often somebody looks whether the capture was ended.
const ATTENTION: Nanos = Nanos::from_millis(50);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Capture {
    /// Absolute.
    pub file: PathBuf,
    /// Host and link; the fabric if there is none.
    pub link: Option<(String, String)>,
    /// How many packets to take; until interrupted if not said.
    pub count: Option<u64>,
}

/// The end of a capture: how many packets were taken, and lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    pub packets: u64,
    pub lost: u64,
}

/// Frames at all ports that there are now. On a thread of the machine.
///
/// # Errors
///
/// What is in the way.
pub fn fabric(
    infiniband: &InfiniBand,
    wanted: &Capture,
    under_way: &AtomicBool,
    interrupted: &AtomicBool,
    started: impl FnOnce(),
) -> Result<Taken, String> {
    if under_way.swap(true, Ordering::SeqCst) {
        return Err("a capture of the fabric is under way".to_owned());
    }
    let said = |error: std::io::Error| format!("{}: {error}", wanted.file.display());
    let taken = infiniband.capture(&wanted.file, wanted.count).map_err(said).and_then(|capture| {
        started();
        while !interrupted.load(Ordering::Relaxed) {
            capture.flush().map_err(said)?;
            let frames = capture.frames().map_err(said)?;
            if wanted.count.is_some_and(|count| frames >= count) {
                break;
            }
            fakekernel::sleep(ATTENTION);
        }
        Ok(Taken { packets: capture.finish().map_err(said)?, lost: 0 })
    });
    under_way.store(false, Ordering::SeqCst);
    taken
}

/// What passes on a link of a host. On a thread of that host.
///
/// # Errors
///
/// What is in the way.
pub fn link(
    kernel: &Kernel,
    link: &str,
    wanted: &Capture,
    interrupted: &AtomicBool,
    started: impl FnOnce(),
) -> Result<Taken, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", wanted.file.display());
    let (stream, heard) = listen(kernel, link).map_err(|errno| format!("{link}: {errno}"))?;
    let file = File::create(&wanted.file).map_err(|error| said(&error))?;
    // Whoever looks on sees every packet: nothing is kept back in a buffer.
    let mut writer = ipoib_pcap::writer(file).map_err(|error| said(&io_error(error)))?;
    started();
    let boot = boot_time();
    let mut packets = 0;
    while wanted.count.is_none_or(|count| packets < count) && !interrupted.load(Ordering::Relaxed) {
        let Some((at, packet)) = heard.next(ATTENTION) else { continue };
        let own = stream.details().address;
        let packet = ipoib_pcap::packet(own, &packet, boot + Duration::from_nanos(at.0));
        writer.write_packet(&packet).map_err(|error| said(&io_error(error)))?;
        packets += 1;
    }
    Ok(Taken { packets, lost: heard.lost() })
}

/// A passive stream that is told the addresses of what passes, and what it hears.
fn listen(kernel: &Kernel, link: &str) -> Result<(Stream, Arc<Heard<Received>>), fakekernel::Errno> {
    let stream = Stream::open_passive(kernel, link)?;
    let heard = Arc::new(Heard::new());
    let fed = heard.clone();
    stream.on_receive(move |packet| fed.put(packet));
    stream.bind(0)?;
    stream.set_promiscuous(Promiscuity::Physical, true)?;
    stream.set_promiscuous(Promiscuity::Sap, true)?;
    Ok((stream, heard))
}
