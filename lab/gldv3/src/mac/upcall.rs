//! What drivers call: packets, link state, addresses, sizes (`M/mac_provider.c`).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fakekernel::mem::Mem;
use fakekernel::{Cx, Errno, Export, Rule, cx, export, race};
use illumos_sys_hdrs::{
    link_state_t, mac_handle_t, mac_perim_handle_t, mac_resource_handle_t, mac_ring_handle_t, mblk_t, uint_t,
};

use super::driver::digits;
use super::perimeter::Entered;
use super::{Mac, Note, Ring, mac_of};
use crate::address::LinkAddress;
use crate::message::Messages;
use crate::types::LinkState;

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UKS: mac_rx, mac_rx_ring, mac_tx_update, mac_tx_ring_update, mac_link_update, mac_maxsdu_update, mac_maxsdu_update2,
            mac_capab_update, mac_sdu_get, mac_sdu_get2, mac_addr_len, mac_type, mac_nativetype;
        UK: mac_unicst_update, mac_dst_update, mac_pdata_update, mac_perim_enter_by_mh, mac_perim_exit;
    }
}

/// While it lives, a thread of the driver is inside an upcall.
struct Upcall<'a>(&'a Mac);

impl<'a> Upcall<'a> {
    fn new(cx: &Cx, mac: &'a Mac) -> Self {
        mac.not_in_ring_call(cx);
        mac.upcalls.fetch_add(1, Ordering::AcqRel);
        Self(mac)
    }
}

impl Drop for Upcall<'_> {
    fn drop(&mut self) {
        self.0.upcalls.fetch_sub(1, Ordering::AcqRel);
    }
}

unsafe extern "C" fn mac_rx(handle: mac_handle_t, ring: mac_resource_handle_t, chain: *mut mblk_t) {
    let cx = cx();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let _upcall = Upcall::new(&cx, &mac);
    // By mac_rx_ring a ring that is stopped has a rule of its own.
    cx.check(mac.state.lock().running, Rule::PacketsAfterStop, || format!("{} is not started", mac.name));
    receive(&cx, &mac, ring.cast(), None, chain);
}

unsafe extern "C" fn mac_rx_ring(
    handle: mac_handle_t,
    ring: mac_ring_handle_t,
    chain: *mut mblk_t,
    generation: u64,
) {
    let cx = cx();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let _upcall = Upcall::new(&cx, &mac);
    receive(&cx, &mac, ring, Some(generation), chain);
}

fn receive(cx: &Cx, mac: &Mac, ring: mac_ring_handle_t, generation: Option<u64>, chain: *mut mblk_t) {
    let genunix = cx.kernel().genunix();
    let messages = Messages { cx, genunix: &genunix };
    if let Some(counting) = mac.counting.lock().clone() {
        let (packets, bytes) = genunix.consume_chain(cx, chain);
        return counting.received(packets, bytes);
    }
    let received = messages.take(chain, "mac_rx");
    for message in &received {
        let kind = genunix.message_type(cx, message.raw());
        cx.check(kind == 0, Rule::BadMessagePointers, || format!("mac_rx of a message of type {kind:#x}"));
    }
    // Without a ring packets take the way of those that only the host can tell apart.
    let ring = if ring.is_null() { None } else { mac.ring_of(cx, ring) };
    if ring.as_ref().is_some_and(|ring| !ring.takes(cx, generation)) {
        return messages.free_all(received);
    }
    let client = mac.client.lock().clone();
    match client {
        Some(client) => client.receive(&messages, received, ring.map(|ring| ring.index)),
        None => messages.free_all(received),
    }
}

unsafe extern "C" fn mac_tx_update(handle: mac_handle_t) {
    let cx = cx();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let _upcall = Upcall::new(&cx, &mac);
    race::release(mac.key());
    transmit_update(&cx, &mac, None);
}

unsafe extern "C" fn mac_tx_ring_update(handle: mac_handle_t, ring: mac_ring_handle_t) {
    let cx = cx();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let _upcall = Upcall::new(&cx, &mac);
    race::release(mac.key());
    let ring = if ring.is_null() { None } else { mac.ring_of(&cx, ring) };
    transmit_update(&cx, &mac, ring.as_ref());
}

fn transmit_update(cx: &Cx, mac: &Mac, ring: Option<&Arc<Ring>>) {
    if mac.state.lock().disabled {
        return;
    }
    if let Some(counting) = mac.counting.lock().clone() {
        counting.update();
    }
    let client = mac.client.lock().clone();
    let woken = client.is_none_or(|client| client.woken_up(ring));
    if !woken {
        // With transmit rings each is woken by its name.
        cx.note(
            Rule::AbsurdArgument,
            format!("nobody on {} waits for an update of this ring, or of none", mac.name),
        );
    }
}

unsafe extern "C" fn mac_link_update(handle: mac_handle_t, state: link_state_t) {
    let cx = cx();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    mac.not_in_ring_call(&cx);
    let known = match state.0 {
        1 => LinkState::Up,
        0 => LinkState::Down,
        _ => LinkState::Unknown,
    };
    cx.check((-1..=1).contains(&state.0), Rule::AbsurdArgument, || format!("link state {}", state.0));
    mac.told(|| format!("mac_link_update({})", state.0));
    mac.state.lock().low_state = known;
    mac.post(Note::LowLink);
}

/// # Safety
///
/// `address` has the plugin's length of readable bytes.
unsafe fn read(mac: &Mac, address: *const u8) -> LinkAddress {
    let mut bytes = [0; 20];
    // SAFETY: by contract.
    unsafe { Mem::of(address, mac.plugin.addrlen.min(20)) }.copy_to(&mut bytes);
    LinkAddress(bytes)
}

