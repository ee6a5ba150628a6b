//! What somebody who wants a connection says of himself (a REQ), and whether he is one who may have one: anybody on the subnet can ask.

use super::{PrivateData, PrivateDataError};
use crate::addr::{Gid, LinkAddr};
use crate::numbers::PKey;

/// Of a REQ, what matters to a link.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// A reliable connection is wanted.
    pub reliable: bool,
    /// P_Key, membership included, as it came.
    pub pkey: u16,
    /// The GID of who asks.
    pub from: Gid,
    /// The GID that is asked.
    pub to: Gid,
    /// The private data.
    pub private: &'a [u8],
}

/// Why somebody gets no connection, whatever room there is (REJ 28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An unreliable connection is wanted, or something else.
    Transport,
    /// Another partition, or a limited member asks a limited one.
    Partition,
    /// Another GID of the port is asked than the one in the link's address.
    Port,
    /// What came along says nothing that a link says.
    PrivateData(PrivateDataError),
    /// Who asks has no link address that a port can have.
    Sender,
}

impl ConnectRequest<'_> {
    /// The neighbour that asks a link of this partition with this GID in its address.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn check(&self, partition: PKey, own: Gid) -> Result<LinkAddr, Wrong> {
        if !self.reliable {
            return Err(Wrong::Transport);
        }
        let meets = |pkey: PKey| {
            pkey.same_partition(partition) && (pkey.is_full_member() || partition.is_full_member())
        };
        if !PKey::new(self.pkey).is_some_and(meets) {
            return Err(Wrong::Partition);
        }
        if self.to != own {
            return Err(Wrong::Port);
        }
        let private = PrivateData::from_bytes(self.private).map_err(Wrong::PrivateData)?;
        Some(LinkAddr::unicast(private.qpn, self.from)).filter(LinkAddr::is_port).ok_or(Wrong::Sender)
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectRequest, Wrong};
    use crate::addr::{Gid, LinkAddr, Qpn};
    use crate::connections::{LONGEST_MESSAGE, PrivateData, PrivateDataError};
    use crate::numbers::PKey;

    const FULL: PKey = PKey::new(0x8001).unwrap();
    const OWN: Gid = Gid { prefix: 0xfe80 << 48, guid: 0xa };
    const PEER: Gid = Gid { prefix: 0xfe80 << 48, guid: 0xb };
    const QPN: Qpn = Qpn::from_low_bits(0x48);
    const HELLO: [u8; 8] = PrivateData { qpn: QPN, longest: LONGEST_MESSAGE }.to_bytes();

    fn asked() -> ConnectRequest<'static> {
        ConnectRequest { reliable: true, pkey: 0x8001, from: PEER, to: OWN, private: &HELLO }
    }

    #[test]
    fn a_neighbour_is_known_by_its_gid_and_the_queue_pair_it_names() {
        assert_eq!(asked().check(FULL, OWN), Ok(LinkAddr::unicast(QPN, PEER)));
        assert_eq!(ConnectRequest { pkey: 1, ..asked() }.check(FULL, OWN), Ok(LinkAddr::unicast(QPN, PEER)));
    }

    #[test]
    fn another_transport_partition_port_or_sender_is_refused() {
        let why = |asked: ConnectRequest<'_>| asked.check(FULL, OWN).unwrap_err();
        assert_eq!(why(ConnectRequest { reliable: false, ..asked() }), Wrong::Transport);
        for pkey in [0, 0x8000, 0x8002, 0xffff] {
            assert_eq!(why(ConnectRequest { pkey, ..asked() }), Wrong::Partition);
        }
        assert_eq!(why(ConnectRequest { to: Gid { prefix: 1, ..OWN }, ..asked() }), Wrong::Port);
        assert_eq!(
            why(ConnectRequest { private: &[0; 92], ..asked() }),
            Wrong::PrivateData(PrivateDataError::QueuePair)
        );
        for from in [Gid { prefix: 0xff12 << 48, guid: 1 }, Gid { prefix: 0xfe80 << 48, guid: 0 }] {
            assert_eq!(why(ConnectRequest { from, ..asked() }), Wrong::Sender);
        }
    }

    #[test]
    fn a_limited_member_asks_no_other_limited_member() {
        let limited = PKey::new(1).unwrap();
        assert_eq!(ConnectRequest { pkey: 1, ..asked() }.check(limited, OWN), Err(Wrong::Partition));
    }
}
