//! What a Linux host says and understands of communication management, byte for byte (InfiniBand Architecture volume 1, 12.6): written
//! apart from the lab's `ibcm`, so that neither hides what the other has wrong.

use fabric::Gid;

pub const LEN: usize = 256;
/// Where a message's own octets begin.
const DATA: usize = 24;
/// Octets of what IPoIB says of itself: the number of its queue pair, and the longest message that it takes.
const HELLO: usize = 8;
/// What a Linux host says in every REQ: an answer may take 4.3 s on either side, and is asked for sixteen times.
const RESPONSE: u8 = 20;
const CM_RETRIES: u8 = 15;
/// As of a path whose packets live 1.07 s.
const ACK_TIMEOUT: u8 = 19;
/// What its adapter takes for an acknowledgement, as a code.
pub const ACK_DELAY: u8 = 16;
const LONGEST: u32 = 65_524;

#[derive(Clone, Debug)]
pub struct Req {
    pub service: u64,
    pub qpn: u32,
    pub psn: u32,
    pub transport: u8,
    pub retry: u8,
    pub rnr_retry: u8,
    pub path_mtu: u8,
    pub hello: [u8; HELLO],
}

#[derive(Clone, Debug)]
pub struct Rep {
    pub qpn: u32,
    pub psn: u32,
    pub rnr_retry: u8,
    /// What its adapter takes for an acknowledgement, as a code.
    pub delay: u8,
    pub hello: [u8; HELLO],
}

#[derive(Clone, Debug)]
pub enum Body {
    Req(Req),
    Rep(Rep),
    Rtu,
    Rej(u16),
    Dreq(u32),
    Drep,
    /// The answer to a REQ takes so long, as a code.
    Mra(u8),
}

/// `from` is the sender's number of the connection, `to` the receiver's.
#[derive(Clone, Debug)]
pub struct Message {
    pub transaction: u64,
    pub from: u32,
    pub to: u32,
    pub body: Body,
}

fn number(mad: &[u8], at: usize, len: usize) -> u64 {
    mad[DATA + at..DATA + at + len].iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet))
}

fn hello(mad: &[u8], at: usize) -> [u8; HELLO] {
    mad[DATA + at..DATA + at + HELLO].try_into().expect("eight octets")
}

/// What IPoIB says of itself.
pub fn say(qpn: u32) -> [u8; HELLO] {
    (u64::from(qpn) << 32 | u64::from(LONGEST)).to_be_bytes()
}

/// Queue pair and longest message, as said.
pub fn said(hello: [u8; HELLO]) -> (u32, u32) {
    let both = u64::from_be_bytes(hello);
    ((both >> 32) as u32, both as u32)
}

impl Message {
    pub fn parse(mad: &[u8]) -> Option<Self> {
        if mad.len() != LEN || mad[1] != super::super::CM {
            return None;
        }
        let body = match u16::from_be_bytes([mad[16], mad[17]]) {
            0x10 => Body::Req(Req {
                service: number(mad, 8, 8),
                qpn: number(mad, 32, 3) as u32,
                psn: number(mad, 44, 3) as u32,
                transport: mad[DATA + 43] >> 1 & 3,
                retry: mad[DATA + 47] & 7,
                rnr_retry: mad[DATA + 50] & 7,
                path_mtu: mad[DATA + 50] >> 4,
                hello: hello(mad, 140),
            }),
            0x11 => Body::Mra(mad[DATA + 9] >> 3),
            0x12 => Body::Rej(number(mad, 10, 2) as u16),
            0x13 => Body::Rep(Rep {
                qpn: number(mad, 12, 3) as u32,
                psn: number(mad, 20, 3) as u32,
                rnr_retry: mad[DATA + 27] >> 5,
                delay: mad[DATA + 26] >> 3,
                hello: hello(mad, 36),
            }),
            0x14 => Body::Rtu,
            0x15 => Body::Dreq(number(mad, 8, 3) as u32),
            0x16 => Body::Drep,
            _ => return None,
        };
        let transaction = u64::from_be_bytes(mad[8..16].try_into().expect("eight octets"));
        let to = if matches!(body, Body::Req(_)) { 0 } else { number(mad, 4, 4) as u32 };
        Some(Self { transaction, from: number(mad, 0, 4) as u32, to, body })
    }
}

