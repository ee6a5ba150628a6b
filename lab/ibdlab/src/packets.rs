//! Packets that nobody should send, from a sender that is no driver: frames put on the wire by hand.

use fabric::wire::{Bth, Deth, GRH_LEN, Grh, LRH_LEN, Lrh, Packet, crc};
use fabric::{Gid, Guid, Lid, Mtu, PKey, QKey, Qpn, Sl};
use lab_ibtf::InfiniBand;
use lab_ibtf::saa::EmbeddedSm;
use sm::partition::broadcast_mgid;
use sm::records::McMemberRecord;

use crate::scenario::trouble::Malformed;

const IPV4: u16 = 0x0800;
pub const ARP: u16 = 0x0806;
pub const IPV6: u16 = 0x86dd;
/// ICMPv6, and a neighbour solicitation in it.
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
/// Queue pair that the sender says it has.
const STRANGER: u32 = 0x1234;
/// Scopes where a host's own broadcast group may be, and a scope where it is if not there.
const SCOPES: [u8; 4] = [2, 5, 8, 0xe];

/// A frame before its last touch: everything right.
struct Draft {
    slid: Lid,
    dlid: Lid,
    dest: Qpn,
    src: Qpn,
    pkey: PKey,
    qkey: QKey,
    grh: Option<Grh>,
    payload: Vec<u8>,
    /// What is changed in the finished frame, with CRCs that are right again.
    lie: Option<(usize, u8)>,
}

/// What is delivered.
pub enum Content<'a> {
    Malformed(Malformed),
    /// These bytes, to the host or to its broadcast group.
    Raw(&'a [u8], bool),
    /// A MAD to queue pair 1, from that of the port with this LID.
    Management(&'a [u8], Lid),
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The adapter.
    pub hca: Guid,
    /// Its port.
    pub port: Guid,
    /// Of the link.
    pub pkey: u16,
}

/// Delivers a packet to every queue pair that the adapter has now, or to the link's broadcast group; there may be none.
pub fn inject(infiniband: &InfiniBand, sm: &EmbeddedSm, target: Target, content: &Content<'_>) {
    let fabric = infiniband.fabric();
    let Some(view) = fabric.subnet_ports().into_iter().find(|view| view.attr.guid == target.port) else {
        return;
    };
    let Some(hca) = fabric.hca(target.hca) else { return };
    let Some(own_gid) = view.attr.gids.first().copied() else { return };
    let (sm_lid, sm_gid) = sm.inspect(|sm| (sm.lid(), Gid::of_port(sm.config().sa.prefix, sm.config().guid)));
    let groups = Groups { sm, pkey: target.pkey };
    // All that are in a group hear the one packet that is sent to it.
    let is_one = matches!(content, Content::Raw(_, true) | Content::Management(..));
    let copies = if is_one { 1 } else { usize::MAX };
    for qpn in hca.qpns().into_iter().take(copies) {
        let draft = Draft {
            slid: sm_lid,
            dlid: view.attr.lid,
            dest: qpn,
            src: Qpn::truncating(STRANGER),
            pkey: PKey(target.pkey),
            qkey: groups.q_key(),
            grh: None,
            payload: ipoib(IPV4, &ipv4(20, 20)),
            lie: None,
        };
        let draft = match *content {
            Content::Malformed(kind) => draft.spoilt(kind, &groups, sm_gid, own_gid, view.attr.mtu.bytes()),
            Content::Raw(bytes, broadcast) => {
                let draft = if broadcast { draft.for_group(&groups, groups.own(), sm_gid) } else { draft };
                Draft { payload: bytes.to_vec(), ..draft }
            }
            Content::Management(mad, slid) => {
                let (src, dest, qkey) = (Qpn::GSI, Qpn::GSI, QKey::GSI);
                Draft { slid, src, dest, qkey, payload: mad.to_vec(), ..draft }
            }
        };
        // The port was there a moment ago; gone is as good as refused.
        let _ = fabric.deliver(target.port, &draft.emit());
    }
}

struct Groups<'a> {
    sm: &'a EmbeddedSm,
    pkey: u16,
}

impl Groups<'_> {
    fn broadcast(&self, pkey: u16, scope: u8) -> Gid {
        broadcast_mgid(PKey(pkey), scope)
    }

    fn own(&self) -> Gid {
        self.broadcast(self.pkey, self.scope())
    }

    /// That of the link's own broadcast group.
    fn scope(&self) -> u8 {
        self.record().map_or(SCOPES[0], |record| record.mgid.scope())
    }

    fn other_scope(&self) -> u8 {
        let own = self.scope();
        SCOPES.into_iter().find(|scope| *scope != own).unwrap_or(own)
    }

    /// The link's own broadcast group, if there is one.
    fn record(&self) -> Option<McMemberRecord> {
        let own = SCOPES.map(|scope| self.broadcast(self.pkey, scope));
        self.sm.inspect(|sm| {
            sm.sa().groups().map(|(record, _)| record).find(|record| own.contains(&record.mgid)).cloned()
        })
    }

    /// The Q_Key of the link.
    fn q_key(&self) -> QKey {
        self.record().map_or(QKey::IPOIB, |record| record.q_key)
    }

    /// Where packets to it go.
    fn mlid(&self) -> Lid {
        self.record().map_or(Lid::FIRST_MULTICAST, |record| record.mlid)
    }

    /// The link's MTU in bytes, IPoIB header included; 2048 if there is no link.
    fn mtu(&self) -> usize {
        let code = self.record().map_or(0, |record| record.mtu.value);
        Mtu::from_code(code).unwrap_or(Mtu::M2048).bytes()
    }
}

