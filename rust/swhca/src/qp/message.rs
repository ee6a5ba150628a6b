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
    /// Bytes of payload of each packet but the last one.
    pub(crate) mtu: u32,
    /// Packets that have come.
    pub(crate) come: u32,
    /// Octets of a packet beside its payload.
    pub(crate) head: u32,
}

impl Message {
    /// Octets of its packets from one on up to another one: each with its headers, the last one of all filled up to whole words.
    pub(crate) fn octets(&self, from: u32, to: u32) -> u64 {
        let payload = |packets: u32| {
            let whole = u64::from(packets) * u64::from(self.mtu);
            let end = if self.immediate.is_some() { 4 } else { 0 };
            if packets < self.packets { whole } else { u64::from(self.len).next_multiple_of(4) + end }
        };
        let packets = u64::from(to.saturating_sub(from));
        payload(to).saturating_sub(payload(from)) + packets * u64::from(self.head)
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
    use super::{Message, Turn};

    #[test]
    fn octets_of_packets_add_up_and_the_last_one_has_padding_and_immediate_data() {
        let message = Message {
            source_lid: 1,
            source_qpn: 2,
            pkey: 0xffff,
            sl: 0,
            immediate: Some(7),
            solicited: false,
            len: 5_001,
            psn: 0,
            packets: 3,
            mtu: 2_048,
            come: 0,
            head: 24,
        };
        assert_eq!(message.octets(0, 2), 2 * (2_048 + 24));
        assert_eq!(message.octets(2, 3), 908 + 4 + 24);
        assert_eq!(message.octets(0, 3), message.octets(0, 2) + message.octets(2, 3));
        assert_eq!(message.octets(3, 3), 0);
        let empty = Message { len: 0, packets: 1, immediate: None, ..message };
        assert_eq!(empty.octets(0, 1), 24);
    }

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
