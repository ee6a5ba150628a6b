//! [`PortInfo`]: a port as the adapter describes it (`ibt_hca_portinfo_t`).

use core::ptr::{self, NonNull};

use illumos_sys_hdrs as sys;

use crate::Gid;
use crate::hca::Hca;
use crate::status::Status;

/// A port's attributes at one moment, with its P_Key and GID tables.
pub struct PortInfo {
    raw: NonNull<sys::ibt_hca_portinfo_t>,
    size: sys::uint_t,
}

// SAFETY: plain memory of our own.
unsafe impl Send for PortInfo {}
// SAFETY: as above, only read.
unsafe impl Sync for PortInfo {}

/// The logical state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PortState {
    Down,
    Init,
    Armed,
    Active,
}

impl PortInfo {
    pub(crate) fn query(hca: &Hca, port: u8) -> Result<Self, Status> {
        if port == 0 {
            // To IBTF that is "all ports".
            return Err(Status::HCA_PORT_INVALID);
        }
        let (mut raw, mut count, mut size) = (ptr::null_mut(), 0, 0);
        // SAFETY: open; the answers are ours to free.
        Status::check(unsafe {
            sys::ibt_query_hca_ports(hca.handle(), port, &mut raw, &mut count, &mut size)
        })?;
        match NonNull::new(raw) {
            Some(raw) if count == 1 => Ok(Self { raw, size }),
            Some(raw) => {
                drop(Self { raw, size });
                Err(Status::HCA_PORT_INVALID)
            }
            None => Err(Status::HCA_PORT_INVALID),
        }
    }

    /// The logical state.
    pub fn state(&self) -> PortState {
        match self.info().p_linkstate {
            sys::IBT_PORT_ACTIVE => PortState::Active,
            sys::IBT_PORT_ARM => PortState::Armed,
            sys::IBT_PORT_INIT => PortState::Init,
            _ => PortState::Down,
        }
    }

    /// Base LID; 0 unless armed or active.
    pub fn base_lid(&self) -> u16 {
        self.info().p_opaque1
    }

    /// LID mask control: so many low bits of a LID are the port's to vary.
    pub fn lmc(&self) -> u8 {
        self.info().p_lmc()
    }

    /// LID of the subnet manager.
    pub fn sm_lid(&self) -> u16 {
        self.info().p_sm_lid
    }

    /// The MTU the port is capable of, code 1 (256) to 5 (4096). Not what the subnet manager has set.
    pub fn mtu_code(&self) -> u8 {
        self.info().p_mtu.0 as u8
    }

    /// Active link width, in lanes: 1, 2, 4, 8, 12; 0 if unknown.
    pub fn width(&self) -> u8 {
        match self.info().p_width_active {
            1 => 1,
            2 => 4,
            4 => 8,
            8 => 12,
            16 => 2,
            _ => 0,
        }
    }

    /// Active signalling rate of a lane, in bits per second; 0 if unknown, or if it has an extended code, which IBTF does not
    /// pass on.
    pub fn lane_speed(&self) -> u64 {
        match self.info().p_speed_active {
            1 => 2_500_000_000,
            2 => 5_000_000_000,
            4 => 10_000_000_000,
            _ => 0,
        }
    }

    /// Whether a lane may be faster than [`PortInfo::lane_speed`]: the codes that IBTF passes on end at 10 Gb/s.
    pub fn lane_speed_is_least(&self) -> bool {
        matches!(self.info().p_speed_active, 0 | 4)
    }

    /// What the subnet manager said about the initialisation it did; bit 2 (4): memberships were preserved.
    pub fn init_type_reply(&self) -> u8 {
        self.info().p_init_type_reply
    }

    /// The P_Key table; unused entries are 0.
    pub fn pkeys(&self) -> &[u16] {
        let info = self.info();
        if info.p_pkey_tbl.is_null() {
            return &[];
        }
        // SAFETY: the table is part of the block, with as many entries.
        unsafe { core::slice::from_raw_parts(info.p_pkey_tbl, usize::from(info.p_pkey_tbl_sz)) }
    }

    /// The GID table.
    pub fn gids(&self) -> impl Iterator<Item = Gid> + '_ {
        let info = self.info();
        let table = if info.p_sgid_tbl.is_null() {
            &[]
        } else {
            // SAFETY: the table is part of the block, with as many entries.
            unsafe { core::slice::from_raw_parts(info.p_sgid_tbl, info.p_sgid_tbl_sz as usize) }
        };
        table.iter().map(Gid::from_raw)
    }

    fn info(&self) -> &sys::ibt_hca_portinfo_t {
        // SAFETY: the block is ours until dropped, and nobody writes it.
        unsafe { self.raw.as_ref() }
    }
}

impl Drop for PortInfo {
    fn drop(&mut self) {
        // SAFETY: block and size are those of the query, freed once.
        unsafe { sys::ibt_free_portinfo(self.raw.as_ptr(), self.size) };
    }
}