impl Draft {
    fn spoilt(mut self, kind: Malformed, groups: &Groups<'_>, other: Gid, own: Gid, mtu: usize) -> Self {
        match kind {
            Malformed::Empty => self.payload.clear(),
            Malformed::ThreeBytes => self.payload.truncate(3),
            Malformed::HeaderOnly => self.payload.truncate(4),
            Malformed::LengthBeyondEnd => self.payload = ipoib(IPV4, &ipv4(1_000, 20)),
            Malformed::Largest => self.payload.resize(groups.mtu(), 0),
            Malformed::LongerThanLink => self.payload.resize(groups.mtu() + 4, 0),
            Malformed::Oversize => self.payload.resize(mtu + 4, 0),
            Malformed::WrongQkey => self.qkey = QKey(0x1234_5678),
            Malformed::WrongPkey => self.pkey = PKey(0x8765),
            Malformed::WrongEthertype => self.payload = ipoib(0x1234, &[0x5a; 40]),
            Malformed::NdOptionCut => self.payload = ipoib(IPV6, &solicitation(&[1, 3, 0, 0, 0])),
            Malformed::NdOptionEmpty => self.payload = ipoib(IPV6, &solicitation(&[1, 0, 0, 0, 0, 0, 0, 0])),
            Malformed::NdOptionTooLong => {
                self.payload = ipoib(IPV6, &solicitation(&[1, 200, 0, 0, 0, 0, 0, 0]))
            }
            Malformed::NdWithoutOption => self.payload = ipoib(IPV6, &solicitation(&[])),
            Malformed::ArpCut => self.payload = ipoib(ARP, &arp(20)[..20]),
            Malformed::ArpAddressTooLong => self.payload = ipoib(ARP, &arp(255)),
            Malformed::MulticastWithoutGrh => {
                self = self.for_group(groups, groups.own(), other);
                self.grh = None;
            }
            Malformed::GrhOtherGroup => {
                let mut mgid = groups.own();
                mgid.guid ^= 0x0f0f;
                self = self.for_group(groups, mgid, other);
            }
            Malformed::GroupOfOtherPartition => {
                let mgid = groups.broadcast(groups.pkey ^ 0x0101, groups.scope());
                self = self.for_group(groups, mgid, other);
            }
            Malformed::GroupOfOtherScope => {
                let mgid = groups.broadcast(groups.pkey, groups.other_scope());
                self = self.for_group(groups, mgid, other);
            }
            Malformed::FromItself => {
                self.src = self.dest;
                self = self.for_group(groups, groups.own(), own);
            }
            Malformed::GrhOtherPort => self.grh = Some(global(other, Gid { guid: own.guid ^ 0xff, ..own })),
            Malformed::GrhVersion => self = self.lying_grh(other, own, 0, 0x40),
            Malformed::GrhLength => self = self.lying_grh(other, own, 5, 0xff),
            Malformed::GrhNextHeader => self = self.lying_grh(other, own, 6, 17),
            // The link next header says that a GRH follows; what follows is BTH.
            Malformed::GrhMissing => self.lie = Some((1, 0x03)),
        }
        self
    }

    /// With a GRH for this port that is right but for one byte.
    fn lying_grh(self, from: Gid, own: Gid, at: usize, byte: u8) -> Self {
        Self { grh: Some(global(from, own)), lie: Some((LRH_LEN + at, byte)), ..self }
    }

    fn for_group(self, groups: &Groups<'_>, mgid: Gid, from: Gid) -> Self {
        Self { dlid: groups.mlid(), dest: Qpn::MULTICAST, grh: Some(global(from, mgid)), ..self }
    }

    fn emit(&self) -> Vec<u8> {
        let packet = Packet {
            lrh: Lrh { vl: 0, sl: Sl::default(), dlid: self.dlid, slid: self.slid },
            grh: self.grh,
            bth: Bth { solicited: false, pkey: self.pkey, dest: self.dest, psn: 1 },
            deth: Deth { qkey: self.qkey, src: self.src },
            immediate: None,
            payload: &self.payload,
        };
        let mut frame = packet.emit();
        if let Some((at, byte)) = self.lie {
            frame[at] = byte;
            let has_grh = frame[1] & 3 == 3 && frame.len() > LRH_LEN + GRH_LEN;
            crc::renew(&mut frame, has_grh);
        }
        frame
    }
}

const fn global(sgid: Gid, dgid: Gid) -> Grh {
    Grh { tclass: 0, flow_label: 0, hop_limit: 0, sgid, dgid }
}

pub fn ipoib(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ethertype.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

/// An IPv4 header that says `says` bytes, in front of as many as make `is`; UDP to nobody.
fn ipv4(says: u16, is: usize) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    bytes[2..4].copy_from_slice(&says.to_be_bytes());
    bytes.resize(is, 0);
    bytes
}

/// A neighbour solicitation with these option bytes; its checksum is right for nobody, and nobody is asked for.
fn solicitation(options: &[u8]) -> Vec<u8> {
    let length = 24 + options.len() as u16;
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, ICMPV6, 255];
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    // From fe80::1 to ff02::1.
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    bytes.extend(options);
    bytes
}

/// An ARP request whose link addresses are `length` bytes long, it says; 20 of each are there.
fn arp(length: u8) -> Vec<u8> {
    let mut bytes = vec![0, 32, 8, 0, length, 4, 0, 1];
    bytes.extend([0; 20]);
    bytes.extend([192, 0, 2, 1]);
    bytes.extend([0; 20]);
    bytes.extend([192, 0, 2, 2]);
    bytes
}
