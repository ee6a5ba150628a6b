//! `snoop -d LINK -o FILE`: a passive, raw, promiscuous listener, the buffering module under it, and the file (RFC 1761).
//!
//! A packet is what the plugin's uncook leaves of it, the 4-byte IPoIB header and the payload: no link-layer address survives.

use std::sync::Arc;

use fakekernel::{Errno, HostMutex, Kernel, Nanos};

use super::stream::Stream;
use crate::types::Promiscuity;

/// Bytes that `bufmod` collects before it passes them on.
const CHUNK: usize = 65536;
/// How long `bufmod` keeps a chunk that does not fill up.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Each record's header (`struct sb_hdr`).
const HEADER: usize = 24;
/// Records start at multiples of this, within a chunk.
const ALIGNMENT: usize = 8;
/// DLPI type of the medium.
const DL_IB: u32 = 0x1a;
/// A reader takes a record of second 0 for garbage: the wall clock of boot, seconds since 1970.
const BOOT_TIME: u64 = 1_199_145_600;

/// A capture under way; it ends when dropped.
#[derive(Debug)]
pub struct Snoop {
    /// Open for as long as the capture runs.
    stream: Stream,
    file: Arc<HostMutex<File>>,
}

#[derive(Debug)]
struct File {
    bytes: Vec<u8>,
    snap: usize,
    /// Of the chunk being filled: bytes so far, and when its first record came.
    used: usize,
    begun: Nanos,
}

impl Snoop {
    /// Listens on a link, keeping at most `snap` bytes of each packet. User or kernel context; so is dropping it.
    ///
    /// # Errors
    ///
    /// ENOENT for a link that is not there; what the driver refused with.
    pub fn start(kernel: &Kernel, link: &str, snap: usize) -> Result<Self, Errno> {
        let stream = Stream::open_passive(kernel, link)?;
        stream.set_raw()?;
        let file = Arc::new(HostMutex::new(File::new(snap)));
        let fed = file.clone();
        stream.on_receive(move |packet| fed.lock().add(&packet.payload, fakekernel::now()));
        stream.bind(0)?;
        stream.set_promiscuous(Promiscuity::Physical, true)?;
        stream.set_promiscuous(Promiscuity::Sap, true)?;
        Ok(Self { stream, file })
    }

    /// Name of the link listened on.
    pub fn link(&self) -> String {
        self.stream.link()
    }

    /// The file as it is now.
    pub fn file(&self) -> Vec<u8> {
        self.file.lock().bytes.clone()
    }
}

impl File {
    fn new(snap: usize) -> Self {
        let mut bytes = b"snoop\0\0\0".to_vec();
        bytes.extend(2u32.to_be_bytes());
        Self { bytes, snap, used: 0, begun: Nanos(0) }
    }

    fn put(&mut self, number: usize) {
        self.bytes.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
    }

    fn add(&mut self, packet: &[u8], now: Nanos) {
        const EMPTY: usize = 12;
        if self.bytes.len() == EMPTY {
            // The medium is written with the first packet.
            self.bytes.extend(DL_IB.to_be_bytes());
        }
        let kept = &packet[..packet.len().min(self.snap)];
        let padding = self.place(HEADER + kept.len(), now);
        self.put(packet.len());
        self.put(kept.len());
        self.put(HEADER + kept.len() + padding);
        self.put(0);
        self.put((BOOT_TIME + now.0 / 1_000_000_000) as usize);
        self.put((now.0 % 1_000_000_000 / 1000) as usize);
        self.bytes.extend(kept);
        self.bytes.extend(std::iter::repeat_n(0, padding));
    }

    /// Puts a record of that size into the chunk, or into a new one where there is no room; the bytes behind it. A record that leaves
    /// no room for the smallest one ends its chunk and has none.
    fn place(&mut self, size: usize, now: Nanos) -> usize {
        if self.used + size > CHUNK || now.since(self.begun) >= PATIENCE {
            self.used = 0;
        }
        if self.used == 0 {
            self.begun = now;
        }
        let padding = size.next_multiple_of(ALIGNMENT) - size;
        let left = CHUNK.saturating_sub(self.used + size);
        if left < padding + HEADER + ALIGNMENT {
            self.used = 0;
            return 0;
        }
        self.used += size + padding;
        padding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padding_of(records: &[(usize, Nanos)]) -> Vec<usize> {
        let mut file = File::new(65535);
        records.iter().map(|(size, now)| file.place(*size, *now)).collect()
    }

    #[test]
    fn records_are_padded_until_the_chunk_has_no_room_for_another() {
        let records = vec![(125, Nanos(0)); 513];
        let padding = padding_of(&records);
        assert!(padding[..511].iter().all(|p| *p == 3));
        assert_eq!(padding[511..], [0, 3], "the 512th ends its chunk");
    }

    #[test]
    fn record_whose_successor_does_not_fit_is_padded() {
        assert_eq!(padding_of(&[(60_001, Nanos(0)), (6_001, Nanos(0)), (60_001, Nanos(0))]), [7, 7, 7]);
    }

    #[test]
    fn chunk_that_does_not_fill_up_is_passed_on_after_a_second() {
        let late = Nanos::from_secs(2);
        assert_eq!(padding_of(&[(65_400, Nanos(0)), (125, Nanos(0)), (125, late)]), [0, 0, 3]);
        assert_eq!(padding_of(&[(60_001, Nanos(0)), (5_501, Nanos(0))]), [7, 0]);
        assert_eq!(padding_of(&[(60_001, Nanos(0)), (5_501, late)]), [7, 3]);
    }
}