unsafe extern "C" fn mac_unicst_update(handle: mac_handle_t, address: *const u8) {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    // SAFETY: mac_unicst_update(9F): an address.
    let address = unsafe { read(&mac, address) };
    mac.told(|| format!("mac_unicst_update({})", digits(&address)));
    let _inside = mac.perimeter.enter();
    let before = std::mem::replace(&mut mac.state.lock().address, address);
    // Every stream is told all the same, and IP takes all its addresses down and up again (`ip_if.c:ill_set_phys_addr`).
    cx.check(before != address, Rule::AbsurdArgument, || {
        format!("{}: mac_unicst_update with the address it has", mac.name)
    });
    mac.post(Note::Unicst);
}

unsafe extern "C" fn mac_perim_enter_by_mh(handle: mac_handle_t, entered: *mut mac_perim_handle_t) {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let inside = Box::new(Entered::new(mac));
    // SAFETY: the caller's place for it.
    unsafe { entered.write(Box::into_raw(inside).cast()) };
}

unsafe extern "C" fn mac_perim_exit(entered: mac_perim_handle_t) {
    // SAFETY: given out by `mac_perim_enter_by_mh`, which a driver undoes once.
    drop(unsafe { Box::from_raw(entered.cast::<Entered>()) });
}

unsafe extern "C" fn mac_dst_update(handle: mac_handle_t, _address: *const u8) {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let _inside = mac.perimeter.enter();
    mac.post(Note::Dest);
}

impl Mac {
    /// Writes down what the driver says, in the words of `metal run --calls`.
    pub(super) fn told(&self, call: impl FnOnce() -> String) {
        self.kernel.journal(|| format!("{} {}", self.name, call()));
    }

    /// Changes the sizes; with no multicast size, that is lowered to the maximum if need be.
    pub(super) fn update_sdu(&self, max: u32, multicast: Option<u32>) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if max == 0 || max < state.min_sdu || multicast.is_some_and(|m| m > max || m < state.min_sdu) {
            return Err(Errno::EINVAL);
        }
        state.max_sdu = max;
        state.multicast_sdu = multicast.unwrap_or(state.multicast_sdu).min(max);
        drop(state);
        self.post(Note::SduSize);
        Ok(())
    }
}

fn code(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|error| error.0, |()| 0)
}

unsafe extern "C" fn mac_maxsdu_update(handle: mac_handle_t, max: uint_t) -> c_int {
    let cx = cx();
    mac_of(&cx, handle).map_or(Errno::EINVAL.0, |mac| code(mac.update_sdu(max, None)))
}

unsafe extern "C" fn mac_maxsdu_update2(handle: mac_handle_t, max: uint_t, multicast: uint_t) -> c_int {
    let cx = cx();
    let Some(mac) = mac_of(&cx, handle) else { return Errno::EINVAL.0 };
    mac.told(|| format!("mac_maxsdu_update2({max}, {multicast})"));
    let multicast = if multicast == 0 { max } else { multicast };
    let result = mac.update_sdu(max, Some(multicast));
    if result.is_err() {
        // Who ignores the result keeps the old sizes, which may be wrong for good.
        cx.note(
            Rule::AbsurdArgument,
            format!("{}: SDU of {max} with {multicast} for groups refused", mac.name),
        );
    }
    code(result)
}

unsafe extern "C" fn mac_capab_update(handle: mac_handle_t) {
    let cx = cx();
    cx.no_locks();
    if let Some(mac) = mac_of(&cx, handle) {
        mac.told(|| "mac_capab_update()".to_owned());
        mac.post(Note::CapabChg);
    }
}

unsafe extern "C" fn mac_pdata_update(handle: mac_handle_t, _data: *mut c_void, _size: usize) -> c_int {
    let cx = cx();
    // No plugin of the lab's takes plugin data.
    mac_of(&cx, handle).map_or(Errno::EINVAL.0, |_| Errno::EINVAL.0)
}

unsafe extern "C" fn mac_sdu_get(handle: mac_handle_t, min: *mut uint_t, max: *mut uint_t) {
    // SAFETY: the caller's contract is the callee's, with one place less.
    unsafe { mac_sdu_get2(handle, min, max, ptr::null_mut()) };
}

unsafe extern "C" fn mac_sdu_get2(
    handle: mac_handle_t,
    min: *mut uint_t,
    max: *mut uint_t,
    multicast: *mut uint_t,
) {
    let cx = cx();
    let Some(mac) = mac_of(&cx, handle) else { return };
    let sizes = {
        let state = mac.state.lock();
        [(min, state.min_sdu), (max, state.max_sdu), (multicast, state.multicast_sdu)]
    };
    for (place, size) in sizes {
        if !place.is_null() {
            // SAFETY: mac_sdu_get: each place is null or writable.
            unsafe { place.write(size) };
        }
    }
}

unsafe extern "C" fn mac_addr_len(handle: mac_handle_t) -> uint_t {
    let cx = cx();
    mac_of(&cx, handle).map_or(0, |mac| mac.plugin.addrlen as uint_t)
}

unsafe extern "C" fn mac_type(handle: mac_handle_t) -> c_int {
    let cx = cx();
    mac_of(&cx, handle).map_or(0, |mac| mac.plugin.mactype as c_int)
}

unsafe extern "C" fn mac_nativetype(handle: mac_handle_t) -> c_int {
    let cx = cx();
    mac_of(&cx, handle).map_or(0, |mac| mac.plugin.mactype as c_int)
}
