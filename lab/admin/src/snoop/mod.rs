//! `snoop(8)`: listens on a link, raw and passive, or reads a file; shows packets or keeps them in a file.
//!
//! What is seen is the 4-byte IPoIB header and the payload. No link address survives, so whoever speaks to whom comes from the
//! network layer.

mod decode;
mod file;
mod filter;
mod icmp;
mod network;
mod show;

use std::time::Duration;

use fakekernel::Errno;

use crate::getopt::Options;
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::Frame;
use file::Writer;
use filter::Filter;
use show::{Clock, Show, Style};

const OPTIONS: Options = Options { short: "d:o:i:c:s:t:x:rvVqPDSn", long: &[], operands_end: true };

const USAGE: &str = "Usage:  snoop
\t[ -d device ]          # Listen on specified interface
\t[ -s snaplen ]         # Truncate packets
\t[ -c count ]           # Quit after count packets
\t[ -P ]                 # Turn OFF promiscuous mode
\t[ -D ]                 # Report dropped packets
\t[ -S ]                 # Report packet size
\t[ -i file ]            # Read previously captured packets
\t[ -o file ]            # Capture packets in file
\t[ -r ]                 # Do not resolve address to name
\t[ -t r|a|d ]           # Time: Relative, Absolute or Delta
\t[ -v ]                 # Verbose packet display
\t[ -V ]                 # Show all summary lines
\t[ -x offset ]          # Hex dump
\t[ -q ]                 # Suppress printing packet count
\t[ filter expression ]
";

/// How often somebody looks whether the command was interrupted.
const ATTENTION: Duration = Duration::from_millis(50);
/// Bytes of a frame that are kept if nobody says fewer: the capture chunk, less a record's header.
const LARGEST: usize = 65536 - file::HEADER;

#[derive(Default)]
struct Wanted {
    device: Option<String>,
    input: Option<String>,
    output: Option<String>,
    count: Option<u64>,
    snap: Option<usize>,
    quiet: bool,
    calm: bool,
    style: Style,
}

/// The frames of a capture file.
///
/// # Errors
///
/// Why it is none.
pub fn read(bytes: &[u8]) -> Result<Vec<Frame>, String> {
    file::read(bytes)
}

/// Everything that is shown of a frame: each layer's line and page.
pub fn describe(frame: &[u8]) -> Vec<String> {
    let decoded = decode::decode(frame, frame.len(), String::new(), &|ip| ip.to_string());
    decoded.layers.into_iter().flat_map(|layer| layer.summary.into_iter().chain(layer.page)).collect()
}

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let (parsed, operands) = OPTIONS.parse(arguments);
    let mut wanted = Wanted::default();
    for option in parsed {
        let (letter, value) = option.map_err(|_| usage())?;
        take(&mut wanted, letter, value)?;
    }
    let filter = Filter::parse(&operands, &|name| session.system.resolve(name)).map_err(|why| die(&why))?;
    if let Some(path) = &wanted.input {
        let bytes = session.system.open_file(path).map_err(|why| die(&why.0))?;
        let frames = file::read(&bytes).map_err(|why| die(&format!("{path}: {why}")))?;
        wanted.style.clock.get_or_insert(Clock::Delta);
        wanted.style.numbered = true;
        return from_file(session, &wanted, &filter, frames);
    }
    listen(session, &wanted, &filter)
}

fn usage() -> Failure {
    Failure { text: USAGE.to_owned(), exit: Exit::FAILURE }
}

fn die(why: &str) -> Failure {
    Failure::line(format!("snoop: {why}"))
}

fn take(wanted: &mut Wanted, letter: char, value: String) -> Outcome {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    match letter {
        'd' => wanted.device = Some(value),
        'i' => wanted.input = Some(value),
        'o' => wanted.output = Some(value),
        'c' => wanted.count = Some(number(&value).ok_or_else(usage)?),
        's' => {
            let snap = number(&value).and_then(|snap| usize::try_from(snap).ok());
            wanted.snap = Some(snap.ok_or_else(usage)?);
        }
        't' => {
            wanted.style.clock = Some(match value.as_str() {
                "r" => Clock::Relative,
                "a" => Clock::Absolute,
                "d" => Clock::Delta,
                _ => return Err(usage()),
            });
        }
        'x' => wanted.style.dump_from = Some(value.parse().map_err(|_| usage())?),
        'r' => wanted.style.numeric = true,
        'v' => wanted.style.verbose = true,
        'V' => wanted.style.layers = true,
        'q' => wanted.quiet = true,
        'P' => wanted.calm = true,
        'D' => wanted.style.drops = true,
        'S' => wanted.style.sizes = true,
        _ => return Err(usage()),
    }
    Ok(())
}

fn from_file(session: &mut Session<'_>, wanted: &Wanted, filter: &Filter, frames: Vec<Frame>) -> Outcome {
    let mut show = Show::new(wanted.style);
    let mut writer = wanted.output.as_ref().map(|path| Writer::create(session.system, path)).transpose()?;
    let mut shown = 0;
    for (number, frame) in (1..).zip(frames) {
        if wanted.count.is_some_and(|count| shown == count) || session.terminal.interrupted() {
            break;
        }
        if filter.takes(&frame.bytes) {
            shown += 1;
            match &mut writer {
                Some(writer) => writer.put(&frame)?,
                None => show.packet(session, number, &frame),
            }
        }
    }
    writer.map_or(Ok(()), Writer::finish)
}

fn listen(session: &mut Session<'_>, wanted: &Wanted, filter: &Filter) -> Outcome {
    let device = match &wanted.device {
        Some(device) => device.clone(),
        // The first link that can be listened on.
        None => {
            let interfaces = session.system.interfaces();
            let first = interfaces.iter().find(|interface| !interface.is_loopback());
            first
                .map(|interface| interface.name.clone())
                .ok_or_else(|| die("No network interface devices found"))?
        }
    };
    let refused = |errno: Errno| {
        let why = match errno {
            Errno::ENOENT => "DLPI link does not exist",
            Errno::EPERM => "Permission denied",
            Errno::EINVAL => "Invalid argument",
            Errno::EBUSY => "Device busy",
            _ => "system error",
        };
        die(&format!("cannot open \"{device}\": {why}"))
    };
    let mut capture = session.system.listen(&device, !wanted.calm).map_err(refused)?;
    let mode = if wanted.calm { "non promiscuous" } else { "promiscuous mode" };
    session.err(format!("Using device {device} ({mode})\n"));
    let mut writer = wanted.output.as_ref().map(|path| Writer::create(session.system, path)).transpose()?;
    let mut show = Show::new(wanted.style);
    let snap = wanted.snap.unwrap_or(LARGEST).min(LARGEST);
    let mut taken = 0;
    while wanted.count.is_none_or(|count| taken < count) && !session.terminal.interrupted() {
        let Some(mut frame) = capture.next(ATTENTION) else { continue };
        if !filter.takes(&frame.bytes) {
            continue;
        }
        taken += 1;
        frame.bytes.truncate(snap);
        match &mut writer {
            Some(writer) => {
                writer.put(&frame)?;
                if !wanted.quiet {
                    session.err(format!("\r{taken} "));
                }
            }
            None => show.packet(session, taken, &frame),
        }
    }
    if writer.is_some() && !wanted.quiet && taken > 0 {
        session.err("\n");
    }
    writer.map_or(Ok(()), Writer::finish)
}
