//! Messages of the data-link provider interface (`sys/dlpi.h`): words of 32 bits, then addresses.

/// Octets of an IPoIB address: flags and queue pair number, then the GID.
pub const ADDRESS: usize = 20;
/// Octets that dld gives and takes for an address: it, and the SAP.
pub const ADDRESS_AND_SAP: usize = ADDRESS + 2;

const INFO_REQ: u32 = 0;
const BIND_REQ: u32 = 1;
const UNBIND_REQ: u32 = 2;
const INFO_ACK: u32 = 3;
const BIND_ACK: u32 = 4;
const ERROR_ACK: u32 = 5;
const OK_ACK: u32 = 6;
const UNITDATA_REQ: u32 = 7;
const UNITDATA_IND: u32 = 8;
const UDERROR_IND: u32 = 9;
const ENABMULTI_REQ: u32 = 0x1d;
const DISABMULTI_REQ: u32 = 0x1e;
const PROMISCON_REQ: u32 = 0x1f;
const PROMISCOFF_REQ: u32 = 0x20;
const PHYS_ADDR_REQ: u32 = 0x31;
const PHYS_ADDR_ACK: u32 = 0x32;
const SET_PHYS_ADDR_REQ: u32 = 0x33;
const NOTIFY_REQ: u32 = 0x100;
const NOTIFY_ACK: u32 = 0x101;
const NOTIFY_IND: u32 = 0x102;
const PASSIVE_REQ: u32 = 0x114;

/// A request, as octets.
#[derive(Clone, Copy)]
pub struct Request {
    bytes: [u8; 64],
    length: usize,
}

/// Which address is asked for (`DL_*_ADDR`).
pub const ADDRESSES: [(&str, u32); 3] = [("current", 2), ("factory", 1), ("destination", 5)];

/// What promiscuous mode is about (`DL_PROMISC_*`).
pub const PROMISCUOUS: [(&str, u32); 3] = [("phys", 1), ("sap", 2), ("multi", 3)];

impl Request {
    fn words(words: &[u32]) -> Self {
        let mut request = Self { bytes: [0; 64], length: 0 };
        words.iter().for_each(|word| request.push(&word.to_ne_bytes()));
        request
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        self.push(bytes);
        self
    }

    /// `DL_INFO_REQ`.
    pub fn info() -> Self {
        Self::words(&[INFO_REQ])
    }

    /// `DL_BIND_REQ` for connectionless service.
    pub fn bind(sap: u32) -> Self {
        // Service mode and connection management are two halves of a word: DL_CLDLS is 2.
        Self::words(&[BIND_REQ, sap, 0, 2, 0])
    }

    /// `DL_UNBIND_REQ`.
    pub fn unbind() -> Self {
        Self::words(&[UNBIND_REQ])
    }

    /// `DL_PHYS_ADDR_REQ` for one of [`ADDRESSES`].
    pub fn address(which: u32) -> Self {
        Self::words(&[PHYS_ADDR_REQ, which])
    }

    /// `DL_SET_PHYS_ADDR_REQ`.
    pub fn set_address(address: &[u8; ADDRESS]) -> Self {
        Self::words(&[SET_PHYS_ADDR_REQ, ADDRESS as u32, 12]).with(address)
    }

    /// `DL_PASSIVE_REQ`.
    pub fn passive() -> Self {
        Self::words(&[PASSIVE_REQ])
    }

    /// `DL_UNITDATA_REQ`.
    pub fn data(to: &[u8; ADDRESS], sap: u16) -> Self {
        Self::words(&[UNITDATA_REQ, ADDRESS_AND_SAP as u32, 20, 0, 0]).with(to).with(&sap.to_ne_bytes())
    }

    /// `DL_ENABMULTI_REQ` or `DL_DISABMULTI_REQ`.
    pub fn group(address: &[u8; ADDRESS], join: bool) -> Self {
        let primitive = if join { ENABMULTI_REQ } else { DISABMULTI_REQ };
        Self::words(&[primitive, ADDRESS as u32, 12]).with(address)
    }

    /// `DL_PROMISCON_REQ` or `DL_PROMISCOFF_REQ`.
    pub fn promiscuous(level: u32, on: bool) -> Self {
        Self::words(&[if on { PROMISCON_REQ } else { PROMISCOFF_REQ }, level])
    }

    /// `DL_NOTIFY_REQ`.
    pub fn notify(what: u32) -> Self {
        Self::words(&[NOTIFY_REQ, what, 0])
    }

