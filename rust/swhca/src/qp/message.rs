//! Messages of a connection, and how many of them go at once.

/// A message on its way.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    pub(crate) source_lid: u16,
    pub(crate) source_qpn: u32,
    pub(crate) pkey: u16,
    pub(crate) sl: u8,
    pub(crate) immediate: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) len: u32,
    /// Of its first packet.
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    /// That have come.
    pub(crate) come: u32,
    /// Octets of a packet beside its payload.
    pub(crate) head: u32,
}

impl Message {
    /// Octets of all its packets.
    pub(crate) fn octets(&self) -> u64 {
        let immediate = if self.immediate.is_some() { 4 } else { 0 };
        u64::from(self.len) + u64::from(self.packets) * u64::from(self.head) + immediate
    }

    /// Octets of its acknowledgement.
    pub(crate) fn octets_back(&self) -> u64 {
        u64::from(self.head) + 4
    }
}

/// What a connection may send at once of what has waited, before others have their turn: messages, and bytes.
const TURN: (u32, u64) = (64, 1 << 20);

/// How much of its turn is left.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    messages: u32,
    bytes: u64,
}

impl Turn {
    pub(super) const WHOLE: Self = Self { messages: TURN.0, bytes: TURN.1 };

    /// After a message of so many bytes; the first one may be as long as it likes.
    pub(super) fn after(self, bytes: u32) -> Self {
        Self { messages: self.messages.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes.into()) }
    }

    pub(super) fn is_over(self) -> bool {
        self.messages == 0 || self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn turn_is_over_after_many_messages_or_many_bytes_and_each_has_one_message() {
        let turns = |bytes: u32| {
            (1..).scan(Turn::WHOLE, move |turn, count| {
                *turn = turn.after(bytes);
                Some((count, turn.is_over()))
            })
        };
        for (bytes, expected) in [(0, 64), (100, 64), (65_536, 16), (1 << 20, 1), (u32::MAX, 1)] {
            let count = turns(bytes).find(|(_, over)| *over).map(|(count, _)| count);
            assert_eq!(count, Some(expected), "{bytes} bytes");
        }
    }
}
