//! Ways to ports and to groups (PathRecord, IBA 15.2.5.16).

use ibtf_provider::Gid;
use kernel::KVec;

use super::group::Groups;
use super::{PACKET_LIFE, PortView, may_talk};
use crate::mad::{self, Mad, Records, Refusal};
use crate::rate::{self, Wish};

const DGID: u64 = 1 << 2;
const SGID: u64 = 1 << 3;
const DLID: u64 = 1 << 4;
const SLID: u64 = 1 << 5;
const PKEY: u64 = 1 << 13;
const MTU_SELECTOR: u64 = 1 << 16;
const RATE_SELECTOR: u64 = 1 << 18;

const LEN: usize = 64;

/// What a record says.
struct Path {
    dgid: Gid,
    sgid: Gid,
    dlid: u16,
    slid: u16,
    pkey: u16,
    mtu: u8,
    rate: u8,
    life: u8,
    tclass: u8,
    /// SL of the group, flow label and hop limit: as a group's record has them.
    route: u32,
    reversible: bool,
}

impl Path {
    fn record(&self) -> [u8; LEN] {
        let mut record = [0; LEN];
        mad::put_gid(&mut record, 8, self.dgid);
        mad::put_gid(&mut record, 24, self.sgid);
        mad::put16(&mut record, 40, self.dlid);
        mad::put16(&mut record, 42, self.slid);
        mad::put32(&mut record, 44, self.route & 0x0fff_ffff);
        record[48] = self.tclass;
        record[49] = if self.reversible { 0x81 } else { 1 };
        mad::put16(&mut record, 50, self.pkey);
        mad::put16(&mut record, 52, (self.route >> 28) as u16);
        record[54] = 0x80 | self.mtu;
        record[55] = 0x80 | self.rate;
        record[56] = 0x80 | self.life;
        record
    }
}

/// Get and GetTable: one path at most from a port to a port, or to a group that the port is in.
pub(super) fn paths(
    request: &Mad,
    ports: &[PortView],
    asker: &PortView,
    groups: &Groups,
    answer: &mut Mad,
    all: &mut KVec<u8>,
) -> Result<(), Refusal> {
    let (data, mask) = (request.data(), request.mask());
    let from = if mask & SGID == 0 {
        Some(asker)
    } else {
        let sgid = mad::gid(data, 24);
        ports.iter().find(|port| port.gid == sgid && port.active)
    };
    let from = from.filter(|from| mask & SLID == 0 || mad::be16(data, 42) == from.lid);
    let dgid = mad::gid(data, 8);
    let found = from.and_then(|from| {
        if mask & DGID != 0 && dgid.is_multicast() {
            to_group(request, from, groups.find(dgid)?)
        } else {
            to_port(request, from, ports)
        }
    });
    let wish = |at: usize, bit| Wish::read(data.get(at).copied().unwrap_or(0), mask, bit);
    let mut records = Records::new(answer, all, LEN);
    if let Some(mut path) = found
        && wish(54, MTU_SELECTOR).is_none_or(|wish| wish.accepts(path.mtu, rate::mtu_bytes))
        && wish(55, RATE_SELECTOR).is_none_or(|wish| wish.accepts(path.rate, rate::speed))
    {
        path.rate = asker.told_rate.unwrap_or(path.rate);
        records.push(&path.record());
    }
    records.finish()
}

fn to_group(request: &Mad, from: &PortView, group: &super::group::Group) -> Option<Path> {
    let same = request.mask() & PKEY == 0 || mad::be16(request.data(), 50) == group.pkey;
    if !same || !group.has(from.gid.guid) {
        return None;
    }
    Some(Path {
        dgid: group.gid,
        sgid: from.gid,
        dlid: group.mlid,
        slid: 0,
        pkey: group.pkey,
        mtu: group.mtu,
        rate: group.rate,
        life: group.life,
        tclass: group.tclass,
        route: group.route,
        reversible: false,
    })
}

fn to_port(request: &Mad, from: &PortView, ports: &[PortView]) -> Option<Path> {
    let (data, mask) = (request.data(), request.mask());
    if mask & (DGID | DLID) == 0 {
        return None;
    }
    let (dgid, dlid) = (mad::gid(data, 8), mad::be16(data, 40));
    let there = |port: &&PortView| {
        port.active && (mask & DGID == 0 || port.gid == dgid) && (mask & DLID == 0 || port.lid == dlid)
    };
    let to = ports.iter().find(there)?;
    let shared = |pkey: u16| {
        let (one, other) = (from.pkey_for(pkey)?, to.pkey_for(pkey)?);
        may_talk(one, other).then_some(one)
    };
    let pkey = if mask & PKEY != 0 {
        let asked = mad::be16(data, 50);
        shared(asked).map(|_| asked)
    } else {
        from.pkeys.iter().find_map(|pkey| shared(*pkey))
    }?;
    Some(Path {
        dgid: to.gid,
        sgid: from.gid,
        dlid: to.lid,
        slid: from.lid,
        pkey,
        mtu: from.mtu.min(to.mtu),
        rate: rate::slower(from.rate(), to.rate()),
        life: if from.lid == to.lid { 0 } else { PACKET_LIFE },
        tclass: 0,
        route: 0,
        reversible: true,
    })
}
