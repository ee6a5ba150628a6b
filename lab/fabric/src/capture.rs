//! Captures that tshark reads: pcap with link type 197 (ERF), each frame behind a 16-byte ERF header of type InfiniBand.
//!
//! Link type 247 would be the natural one; tshark 4.0 does not read it.

use crate::{Nanos, Tap};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

const ERF_LEN: usize = 16;
const ERF_TYPE_INFINIBAND: u8 = 21;
const ERF_VARYING_LENGTH: u8 = 0x04;
const SNAP_LEN: u32 = 65_535;

/// Writes each frame as one packet record, timestamps from the lab's clock.
pub struct ErfPcap<W: Write>(Mutex<State<W>>);

struct State<W: Write> {
    writer: PcapWriter<W>,
    frames: u64,
    failed: Option<String>,
}

impl<W: Write> ErfPcap<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(out: W) -> std::io::Result<Self> {
        let header = PcapHeader {
            snaplen: SNAP_LEN,
            datalink: DataLink::ERF,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..Default::default()
        };
        let writer = PcapWriter::with_header(out, header).map_err(std::io::Error::other)?;
        Ok(ErfPcap(Mutex::new(State { writer, frames: 0, failed: None })))
    }

    /// Frames written so far.
    ///
    /// # Errors
    /// The first write error; frames after it were not written.
    pub fn frames(&self) -> std::io::Result<u64> {
        let state = self.0.lock().unwrap();
        state.failed.as_ref().map_or(Ok(state.frames), |e| Err(std::io::Error::other(e.clone())))
    }

    /// Ends the capture and gives the writer back.
    ///
    /// # Errors
    /// The first write error.
    pub fn finish(self) -> std::io::Result<W> {
        let state = self.0.into_inner().unwrap();
        match state.failed {
            Some(e) => Err(std::io::Error::other(e)),
            None => Ok(state.writer.into_writer()),
        }
    }
}

impl<W: Write + Send> Tap for ErfPcap<W> {
    fn frame(&self, at: Nanos, bytes: &[u8]) {
        let record = erf_record(at, bytes);
        let mut state = self.0.lock().unwrap();
        let packet = PcapPacket::new(Duration::from_nanos(at.0), record.len() as u32, &record);
        match state.writer.write_packet(&packet) {
            Ok(_) => state.frames += 1,
            Err(e) => {
                state.failed.get_or_insert_with(|| e.to_string());
            }
        }
    }
}

/// ERF header (timestamp little-endian 32.32 fixed point, lengths big-endian) and the frame.
fn erf_record(at: Nanos, frame: &[u8]) -> Vec<u8> {
    const NANOS: u64 = 1_000_000_000;
    let (seconds, nanos) = (at.0 / NANOS, at.0 % NANOS);
    let stamp = (seconds << 32) | ((nanos << 32) / NANOS);
    let mut out = Vec::with_capacity(ERF_LEN + frame.len());
    out.extend_from_slice(&stamp.to_le_bytes());
    out.push(ERF_TYPE_INFINIBAND);
    out.push(ERF_VARYING_LENGTH);
    out.extend_from_slice(&((ERF_LEN + frame.len()) as u16).to_be_bytes());
    out.extend_from_slice(&0u16.to_be_bytes());
    out.extend_from_slice(&(frame.len() as u16).to_be_bytes());
    out.extend_from_slice(frame);
    out
}
