//! Paths to ports and groups (`ibt_get_paths`).

use illumos_sys_hdrs as sys;
use kernel::KBox;

use crate::address::{AddressVector, Gid};
use crate::client::Client;
use crate::status::Status;

/// From where to where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRequest {
    /// The source port's GID.
    pub sgid: Gid,
    /// The destination: a port's GID, or a group's.
    pub dgid: Gid,
    /// Only with this P_Key, all 16 bits.
    pub pkey: Option<u16>,
    /// At least of this MTU, as its code.
    pub min_mtu_code: Option<u8>,
}

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// How to get there. Without a GRH inside the subnet, with one to a group.
    pub address: AddressVector,
    /// Index of the path's P_Key in the port's table.
    pub pkey_index: u16,
    /// MTU code, 1 to 5.
    pub mtu_code: u8,
    /// How long a packet lives: 4.096 us times 2 to this power.
    pub packet_lifetime: u8,
}

impl PathInfo {
    fn from_raw(raw: &sys::ibt_path_info_t) -> Self {
        let path = &raw.pi_prim_cep_path;
        Self {
            address: AddressVector::from_raw(&path.cep_adds_vect),
            pkey_index: path.cep_pkey_ix,
            mtu_code: raw.pi_path_mtu.0 as u8,
            packet_lifetime: raw.pi_prim_pkt_lt,
        }
    }
}

impl PathRequest {
    /// For C, which gets the destination by pointer.
    fn raw(&self, destination: &mut sys::ib_gid_t) -> (sys::ibt_path_flags_t, sys::ibt_path_attr_t) {
        *destination = self.dgid.raw();
        let mut raw = sys::ibt_path_attr_t {
            pa_dgids: destination,
            pa_num_dgids: 1,
            pa_sgid: self.sgid.raw(),
            pa_pkey: self.pkey.unwrap_or_default(),
            ..Default::default()
        };
        if let Some(code) = self.min_mtu_code.and_then(|code| code.checked_sub(1)) {
            raw.pa_mtu = sys::ibt_mtu_req_t { r_mtu: sys::ib_mtu_t(code.into()), r_selector: sys::IBT_GT };
        }
        let flags = if self.pkey.is_some() { sys::IBT_PATH_PKEY } else { sys::IBT_PATH_NO_FLAGS };
        (flags, raw)
    }
}

/// As many paths as the SA is asked for; the first is taken. ibcm answers a question for one path from its memory, for a minute, and an answer that the
/// SA gave before the subnet changed can come into it after ibcm has forgotten the others. A question for two always goes to the SA.
const ASKED_FOR: u8 = 2;

impl Client {
    /// Asks the SA for a path and waits. `PATH_RECORDS_NOT_FOUND` if there is none. **May block**, for minutes.
    pub fn path(&self, request: &PathRequest) -> Result<PathInfo, Status> {
        let mut destination = Default::default();
        let (flags, attributes) = request.raw(&mut destination);
        let mut attributes = KBox::new(attributes)?;
        let mut paths = KBox::new([sys::ibt_path_info_t::default(); ASKED_FOR as usize])?;
        let (first, mut count) = (paths.as_mut_ptr(), 0);
        // SAFETY: attached; the records are there until the call, which waits, returns, with room for as many paths.
        let result = unsafe {
            sys::ibt_get_paths(self.handle(), flags, &mut *attributes, ASKED_FOR, first, &mut count)
        };
        match Status::check(result) {
            Ok(()) | Err(Status::INSUFF_DATA) if count != 0 => Ok(PathInfo::from_raw(&paths[0])),
            Ok(()) => Err(Status::PATH_RECORDS_NOT_FOUND),
            Err(status) => Err(status),
        }
    }
}
