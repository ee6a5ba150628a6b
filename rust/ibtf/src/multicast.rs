//! Multicast groups at the subnet administrator (`ibt_join_mcg` and friends).

use core::ptr::{self, NonNull};

use illumos_sys_hdrs as sys;

use crate::address::{AddressVector, Gid};
use crate::status::Status;

/// What kind of member one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// Sends and receives; keeps the group alive.
    Full,
    /// Receives as long as others keep the group alive.
    NonMember,
    /// Only sends; does not keep the group alive.
    SendOnlyNonMember,
}

impl JoinState {
    /// The bit in a join.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::NonMember => 2,
            Self::SendOnlyNonMember => 4,
        }
    }
}

/// What a join or query says of an MTU or a rate, by its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<T> {
    /// This one alone.
    Exactly(T),
    /// A smaller one. A group that is created by this gets the largest of them that the SA lets the port have.
    LessThan(T),
}

impl<T> Wanted<T> {
    fn raw(self) -> (T, sys::ibt_selector_e) {
        match self {
            Self::Exactly(code) => (code, sys::IBT_EQU),
            Self::LessThan(code) => (code, sys::IBT_LT),
        }
    }
}

/// What a join or query says; `None` and zero are "not specified". With a GID that does not exist yet, a join that
/// specifies P_Key, Q_Key, MTU, rate, SL, flow and traffic class creates the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McgAttributes {
    /// The group.
    pub mgid: Gid,
    /// The member; zero for the port asked from.
    pub port_gid: Gid,
    /// Q_Key.
    pub qkey: u32,
    /// P_Key, full member bit included.
    pub pkey: u16,
    /// MTU, by its code 1 to 5.
    pub mtu: Option<Wanted<u8>>,
    /// Rate.
    pub rate: Option<Wanted<u32>>,
    /// Service level.
    pub sl: u8,
    /// Flow label.
    pub flow: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope: 2 link-local, 5, 8, 0xE global.
    pub scope: u8,
    /// What kind of member.
    pub join_state: Option<JoinState>,
}

impl McgAttributes {
    fn raw(&self) -> sys::ibt_mcg_attr_t {
        let mut raw = sys::ibt_mcg_attr_t {
            mc_mgid: self.mgid.raw(),
            mc_pgid: self.port_gid.raw(),
            mc_qkey: self.qkey,
            mc_pkey: self.pkey,
            mc_hop: self.hop_limit,
            mc_tclass: self.tclass,
            ..Default::default()
        };
        if let Some((code, r_selector)) = self.mtu.map(Wanted::raw) {
            raw.mc_mtu_req = sys::ibt_mtu_req_t { r_mtu: sys::ib_mtu_t(code.into()), r_selector };
        }
        if let Some((code, r_selector)) = self.rate.map(Wanted::raw) {
            raw.mc_rate_req = sys::ibt_srate_req_t { r_srate: sys::ibt_srate_e(code), r_selector };
        }
        raw.set_mc_flow(self.flow & 0xf_ffff);
        raw.set_mc_sl(self.sl & 0xf);
        raw.set_mc_scope(self.scope & 0xf);
        raw.set_mc_join_state(self.join_state.map_or(0, JoinState::bits));
        raw
    }
}

/// A group as the subnet administrator describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McgInfo {
    /// How to reach it: `dgid` is the group, `dlid` its multicast LID; always with a GRH.
    pub address: AddressVector,
    /// MTU code, 1 to 5.
    pub mtu_code: u8,
    /// Q_Key.
    pub qkey: u32,
    /// Index of the group's P_Key in the port's table; 0 also if it was not found there.
    pub pkey_index: u16,
    /// Scope.
    pub scope: u8,
}

impl McgInfo {
    pub(crate) fn raw(&self) -> sys::ibt_mcg_info_t {
        let mut raw = sys::ibt_mcg_info_t {
            mc_adds_vect: self.address.raw(),
            mc_mtu: sys::ib_mtu_t(self.mtu_code.into()),
            mc_qkey: self.qkey,
            mc_pkey_ix: self.pkey_index,
            ..Default::default()
        };
        raw.set_mc_scope(self.scope & 0xf);
        raw
    }

    fn from_raw(raw: &sys::ibt_mcg_info_t) -> Self {
        Self {
            address: AddressVector::from_raw(&raw.mc_adds_vect),
            mtu_code: raw.mc_mtu.0 as u8,
            qkey: raw.mc_qkey,
            pkey_index: raw.mc_pkey_ix,
            scope: raw.mc_scope(),
        }
    }
}

