//! Messages as a client on InfiniBand writes and reads them.

use std::net::Ipv4Addr;
use std::time::Duration;

use smoltcp::wire::{
    ArpHardware, DhcpFlags, DhcpMessageType as Kind, DhcpOpCode, DhcpOption, DhcpPacket, Ipv4Cidr,
};

use crate::link_addr::LinkAddr;

/// Hardware type of IP over InfiniBand (RFC 4390 section 2.1).
const HTYPE_INFINIBAND: u16 = 32;
/// RFC 2131's magic cookie.
const COOKIE: u32 = 0x6382_5363;
/// A message is padded to this, because relays of BOOTP's time drop shorter ones (RFC 1542 section 2.1).
const LEAST: usize = 300;
const FIXED: usize = 240;
/// The largest message we take: a UDP datagram that every IPv4 host takes on a link with an MTU of 2044.
const MOST: u16 = 1472;
/// A lease without an end.
const FOREVER: u32 = u32::MAX;

// RFC 2132.
const SUBNET_MASK: u8 = 1;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const MESSAGE_TYPE: u8 = 53;
const SERVER: u8 = 54;
const WANTED: u8 = 55;
const MAX_SIZE: u8 = 57;
const RENEWAL_TIME: u8 = 58;
const REBINDING_TIME: u8 = 59;
const CLIENT: u8 = 61;

/// What illumos's agent wants to know: mask, router, name servers, host name, domain, broadcast address, vendor's.
const PARAMETERS: [u8; 7] = [1, 3, 6, 12, 15, 28, 43];

/// Option 61 as illumos makes it of a link address: type 0, four octets of zero, and the GID. It depends neither on the queue
/// pair nor on the connected-mode bit, so a lease outlives both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(pub [u8; 21]);

impl ClientId {
    /// That of the interface with this link address.
    pub fn of(own: &LinkAddr) -> Self {
        let mut id = [0; 21];
        id[5..].copy_from_slice(&own.0[4..]);
        Self(id)
    }
}

/// What a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub kind: Kind,
    pub transaction: u32,
    /// Since the client began, seconds.
    pub seconds: u16,
    /// The answer is to be broadcast: the client has no address that it could be sent to.
    pub broadcast: bool,
    /// The address the client has.
    pub own: Ipv4Addr,
    pub client: ClientId,
    pub requested: Option<Ipv4Addr>,
    pub server: Option<Ipv4Addr>,
}

impl Question {
    /// UDP payload.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED];
        let mut packet = DhcpPacket::new_unchecked(&mut bytes[..]);
        packet.set_opcode(DhcpOpCode::Request);
        packet.set_hardware_type(ArpHardware::from(HTYPE_INFINIBAND));
        packet.set_hardware_len(0);
        packet.set_transaction_id(self.transaction);
        packet.set_secs(self.seconds);
        packet.set_flags(if self.broadcast { DhcpFlags::BROADCAST } else { DhcpFlags::empty() });
        packet.set_client_ip(self.own);
        packet.set_magic_number(COOKIE);
        let mut option = |kind: u8, data: &[u8]| {
            let Ok(length) = u8::try_from(data.len()) else { return };
            bytes.extend([kind, length]);
            bytes.extend(data);
        };
        option(MESSAGE_TYPE, &[self.kind.into()]);
        option(CLIENT, &self.client.0);
        if let Some(address) = self.requested {
            option(REQUESTED_ADDRESS, &address.octets());
        }
        if let Some(server) = self.server {
            option(SERVER, &server.octets());
        }
        if matches!(self.kind, Kind::Discover | Kind::Request) {
            option(MAX_SIZE, &MOST.to_be_bytes());
            option(WANTED, &PARAMETERS);
        }
        bytes.push(255);
        bytes.resize(bytes.len().max(LEAST), 0);
        bytes
    }
}

/// What a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An address that can be had.
    Offer {
        /// Of the question that it answers (xid).
        transaction: u32,
        /// The address.
        address: Ipv4Addr,
        /// Who offers it.
        server: Ipv4Addr,
    },
    /// It is the client's.
    Ack {
        /// Of the question that it answers (xid).
        transaction: u32,
        /// What was given.
        grant: Grant,
    },
    /// It is not.
    Nak {
        /// Of the question that it answers (xid).
        transaction: u32,
    },
}

