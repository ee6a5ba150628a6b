//! The capture file (RFC 1761) with the medium of IP over InfiniBand, 26.

use std::io::Write;
use std::time::Duration;

use crate::session::Failure;
use crate::system::{Frame, System};

const MAGIC: &[u8; 8] = b"snoop\0\0\0";
const VERSION: u32 = 2;
const DL_IB: u32 = 26;
/// Bytes in front of each frame.
pub(super) const HEADER: usize = 24;
/// Bytes in front of the first record.
const FILE_HEADER: usize = 16;
/// Records begin at multiples of this.
const ALIGNMENT: usize = 4;

/// A file that is being written.
pub(super) struct Writer {
    path: String,
    to: Box<dyn Write>,
}

impl Writer {
    pub(super) fn create(system: &dyn System, path: &str) -> Result<Self, Failure> {
        let to = system.create_file(path).map_err(|why| super::die(&why.0))?;
        let mut writer = Self { path: path.to_owned(), to };
        let header = [&MAGIC[..], &VERSION.to_be_bytes(), &DL_IB.to_be_bytes()].concat();
        writer.write(&header)?;
        Ok(writer)
    }

    pub(super) fn put(&mut self, frame: &Frame) -> Result<(), Failure> {
        let padding = frame.bytes.len().next_multiple_of(ALIGNMENT) - frame.bytes.len();
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let words = [
            number(frame.size),
            number(frame.bytes.len()),
            number(HEADER + frame.bytes.len() + padding),
            frame.drops,
            u32::try_from(frame.time.as_secs()).unwrap_or(u32::MAX),
            frame.time.subsec_micros(),
        ];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        record.extend(&frame.bytes);
        record.resize(record.len() + padding, 0);
        self.write(&record)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|error| super::die(&format!("{}: {error}", self.path)))
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.to.flush().map_err(|error| super::die(&format!("{}: {error}", self.path)))
    }
}

/// The frames of a file. A record that is cut short ends it.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Frame>, String> {
    let word = |at: usize| {
        let four: Option<[u8; 4]> = bytes.get(at..at + 4)?.try_into().ok();
        four.map(u32::from_be_bytes)
    };
    if !bytes.starts_with(MAGIC) {
        return Err("not a snoop file".into());
    }
    match (word(8), word(12)) {
        (Some(VERSION), Some(DL_IB)) => {}
        (Some(VERSION), Some(medium)) => {
            return Err(format!("MAC type {medium} is not that of IP over InfiniBand"));
        }
        _ => return Err("not a snoop file of version 2".into()),
    }
    let (mut frames, mut at) = (Vec::new(), FILE_HEADER);
    while let (Some(size), Some(kept), Some(record), Some(drops), Some(seconds), Some(micros)) =
        (word(at), word(at + 4), word(at + 8), word(at + 12), word(at + 16), word(at + 20))
    {
        let (kept, record) = (kept as usize, record as usize);
        if record < HEADER + kept || record > bytes.len() - at {
            return Err(format!("record {} is damaged", frames.len() + 1));
        }
        let start = at + HEADER;
        let time = Duration::from_secs(seconds.into()) + Duration::from_micros(micros.into());
        frames.push(Frame { time, size: size as usize, drops, bytes: bytes[start..start + kept].to_vec() });
        at += record;
    }
    Ok(frames)
}
