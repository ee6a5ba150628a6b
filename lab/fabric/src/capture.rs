//! Captures that tshark reads: pcapng with one interface per port and link type 197 (ERF), each frame behind a 16-byte ERF
//! header of type InfiniBand.
//!
//! Link type 247 would be the natural one; tshark 4.0 does not read it. A packet between two hosts is in the file twice,
//! outbound at one port and inbound at the other, as two captures on the hosts would have it; between the two lie the
//! fabric and its faults. An inbound frame that no queue pair took has the reason as its comment.

use crate::subnet::PortView;
use crate::{Direction, Guid, Nanos, Reason, Tap};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::collections::BTreeMap;
use std::io::Write;

use std::time::Duration;

use lab_lock::Mutex;
const ERF_LEN: usize = 16;
const ERF_TYPE_INFINIBAND: u8 = 21;
const ERF_VARYING_LENGTH: u8 = 0x04;
const SNAP_LEN: u32 = 65_535;
/// `if_tsresol`: timestamps count in powers of ten of a second.
const NANOSECONDS: u8 = 9;
/// `epb_flags`.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes each frame as one packet block, timestamps from the lab's clock.
pub struct ErfPcapng<W: Write> {
    interfaces: BTreeMap<Guid, u32>,
    /// Frames to write; those behind them are left out.
    most: u64,
    state: Mutex<State<W>>,
}

struct State<W: Write> {
    /// Gone when the capture has ended.
    writer: Option<PcapNgWriter<W>>,
    frames: u64,
    failed: Option<String>,
}

impl<W: Write> ErfPcapng<W> {
    /// Writes the file header and an interface for each of `ports`, named `HCA/PORT` by the HCA's description. Frames of
    /// other ports are not captured.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(out: W, ports: &[PortView]) -> std::io::Result<Self> {
        let mut writer = PcapNgWriter::new(out).map_err(io_error)?;
        let mut interfaces = BTreeMap::new();
        for port in ports {
            writer.write_pcapng_block(interface(port)).map_err(io_error)?;
            interfaces.insert(port.attr.guid, interfaces.len() as u32);
        }
        Ok(ErfPcapng {
            interfaces,
            most: u64::MAX,
            state: Mutex::new(State { writer: Some(writer), frames: 0, failed: None }),
        })
    }

    /// The same, that writes so many frames and no more.
    #[must_use]
    pub fn at_most(self, frames: u64) -> Self {
        Self { most: frames, ..self }
    }

    /// Frames written so far.
    ///
    /// # Errors
    /// The first write error; frames after it were not written.
    pub fn frames(&self) -> std::io::Result<u64> {
        let state = self.state.lock();
        state.failed.as_ref().map_or(Ok(state.frames), |e| Err(std::io::Error::other(e.clone())))
    }

    /// Hands buffered blocks to the operating system.
    ///
    /// # Errors
    /// The first write error.
    pub fn flush(&self) -> std::io::Result<()> {
        let mut state = self.state.lock();
        match &state.failed {
            Some(e) => Err(std::io::Error::other(e.clone())),
            None => state.writer.as_mut().map_or(Ok(()), |writer| writer.get_mut().flush()),
        }
    }

    /// Ends the capture and gives the writer back; frames that come now are not captured.
    ///
    /// # Errors
    /// The first write error, or that it has ended before.
    pub fn finish(&self) -> std::io::Result<W> {
        let mut state = self.state.lock();
        let writer = state.writer.take();
        match &state.failed {
            Some(e) => Err(std::io::Error::other(e.clone())),
            None => writer.map(PcapNgWriter::into_inner).ok_or_else(|| std::io::Error::other("it has ended")),
        }
    }
}

impl<W: Write + Send> Tap for ErfPcapng<W> {
    fn frame(&self, at: Nanos, port: Guid, direction: Direction, refused: Option<Reason>, bytes: &[u8]) {
        let Some(&interface_id) = self.interfaces.get(&port) else { return };
        let record = erf_record(at, bytes);
        let flags = if direction == Direction::ToSwitch { OUTBOUND } else { INBOUND };
        let mut options = vec![EnhancedPacketOption::Flags(flags)];
        options.extend(
            refused.map(|reason| EnhancedPacketOption::Comment(format!("refused: {}", reason.name()).into())),
        );
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(at.0),
            original_len: record.len() as u32,
            data: record.into(),
            options,
        };
        let mut state = self.state.lock();
        if state.frames >= self.most {
            return;
        }
        let Some(writer) = &mut state.writer else { return };
        match writer.write_pcapng_block(block) {
            Ok(_) => state.frames += 1,
            Err(e) => {
                state.failed.get_or_insert_with(|| io_error(e).to_string());
            }
        }
    }
}

/// The error of the writer below, of which the format's own says nothing.
pub fn io_error(error: PcapError) -> std::io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other),
    }
}

fn interface(port: &PortView) -> InterfaceDescriptionBlock<'static> {
    let mut block = InterfaceDescriptionBlock::new(DataLink::ERF, SNAP_LEN);
    block.options = vec![
        InterfaceDescriptionOption::IfName(format!("{}/{}", port.description, port.num.0).into()),
        InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
    ];
    block
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
