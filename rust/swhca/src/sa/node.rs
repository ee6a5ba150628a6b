//! Nodes and ports (NodeRecord, PortInfoRecord, IBA 15.2.5.2 and 15.2.5.3). The subnet manager is a switch of its own.

use kernel::KVec;

use super::fields::{self, Field};
use super::{PortView, RESPONSE_TIME, SUBNET_TIMEOUT};
use crate::mad::{self, Mad, Records, Refusal};

/// All of a NodeRecord's but its reserved one.
const NODE_FIELDS: [Field; 14] = [
    (0, 0, 2),
    (2, 4, 1),
    (3, 5, 1),
    (4, 6, 1),
    (5, 7, 1),
    (6, 8, 8),
    (7, 16, 8),
    (8, 24, 8),
    (9, 32, 2),
    (10, 34, 2),
    (11, 36, 4),
    (12, 40, 1),
    (13, 41, 3),
    (14, 44, 64),
];
/// Of a PortInfoRecord those of whole bytes in front: LID and number; M_Key, prefix, LIDs, capabilities.
const PORT_FIELDS: [Field; 7] =
    [(0, 0, 2), (1, 2, 1), (3, 4, 8), (4, 12, 8), (5, 20, 2), (6, 22, 2), (7, 24, 4)];

const NODE_LEN: usize = 108;
const PORT_LEN: usize = 68;

/// The vendor's number (a locally administered OUI), as in the adapter's attributes.
pub(crate) const VENDOR: u32 = 0x02_5357;
/// The device's.
pub(crate) const DEVICE: u16 = 1;
/// The GUID of the switch that the subnet manager is.
pub(crate) const SWITCH_GUID: u64 = 0x0253_57ff_ffff_0000;

struct Node {
    lid: u16,
    kind: u8,
    ports: u8,
    guid: u64,
    port_guid: u64,
    number: u8,
    description: &'static [u8],
}

impl Node {
    fn record(&self) -> [u8; NODE_LEN] {
        let mut record = [0; NODE_LEN];
        mad::put16(&mut record, 0, self.lid);
        (record[4], record[5], record[6], record[7]) = (1, 1, self.kind, self.ports);
        mad::put64(&mut record, 8, self.guid);
        mad::put64(&mut record, 16, self.guid);
        mad::put64(&mut record, 24, self.port_guid);
        mad::put16(&mut record, 32, super::PKEYS as u16);
        mad::put16(&mut record, 34, DEVICE);
        mad::put32(&mut record, 36, 1);
        mad::put32(&mut record, 40, u32::from(self.number) << 24 | VENDOR);
        mad::put(&mut record, 44, self.description);
        record
    }
}

pub(super) fn nodes(
    request: &Mad,
    ports: &[PortView],
    asker: &PortView,
    answer: &mut Mad,
    all: &mut KVec<u8>,
) -> Result<(), Refusal> {
    let (data, mask) = (request.data(), request.mask());
    let switch = Node {
        lid: asker.manager,
        kind: 2,
        ports: 0,
        guid: SWITCH_GUID,
        port_guid: SWITCH_GUID,
        number: 0,
        description: b"swhca fabric",
    };
    let adapters = ports.iter().map(|port| Node {
        lid: port.lid,
        kind: 1,
        ports: port.ports,
        guid: port.node_guid,
        port_guid: port.gid.guid,
        number: port.number,
        description: b"swhca",
    });
    let mut records = Records::new(answer, all, NODE_LEN);
    for record in adapters.chain([switch]).map(|node| node.record()) {
        if fields::has(&record, data, mask, &NODE_FIELDS) {
            records.push(&record);
        }
    }
    records.finish()
}

pub(super) fn ports(
    request: &Mad,
    ports: &[PortView],
    answer: &mut Mad,
    all: &mut KVec<u8>,
) -> Result<(), Refusal> {
    let (data, mask) = (request.data(), request.mask());
    let mut records = Records::new(answer, all, PORT_LEN);
    for record in ports.iter().map(port_record) {
        if fields::has(&record, data, mask, &PORT_FIELDS) {
            records.push(&record);
        }
    }
    records.finish()
}

/// The port as PortInfo (IBA 14.2.5.6) has it: 4x, one data lane, PORT_UP and client reregistration supported.
fn port_record(port: &PortView) -> [u8; PORT_LEN] {
    let mut record = [0; PORT_LEN];
    mad::put16(&mut record, 0, port.lid);
    record[2] = port.number;
    let info = record.get_mut(4..).unwrap_or_default();
    mad::put64(info, 8, port.gid.prefix);
    mad::put16(info, 16, port.lid);
    mad::put16(info, 18, port.manager);
    mad::put32(info, 20, 0x0200_0000);
    let lanes = port.speed.min(4);
    let state = if port.active { 4 } else { 1 };
    let physical = if port.active { 5 } else { 2 };
    mad::put(info, 28, &[port.number, 2, 2, 2, lanes << 4 | state, physical << 4, 0, lanes << 4 | lanes]);
    mad::put(info, 36, &[port.mtu << 4, 0x10]);
    mad::put(info, 41, &[port.mtu, 0, 0x10]);
    mad::put(info, 50, &[1, SUBNET_TIMEOUT, RESPONSE_TIME]);
    record
}