/// What a client is given, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub address: Ipv4Cidr,
    pub server: Ipv4Addr,
    /// Times since the request was sent; `None` is for ever.
    pub terms: Option<Terms>,
}

/// When a lease is to be renewed, of its server (T1) and then of any (T2), and when it ends. In this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub renew: Duration,
    pub rebind: Duration,
    pub end: Duration,
}

impl Answer {
    /// `None` for what is no answer to this client, or lacks what its kind must have.
    pub fn parse(bytes: &[u8], client: &ClientId) -> Option<Self> {
        let packet = DhcpPacket::new_checked(bytes).ok()?;
        let option = |wanted: u8| packet.options().find(|option| option.kind == wanted);
        let is_answer = packet.opcode() == DhcpOpCode::Reply && packet.magic_number() == COOKIE;
        // A server that follows RFC 6842 says whom it means.
        let for_us = option(CLIENT).is_none_or(|option| option.data == client.0);
        if !is_answer || !for_us {
            return None;
        }
        let transaction = packet.transaction_id();
        let address = packet.your_ip();
        let server = || option(SERVER).and_then(|option| four(&option)).map(Ipv4Addr::from);
        let usable = !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast();
        match Kind::from(*option(MESSAGE_TYPE)?.data.first()?) {
            Kind::Nak => Some(Self::Nak { transaction }),
            Kind::Offer if usable => Some(Self::Offer { transaction, address, server: server()? }),
            Kind::Ack if usable => {
                let seconds =
                    |wanted| option(wanted).and_then(|option| four(&option)).map(u32::from_be_bytes);
                let mask = option(SUBNET_MASK).and_then(|option| four(&option)).map(Ipv4Addr::from);
                let length = match mask {
                    Some(mask) => prefix_length(mask)?,
                    None => length_of_class(address),
                };
                let terms = terms(seconds(LEASE_TIME)?, seconds(RENEWAL_TIME), seconds(REBINDING_TIME))?;
                let grant = Grant { address: Ipv4Cidr::new(address, length), server: server()?, terms };
                Some(Self::Ack { transaction, grant })
            }
            _ => None,
        }
    }
}

fn four(option: &DhcpOption<'_>) -> Option<[u8; 4]> {
    option.data.try_into().ok()
}

/// Outer `None`: a lease of no time. Times that a server leaves out, or has in another order, are those of RFC 2131 section
/// 4.4.5: half the lease, and seven eighths.
fn terms(end: u32, renew: Option<u32>, rebind: Option<u32>) -> Option<Option<Terms>> {
    if end == 0 {
        return None;
    }
    if end == FOREVER {
        return Some(None);
    }
    let (renew, rebind) = match (renew, rebind) {
        (Some(renew), Some(rebind)) if renew > 0 && renew <= rebind && rebind <= end => (renew, rebind),
        (Some(renew), None) if renew > 0 && renew <= end - end / 8 => (renew, end - end / 8),
        _ => (end / 2, end - end / 8),
    };
    let [renew, rebind, end] = [renew, rebind, end].map(|seconds| Duration::from_secs(seconds.into()));
    Some(Some(Terms { renew, rebind, end }))
}

/// `None` for a mask with holes, or of no bits.
fn prefix_length(mask: Ipv4Addr) -> Option<u8> {
    let mask = u32::from(mask);
    (mask != 0 && mask.leading_ones() == mask.count_ones()).then_some(mask.leading_ones() as u8)
}