    /// Its octets.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// What a stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `DL_OK_ACK`.
    Done,
    /// `DL_NOTIFY_ACK`: of what a stream can be told.
    Notes(u32),
    /// `DL_UDERROR_IND`: a packet was not sent; the DLPI error and the errno.
    NotSent(u32, u32),
    /// `DL_ERROR_ACK`: the DLPI error, and the errno if that is `DL_SYSERR`.
    Error(u32, u32),
    /// `DL_BIND_ACK` or `DL_PHYS_ADDR_ACK`.
    Address(&'a [u8]),
    /// `DL_INFO_ACK`.
    Info {
        /// Octets of the largest packet.
        max_sdu: u32,
        /// And of the smallest.
        min_sdu: u32,
        /// Octets of an address with its SAP.
        address_length: u32,
        /// Octets of the SAP, negative if it is behind the address.
        sap_length: i32,
        /// `DL_CLDLS` is 2.
        service: u32,
        /// `DL_STYLE1` is 0x500.
        style: u32,
        /// `DL_IB` is 0x1a.
        media: u32,
        /// The state of the stream.
        state: u32,
        /// The broadcast address.
        broadcast: &'a [u8],
    },
    /// `DL_UNITDATA_IND`: a packet.
    Packet {
        /// Where it was sent to, and its SAP.
        to: &'a [u8],
        /// Who sent it.
        from: &'a [u8],
        /// Whether it was sent to a group.
        group: bool,
    },
    /// `DL_NOTIFY_IND`.
    Note {
        /// `DL_NOTE_*`.
        what: u32,
        /// A speed or a size.
        data: u32,
        /// An address, if it is about one.
        address: &'a [u8],
    },
    /// Another one.
    Other(u32),
}

impl<'a> Message<'a> {
    /// Reads the control part of a message.
    pub fn read(control: &'a [u8]) -> Self {
        let word = |index: usize| {
            let octets = control.get(4 * index..4 * index + 4).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u32::from_ne_bytes)
        };
        let part = |length: usize, offset: usize| {
            let begin = word(offset) as usize;
            control.get(begin..begin.saturating_add(word(length) as usize)).unwrap_or_default()
        };
        match word(0) {
            OK_ACK => Self::Done,
            NOTIFY_ACK => Self::Notes(word(1)),
            UDERROR_IND => Self::NotSent(word(4), word(3)),
            ERROR_ACK => Self::Error(word(2), word(3)),
            BIND_ACK => Self::Address(part(2, 3)),
            PHYS_ADDR_ACK => Self::Address(part(1, 2)),
            INFO_ACK => Self::Info {
                max_sdu: word(1),
                min_sdu: word(2),
                address_length: word(3),
                media: word(4),
                state: word(6),
                sap_length: word(7).cast_signed(),
                service: word(8),
                style: word(13),
                broadcast: part(16, 17),
            },
            UNITDATA_IND => Self::Packet { to: part(1, 2), from: part(3, 4), group: word(5) != 0 },
            NOTIFY_IND => Self::Note { what: word(1), data: word(2), address: part(3, 4) },
            other => Self::Other(other),
        }
    }
}

/// The name of a `DL_NOTE_*`.
pub fn note(what: u32) -> &'static str {
    match what {
        0x1 => "phys-addr",
        0x2 => "promisc-on",
        0x4 => "promisc-off",
        0x8 => "link-down",
        0x10 => "link-up",
        0x80 => "sdu-size",
        0x100 => "speed",
        0x200 => "fastpath-flush",
        0x400 => "capab-reneg",
        0x1000 => "allowed-ips",
        0x2000 => "sdu-size2",
        _ => "other",
    }
}

/// The name of a reason why a request was refused.
pub fn reason(error: u32) -> &'static str {
    match error {
        0x01 => "DL_BADADDR",
        0x03 => "DL_OUTSTATE",
        0x06 => "DL_BADDATA",
        0x07 => "DL_UNSUPPORTED",
        0x09 => "DL_BADPRIM",
        0x12 => "DL_NOTSUPPORTED",
        0x13 => "DL_TOOMANY",
        0x14 => "DL_NOTENAB",
        0x15 => "DL_BUSY",
        0x16 => "DL_NOAUTO",
        _ => "another reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn an_address_lies_where_the_message_says() {
        let mut bound = words(&[4, 0x800, 22, 20, 0]);
        bound.extend(1..=22);
        let Message::Address(address) = Message::read(&bound) else { panic!("another message") };
        assert_eq!((address.len(), address[0], address[21]), (22, 1, 22));
    }

    #[test]
    fn a_message_that_is_cut_has_empty_parts() {
        assert_eq!(Message::read(&words(&[4, 0x800, 22, 20])), Message::Address(&[]));
        assert_eq!(
            Message::read(&words(&[0x102, 1, 0, u32::MAX, u32::MAX])),
            Message::Note { what: 1, data: 0, address: &[] }
        );
        assert_eq!(Message::read(&[5]), Message::Other(0));
    }

    #[test]
    fn a_packet_is_sent_to_address_and_sap() {
        let request = Request::data(&[7; 20], 0x800);
        assert_eq!(request.bytes().len(), 42);
        assert_eq!(&request.bytes()[20..42], [&[7; 20][..], &0x800_u16.to_ne_bytes()].concat());
        assert_eq!(Request::bind(0x800).bytes().len(), 20);
        assert_eq!(Request::group(&[1; 20], true).bytes().len(), 32);
    }
}
