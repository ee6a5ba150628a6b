//! Packets for people: a line each, a line for each layer, or pages.

use std::net::IpAddr;
use std::time::Duration;

use super::decode::{Decoded, decode};
use crate::session::Session;
use crate::system::Frame;

/// Which time stands in front of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Since the first packet.
    Relative,
    /// Of day.
    Absolute,
    /// Since the packet before.
    Delta,
}

/// How packets are shown.
#[derive(Clone, Copy, Default)]
pub(super) struct Style {
    pub(super) numbered: bool,
    pub(super) clock: Option<Clock>,
    pub(super) numeric: bool,
    pub(super) verbose: bool,
    pub(super) layers: bool,
    pub(super) drops: bool,
    pub(super) sizes: bool,
    pub(super) dump_from: Option<usize>,
}

/// What is remembered from packet to packet.
pub(super) struct Show {
    style: Style,
    first: Option<Duration>,
    before: Option<Duration>,
}

const RULE: &str = "________________________________\n";
/// Octets in a line of a hex dump.
const DUMPED: usize = 16;

impl Show {
    pub(super) const fn new(style: Style) -> Self {
        Self { style, first: None, before: None }
    }

    pub(super) fn packet(&mut self, session: &mut Session<'_>, number: u64, frame: &Frame) {
        let system = session.system;
        let named = |ip: IpAddr| {
            let name = if self.style.numeric { None } else { system.name_of(ip) };
            name.unwrap_or_else(|| ip.to_string())
        };
        let arrival = format!("Packet {number} arrived at {}", hundredths(frame.time));
        let decoded = decode(&frame.bytes, frame.size, arrival, &named);
        let mut text = String::new();
        if self.style.verbose {
            for layer in &decoded.layers {
                layer.page.iter().for_each(|line| text += &format!("{}{line}\n", layer.prefix));
            }
            text.push('\n');
        } else {
            let prefix = self.prefix(number, frame, &decoded);
            let lines: Vec<&String> =
                decoded.layers.iter().filter_map(|layer| layer.summary.as_ref()).collect();
            let shown = if self.style.layers { &lines[..] } else { &lines[lines.len().saturating_sub(1)..] };
            if self.style.layers {
                text += RULE;
            }
            shown.iter().for_each(|line| text += &format!("{prefix}{line}\n"));
        }
        if let Some(from) = self.style.dump_from {
            text += &dump(frame.bytes.get(from..).unwrap_or_default());
        }
        self.first.get_or_insert(frame.time);
        self.before = Some(frame.time);
        session.out(text);
    }

    fn prefix(&self, number: u64, frame: &Frame, decoded: &Decoded) -> String {
        let mut prefix = String::new();
        if self.style.numbered {
            prefix += &format!("{number:>3} ");
        }
        let since = |mark: Option<Duration>| frame.time.saturating_sub(mark.unwrap_or(frame.time));
        let span = |span: Duration| format!("{:>3}.{:05} ", span.as_secs(), span.subsec_micros() / 10);
        prefix += &match self.style.clock {
            None => String::new(),
            Some(Clock::Relative) => span(since(self.first)),
            Some(Clock::Delta) => span(since(self.before)),
            Some(Clock::Absolute) => {
                let (hour, minute, second) = of_day(frame.time);
                format!("{hour}:{minute:02}:{second:02}.{:05} ", frame.time.subsec_micros() / 10)
            }
        };
        if self.style.drops {
            prefix += &format!("drops: {} ", frame.drops);
        }
        if self.style.sizes {
            prefix += &format!("length: {:>4}  ", frame.size);
        }
        prefix + &format!("{:>12} -> {:<12} ", decoded.from, decoded.to)
    }
}

/// Hour, minute, second. A host of the lab lives in UTC.
fn of_day(time: Duration) -> (u64, u64, u64) {
    let seconds = time.as_secs();
    (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

fn hundredths(time: Duration) -> String {
    let (hour, minute, second) = of_day(time);
    format!("{hour}:{minute:02}:{second}.{:02}", time.subsec_millis() / 10)
}

fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, octets) in bytes.chunks(DUMPED).enumerate() {
        let groups: Vec<String> =
            octets.chunks(2).map(|pair| pair.iter().map(|octet| format!("{octet:02x}")).collect()).collect();
        let shown: String = octets
            .iter()
            .map(|octet| if octet.is_ascii_graphic() || *octet == b' ' { char::from(*octet) } else { '.' })
            .collect();
        text += &format!("\t{:>4}: {:<39}    {shown}\n", line * DUMPED, groups.join(" "));
    }
    text + "\n"
}