fn length_of_class(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> ClientId {
        let mut own = [0; 20];
        own[..4].copy_from_slice(&[0x80, 0, 0, 0x48]);
        own[4..12].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
        own[12..].copy_from_slice(&0x0002_c903_000a_1b2d_u64.to_be_bytes());
        ClientId::of(&LinkAddr(own))
    }

    /// An answer as a server would put it, the client's identifier in it.
    fn answer(kind: Kind, options: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; FIXED];
        let mut packet = DhcpPacket::new_unchecked(&mut bytes[..]);
        packet.set_opcode(DhcpOpCode::Reply);
        packet.set_hardware_type(ArpHardware::from(HTYPE_INFINIBAND));
        packet.set_transaction_id(7);
        packet.set_your_ip(Ipv4Addr::new(10, 0, 0, 5));
        packet.set_magic_number(COOKIE);
        let kind = [u8::from(kind)];
        let own = client().0;
        let first: [(u8, &[u8]); 2] = [(MESSAGE_TYPE, &kind), (CLIENT, &own)];
        for (kind, data) in first.iter().chain(options) {
            bytes.extend([*kind, data.len() as u8]);
            bytes.extend(*data);
        }
        bytes.push(255);
        bytes
    }

    #[test]
    fn a_discover_is_as_rfc_4390_wants_it() {
        let question = Question {
            kind: Kind::Discover,
            transaction: 0x0102_0304,
            seconds: 9,
            broadcast: true,
            own: Ipv4Addr::UNSPECIFIED,
            client: client(),
            requested: None,
            server: None,
        };
        let bytes = question.emit();
        assert_eq!(bytes[..12], [1, 32, 0, 0, 1, 2, 3, 4, 0, 9, 0x80, 0]);
        assert_eq!(bytes[28..44], [0; 16], "no link address");
        let mut id = vec![61, 21, 0, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        id.extend([0, 2, 0xc9, 3, 0, 0x0a, 0x1b, 0x2d]);
        assert_eq!(bytes[240..243], [53, 1, 1]);
        assert_eq!(bytes[243..266], id[..]);
        assert_eq!(bytes.len(), LEAST);
    }

    #[test]
    fn an_ack_says_what_for_how_long() {
        let server: (u8, &[u8]) = (SERVER, &[10, 0, 0, 9]);
        let mask: (u8, &[u8]) = (SUBNET_MASK, &[255, 255, 255, 0]);
        let bytes = answer(Kind::Ack, &[server, mask, (LEASE_TIME, &[0, 0, 0, 120])]);
        let terms = [60, 105, 120].map(Duration::from_secs);
        let terms = Terms { renew: terms[0], rebind: terms[1], end: terms[2] };
        let grant = Grant {
            address: Ipv4Cidr::new(Ipv4Addr::new(10, 0, 0, 5), 24),
            server: Ipv4Addr::new(10, 0, 0, 9),
            terms: Some(terms),
        };
        assert_eq!(Answer::parse(&bytes, &client()), Some(Answer::Ack { transaction: 7, grant }));
        let bytes = answer(Kind::Ack, &[server, (LEASE_TIME, &[255; 4])]);
        let Some(Answer::Ack { grant, .. }) = Answer::parse(&bytes, &client()) else { panic!("an ACK") };
        assert_eq!((grant.address.prefix_len(), grant.terms), (8, None));
    }

    #[test]
    fn what_is_no_answer_to_us_is_not_taken_for_one() {
        let server: (u8, &[u8]) = (SERVER, &[10, 0, 0, 9]);
        let good = answer(Kind::Offer, &[server]);
        assert!(Answer::parse(&good, &client()).is_some());
        for (at, value) in [(0, 1), (236, 0), (16, 255), (242, 8), (252, 1), (266, 50)] {
            let mut bad = good.clone();
            bad[at] = value;
            if at == 16 {
                bad[17..20].fill(255);
            }
            assert_eq!(Answer::parse(&bad, &client()), None, "octet {at} = {value}");
        }
        for length in 0..good.len() - 7 {
            assert_eq!(Answer::parse(&good[..length], &client()), None, "{length} octets");
        }
        let holes: (u8, &[u8]) = (SUBNET_MASK, &[255, 0, 255, 0]);
        let lease: (u8, &[u8]) = (LEASE_TIME, &[0, 0, 0, 9]);
        for options in [&[server, lease, holes][..], &[server], &[lease], &[server, (LEASE_TIME, &[0; 4])]] {
            assert_eq!(Answer::parse(&answer(Kind::Ack, options), &client()), None, "{options:?}");
        }
    }

    #[test]
    fn times_in_the_wrong_order_are_not_believed() {
        for (renew, rebind) in [(Some(100), Some(50)), (Some(130), None), (Some(50), Some(200)), (None, None)]
        {
            let terms = terms(120, renew, rebind).flatten().expect("an end");
            assert_eq!([terms.renew, terms.rebind, terms.end].map(|t| t.as_secs()), [60, 105, 120]);
        }
    }
}