/// Who and where a Linux host's adapter is, and whom it asks: what a REQ says of the way.
#[derive(Clone, Copy)]
pub struct Ends {
    pub guid: u64,
    pub lids: [u16; 2],
    pub gids: [Gid; 2],
    pub pkey: u16,
    /// Of the path, a rate's code.
    pub rate: u8,
}

struct Out([u8; LEN]);

impl Out {
    fn new(message: &Message, attribute: u16) -> Self {
        let mut out = Self([0; LEN]);
        out.0[..4].copy_from_slice(&[1, super::super::CM, 2, 3]);
        out.0[8..16].copy_from_slice(&message.transaction.to_be_bytes());
        out.0[16..18].copy_from_slice(&attribute.to_be_bytes());
        out.put(0, &message.from.to_be_bytes());
        if attribute != 0x10 {
            out.put(4, &message.to.to_be_bytes());
        }
        out
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[DATA + at..DATA + at + bytes.len()].copy_from_slice(bytes);
    }

    fn put24(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_be_bytes()[1..]);
    }
}

impl Message {
    pub fn emit(&self, ends: &Ends) -> [u8; LEN] {
        let attribute = match self.body {
            Body::Req(_) => 0x10,
            Body::Mra(_) => 0x11,
            Body::Rej(_) => 0x12,
            Body::Rep(_) => 0x13,
            Body::Rtu => 0x14,
            Body::Dreq(_) => 0x15,
            Body::Drep => 0x16,
        };
        let mut out = Out::new(self, attribute);
        match &self.body {
            Body::Req(req) => req.emit(&mut out, ends),
            Body::Rep(rep) => rep.emit(&mut out, ends),
            Body::Rej(reason) => out.put(10, &reason.to_be_bytes()),
            Body::Dreq(qpn) => out.put24(8, *qpn),
            Body::Mra(time) => out.put(9, &[time << 3]),
            Body::Rtu | Body::Drep => {}
        }
        out.0
    }
}

impl Req {
    fn emit(&self, out: &mut Out, ends: &Ends) {
        out.put(8, &self.service.to_be_bytes());
        out.put(16, &ends.guid.to_be_bytes());
        out.put24(32, self.qpn);
        // Four RDMA reads each way, which nobody ever makes.
        out.put(35, &[4]);
        out.put(39, &[4]);
        // No end-to-end flow control.
        out.put(43, &[RESPONSE << 3 | self.transport << 1]);
        out.put24(44, self.psn);
        out.put(47, &[RESPONSE << 3 | self.retry]);
        out.put(48, &ends.pkey.to_be_bytes());
        out.put(50, &[self.path_mtu << 4 | self.rnr_retry, CM_RETRIES << 4 | 1 << 3]);
        ends.lids.iter().zip([52, 54]).for_each(|(lid, at)| out.put(at, &lid.to_be_bytes()));
        ends.gids.iter().zip([56, 72]).for_each(|(gid, at)| out.put(at, &gid.to_bytes()));
        out.put(91, &[ends.rate]);
        // On this subnet.
        out.put(94, &[1 << 3, ACK_TIMEOUT << 3]);
        out.put(140, &self.hello);
    }
}

impl Rep {
    fn emit(&self, out: &mut Out, ends: &Ends) {
        out.put24(12, self.qpn);
        out.put24(20, self.psn);
        out.put(24, &[4, 4, self.delay << 3, self.rnr_retry << 5 | 1 << 4]);
        out.put(28, &ends.guid.to_be_bytes());
        out.put(36, &self.hello);
    }
}