/// Joins a group from the port with GID `port` and waits for the answer. **May block**, for minutes.
pub fn join(port: Gid, attributes: &McgAttributes) -> Result<McgInfo, Status> {
    let mut attributes = attributes.raw();
    let mut info = sys::ibt_mcg_info_t::default();
    // SAFETY: both records are there until the call, which waits, returns.
    Status::check(unsafe {
        sys::ibt_join_mcg(port.raw(), &mut attributes, &mut info, None, ptr::null_mut())
    })?;
    Ok(McgInfo::from_raw(&info))
}

/// Leaves a group that was joined as `join_state`. The last leave of a port asks the subnet administrator:
/// **may block**, for minutes. A failure is not retried by anybody.
pub fn leave(port: Gid, mgid: Gid, join_state: JoinState) -> Result<(), Status> {
    // SAFETY: plain numbers.
    Status::check(unsafe {
        sys::ibt_leave_mcg(port.raw(), mgid.raw(), Gid::default().raw(), join_state.bits())
    })
}

/// Takes one join of a port from IBTF's own count and asks no SA, whatever the subnet administrator has: for a port that the driver has no more business
/// with. `ibt_leave_mcg` counts before it looks for the port to ask by, and no port has the GID that it is given here (`ibcm_ti.c`). **May block**, for
/// no answer.
pub fn forget_join(port: Gid, mgid: Gid, join_state: JoinState) {
    // A port's GID is no multicast GID.
    let absent = Gid { prefix: 0xff00 << 48, guid: 1 };
    // SAFETY: plain numbers. No port has the GID, so no SA is asked.
    let _ = unsafe { sys::ibt_leave_mcg(absent.raw(), mgid.raw(), port.raw(), join_state.bits()) };
}

/// Asks for groups that match, at most `max` (0 for all). No match is `MCG_RECORDS_NOT_FOUND`. **May block**, for
/// minutes.
pub fn query(port: Gid, attributes: &McgAttributes, max: u32) -> Result<McgList, Status> {
    let mut attributes = attributes.raw();
    let (mut list, mut count) = (ptr::null_mut(), 0);
    // SAFETY: the answer is ours to free.
    Status::check(unsafe { sys::ibt_query_mcg(port.raw(), &mut attributes, max, &mut list, &mut count) })?;
    let list = NonNull::new(list).ok_or(Status::MCG_RECORDS_NOT_FOUND)?;
    Ok(McgList { list, count })
}

/// The answer to a query.
pub struct McgList {
    list: NonNull<sys::ibt_mcg_info_t>,
    count: sys::uint_t,
}

impl McgList {
    /// The groups.
    pub fn iter(&self) -> impl Iterator<Item = McgInfo> + '_ {
        // SAFETY: ours until dropped, with so many entries.
        let list = unsafe { core::slice::from_raw_parts(self.list.as_ptr(), self.count as usize) };
        list.iter().map(McgInfo::from_raw)
    }
}

impl Drop for McgList {
    fn drop(&mut self) {
        // SAFETY: list and count are those of the query, freed once.
        unsafe { sys::ibt_free_mcg_info(self.list.as_ptr(), self.count) };
    }
}

#[cfg(test)]
mod tests {
    use super::{JoinState, McgAttributes, McgInfo};
    use crate::Gid;

    #[test]
    fn group_description_survives_the_round_trip() {
        let mut info = McgInfo { mtu_code: 4, qkey: 0xb1b, pkey_index: 3, scope: 0xe, ..Default::default() };
        info.address.dgid = Gid { prefix: 0xff12_401b_ffff_0000, guid: 0xffff_ffff };
        info.address.dlid = 0xc000;
        assert_eq!(McgInfo::from_raw(&info.raw()), info);
    }

    #[test]
    fn neighbouring_bit_fields_do_not_disturb_each_other() {
        let raw = McgAttributes {
            sl: 0xf,
            scope: 0x2,
            flow: 0xf_ffff,
            hop_limit: 0x55,
            join_state: Some(JoinState::SendOnlyNonMember),
            ..Default::default()
        }
        .raw();
        assert_eq!((raw.mc_sl(), raw.mc_scope(), raw.mc_join_state()), (0xf, 2, 4));
        assert_eq!((raw.mc_flow(), raw.mc_hop), (0xf_ffff, 0x55));
    }
}
