//! How a packet lies in memory when a driver gets it.

use fakekernel::cx;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use crate::message::{Message, Messages};

/// Bytes of a page.
const PAGE: usize = 4096;
/// What applications write at a time: the blocks that TCP makes large sends of.
const WRITES: [usize; 8] = [1448, 4096, 5000, 8192, 10_000, 16_384, 32_768, 65_536];

/// A packet's payload in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes at its start that lie in a block of their own: IP's header and TCP's.
    pub headers: usize,
    /// Bytes of each block behind them but the last; at least one.
    pub block: usize,
    /// Where in a page of 4096 bytes each of these begins.
    pub offset: usize,
}

impl Layout {
    /// A large send as TCP makes it: the headers, then what an application wrote, each write in a block of its own behind the room that
    /// was left for headers. The seed decides how much it wrote at a time, and how much room that is.
    pub(crate) fn of_large_send(payload: &[u8]) -> Self {
        let machine = cx().kernel().machine().clone();
        let mut rng = machine.rng();
        let block = WRITES.choose(&mut *rng).copied().unwrap_or(PAGE);
        Self { headers: tcp_headers(payload), block, offset: rng.random_range(0..PAGE) }
    }
}

/// Bytes of IPv4's and TCP's headers; all of what has none.
fn tcp_headers(payload: &[u8]) -> usize {
    let ip = payload.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let tcp = payload.get(ip + 12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    payload.len().min(ip + tcp)
}

impl Messages<'_> {
    /// A message with this payload, laid out so; `None` without memory.
    pub(crate) fn laid_out(&self, payload: &[u8], layout: Layout) -> Option<Message> {
        let (headers, data) = payload.split_at(layout.headers.min(payload.len()));
        let message = Message::new(self.genunix.message(self.cx, 0, headers))?;
        for part in data.chunks(layout.block.max(1)) {
            let block = self.genunix.message_at(self.cx, layout.offset, part);
            let Some(block) = Message::new(block) else {
                self.free(message);
                return None;
            };
            self.genunix.linkb(self.cx, message.raw(), block.raw());
        }
        Some(message)
    }
}
