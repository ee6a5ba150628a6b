//! The ports of the tests' subnets, and the records that IPoIB asks an administrator with.

use sm::partition::broadcast_mgid;
use sm::records::{McMemberRecord, PathRecord, path_mask};
use sm::*;

/// Ports of the subnets, by number.
pub const A: Guid = Guid(0x0002_c903_0000_1001);
pub const B: Guid = Guid(0x0002_c903_0000_1011);
pub const C: Guid = Guid(0x0002_c903_0000_1021);
/// A port nobody has.
pub const NOBODY: Guid = Guid(0xdead);

/// How fast a lane of a port signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    Sdr,
    Qdr,
    Edr,
}

/// What IBTF asks for one path.
pub const ONE_PATH: u64 =
    path_mask::DGID | path_mask::SGID | path_mask::REVERSIBLE | path_mask::NUMB_PATH | path_mask::P_KEY;

/// The IPoIB broadcast group of the default partition.
pub fn broadcast() -> Gid {
    broadcast_mgid(PKey::DEFAULT_FULL, 2)
}

/// An IPv4 group of the default partition.
pub fn ipv4(group: u64) -> Gid {
    Gid { prefix: 0xff12_401b_ffff_0000, guid: 0x0e00_0000 + group }
}

/// A join of `port` with the components that create an IPoIB group.
pub fn join(mgid: Gid, port: Guid) -> McMemberRecord {
    McMemberRecord {
        mgid,
        port_gid: gid(port),
        q_key: QKey::IPOIB,
        p_key: PKey::DEFAULT_FULL,
        scope: 2,
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    }
}

pub fn gid(port: Guid) -> Gid {
    Gid::of_port(Gid::DEFAULT_PREFIX, port)
}

/// A way from A in the default partition.
pub fn path(to: Gid) -> PathRecord {
    PathRecord {
        dgid: to,
        sgid: gid(A),
        reversible: true,
        numb_path: 1,
        p_key: PKey::DEFAULT_FULL,
        ..PathRecord::default()
    }
}
