//! HCAs that come and go (`ibtl_announce_new_hca`, `ibtl_detach_all_clients` and `ibc_pre_detach` of `io/ib/ibtl`).
//!
//! An HCA that is to go is told to the general clients that have it open, then to DM, then to the communication manager, then to IBMA.
//! Each of these steps ends the detach if a client that was told keeps the HCA. Then the HCA is there as before, and *every* client is
//! told that it is there: the clients that have closed it as well as the others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fakekernel::Kernel;
use illumos_sys_hdrs::{IBT_CM, IBT_DM, IBT_GENERIC, IBT_IBMA};

use super::attach::native_client;
use super::events::{tell_attached, tell_detached};
use super::objects::{Client, OpenHca, OpenState};
use super::{Device, Ibtl};

/// Makes an HCA known and tells every client. May block.
pub(crate) fn add_device(kernel: &Kernel, device: &Arc<Device>) {
    let ibtl = Ibtl::of(kernel);
    ibtl.devices.lock().insert(device.guid, device.clone());
    let hooks = ibtl.cm.lock().clone();
    if let Some(hooks) = hooks {
        hooks.hca_added(kernel, device);
    }
    tell_attached(kernel, device);
}

/// Tells the clients that an HCA goes, and forgets it if all let go of it. May block.
///
/// # Errors
/// Who keeps it. Then it stays as it was, and every client was told that it is there.
pub(crate) fn remove_device(kernel: &Kernel, device: &Arc<Device>) -> Result<(), Vec<String>> {
    *device.detaching.lock() = true;
    let hooks = Ibtl::of(kernel).cm.lock().clone();
    let gone = detach_clients(kernel, device, || {
        hooks.as_ref().map_or(Ok(()), |hooks| hooks.lets_go(device.guid).map_err(|keeps| vec![keeps]))
    });
    if gone.is_err() {
        *device.detaching.lock() = false;
        if let Some(hooks) = hooks {
            hooks.hca_stays(device.guid);
        }
        tell_attached(kernel, device);
    }
    gone
}

/// As [`remove_device`], of an HCA that is out of its place already. illumos has no such thing: nothing is told to clients if one of them
/// keeps it, and the communication manager does not wait for what it has asked.
///
/// # Errors
/// Who keeps it. Then it stays, closed to new opens.
pub(crate) fn remove_pulled(kernel: &Kernel, device: &Arc<Device>) -> Result<(), Vec<String>> {
    *device.detaching.lock() = true;
    let hooks = Ibtl::of(kernel).cm.lock().clone();
    if let Some(hooks) = &hooks {
        hooks.hca_pulled(device.guid);
    }
    detach_clients(kernel, device, || {
        hooks.and_then(|hooks| hooks.keeps(device.guid)).map_or(Ok(()), |keeps| Err(vec![keeps]))
    })
}

/// In the order of IBTL; `manager` is the communication manager's part.
fn detach_clients(
    kernel: &Kernel,
    device: &Arc<Device>,
    manager: impl FnOnce() -> Result<(), Vec<String>>,
) -> Result<(), Vec<String>> {
    let is = |class: u32| move |client: &Client| client.class == class;
    let general = |client: &Client| ![IBT_DM, IBT_CM, IBT_IBMA].iter().any(|class| class.0 == client.class);
    tell_and_look(kernel, device, general)?;
    tell_and_look(kernel, device, is(IBT_DM.0))?;
    tell_and_look(kernel, device, is(IBT_CM.0))?;
    manager()?;
    tell_and_look(kernel, device, is(IBT_IBMA.0))?;
    let ibtl = Ibtl::of(kernel);
    ibtl.devices.lock().remove(&device.guid);
    let hooks = ibtl.cm.lock().clone();
    if let Some(hooks) = hooks {
        hooks.hca_removed(kernel, device.guid);
    }
    Ok(())
}

/// Tells some clients, all at once, and looks whether they have closed the HCA.
fn tell_and_look(
    kernel: &Kernel,
    device: &Arc<Device>,
    concerns: impl Fn(&Client) -> bool,
) -> Result<(), Vec<String>> {
    let mut clients = Ibtl::of(kernel).clients.all();
    clients.retain(|client| concerns(client));
    tell_detached(kernel, device, clients.clone());
    // A client that could not close it because of what the adapter keeps has done what it can.
    clients.retain(|client| {
        !client.left.load(Ordering::Acquire) && client.opens.lock().contains_key(&device.guid)
    });
    if clients.is_empty() { Ok(()) } else { Err(clients.iter().map(|client| client.name.clone()).collect()) }
}

/// A client of the lab's own that has an HCA open and closes it for nothing, as a target driver or a process with verbs does; until it is dropped.
pub(crate) struct Keeper {
    kernel: Kernel,
    client: Arc<Client>,
    handle: *mut std::ffi::c_void,
}

impl Keeper {
    pub(crate) fn open(kernel: &Kernel, device: &Arc<Device>) -> Self {
        let ibtl = Ibtl::of(kernel);
        let client = native_client("keeper", IBT_GENERIC.0);
        let handle = ibtl.clients.insert_arc(client.clone());
        let open = Arc::new(OpenHca::new(client.clone(), device.clone()));
        client.opens.lock().insert(device.guid, OpenState::Open(open));
        Self { kernel: kernel.clone(), client, handle }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.client.opens.lock().clear();
        let _ = Ibtl::of(&self.kernel).clients.remove(self.handle);
    }
}
