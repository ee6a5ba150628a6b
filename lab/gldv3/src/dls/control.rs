//! DLPI requests on an open stream (`DLD/dld_proto.c`, `DLS/dls.c`): everything inside the link's perimeter.

use std::sync::Arc;

use fakekernel::Errno;

use super::devnet::Devnets;
use super::stream::{IP_SAPS, Notified, Open};
use crate::address::LinkAddress;
use crate::mac::Note;
use crate::types::{DlpiError, Promiscuity};

/// What was the matter with an address (`proto_enabmulti_req`, `proto_setphysaddr_req`).
fn of_an_address(error: Errno) -> DlpiError {
    match error {
        Errno::EINVAL => DlpiError::BadAddress,
        Errno::ENOSPC => DlpiError::TooMany,
        other => DlpiError::System(other),
    }
}

impl Open {
    /// One more reason for the link to be active, unless the stream is passive.
    fn activate(&self) -> Result<(), Errno> {
        if self.stream.wants.lock().passive {
            return Ok(());
        }
        let first = self.stream.wants.lock().activations == 0;
        if first {
            // Activation errors other than ENXIO are told as EBUSY.
            self.link.activate().map_err(|e| if e == Errno::ENXIO { e } else { Errno::EBUSY })?;
        }
        self.stream.wants.lock().activations += 1;
        Ok(())
    }

    fn deactivate(&self) {
        let last = {
            let mut wants = self.stream.wants.lock();
            if wants.activations == 0 {
                return;
            }
            wants.activations -= 1;
            wants.activations == 0
        };
        if last {
            self.link.deactivate();
        }
    }

    pub(crate) fn bind(&self, sap: u32) -> Result<(), DlpiError> {
        let _inside = self.link.mac.perimeter.enter();
        if self.stream.wants.lock().bound.is_some() {
            return Err(DlpiError::OutOfState);
        }
        self.activate().map_err(DlpiError::System)?;
        let key = self.link.mac.plugin.bind_sap(&self.link.mac.kernel, sap);
        match key {
            Some(key) => {
                self.stream.wants.lock().bound = Some((sap, key));
                Ok(())
            }
            None => {
                self.deactivate();
                Err(DlpiError::BadAddress)
            }
        }
    }

    pub(crate) fn unbind(&self) -> Result<(), DlpiError> {
        let _inside = self.link.mac.perimeter.enter();
        {
            let mut wants = self.stream.wants.lock();
            wants.bound.take().ok_or(DlpiError::OutOfState)?;
            wants.bypass = false;
            wants.raw = false;
        }
        self.deactivate();
        Ok(())
    }

    /// `DL_PASSIVE_REQ`.
    pub(crate) fn make_passive(&self) -> Result<(), DlpiError> {
        let mut wants = self.stream.wants.lock();
        if wants.activations > 0 {
            return Err(DlpiError::OutOfState);
        }
        wants.passive = true;
        Ok(())
    }

    /// `DL_SET_PHYS_ADDR_REQ`.
    pub(crate) fn set_address(&self, address: LinkAddress) -> Result<(), DlpiError> {
        self.link.mac.set_address(address).map_err(of_an_address)
    }

    pub(crate) fn enable_bypass(&self) -> Result<(), Errno> {
        let _inside = self.link.mac.perimeter.enter();
        let mut wants = self.stream.wants.lock();
        if wants.raw || wants.bound.is_none_or(|(sap, _)| sap != IP_SAPS[0]) {
            return Err(Errno::EINVAL);
        }
        wants.bypass = true;
        Ok(())
    }

    pub(crate) fn set_raw(&self) -> Result<(), Errno> {
        let _inside = self.link.mac.perimeter.enter();
        let mut wants = self.stream.wants.lock();
        if wants.bypass {
            return Err(Errno::EPROTO);
        }
        wants.raw = true;
        Ok(())
    }

    pub(crate) fn enable_group(&self, group: LinkAddress) -> Result<(), DlpiError> {
        let mac = &self.link.mac;
        let _inside = mac.perimeter.enter();
        let (known, first) = {
            let wants = self.stream.wants.lock();
            (wants.groups.contains_key(&group), wants.groups.is_empty())
        };
        if known {
            return Ok(());
        }
        if first {
            self.activate().map_err(DlpiError::System)?;
        }
        let inactive = self.link.state.lock().activations == 0;
        let added = if inactive {
            // Nobody has the address, so there is nothing the group could hang off: the driver hears nothing of it.
            mac.plugin.is_group(&mac.kernel, &group).then_some(()).ok_or(Errno::EINVAL)
        } else {
            mac.add_group(group)
        };
        match added {
            Ok(()) => {
                self.stream.wants.lock().groups.insert(group, !inactive);
                Ok(())
            }
            Err(error) => {
                if first {
                    self.deactivate();
                }
                Err(of_an_address(error))
            }
        }
    }

    pub(crate) fn disable_group(&self, group: LinkAddress) -> Result<(), DlpiError> {
        let _inside = self.link.mac.perimeter.enter();
        let counted = self.stream.wants.lock().groups.remove(&group).ok_or(DlpiError::NotEnabled)?;
        if counted {
            self.link.mac.remove_group(group);
        }
        if self.stream.wants.lock().groups.is_empty() {
            self.deactivate();
        }
        Ok(())
    }

    pub(crate) fn set_promiscuous(&self, level: Promiscuity, on: bool) -> Result<(), DlpiError> {
        let _inside = self.link.mac.perimeter.enter();
        let before = self.stream.wants.lock().promiscuous.clone();
        if before.contains(&level) == on {
            return if on { Ok(()) } else { Err(DlpiError::NotEnabled) };
        }
        let done =
            if on { self.promiscuous_on(level, before.is_empty()) } else { self.promiscuous_off(level) };
        done.map_err(DlpiError::System)
    }

    /// A level other than SAP makes the device promiscuous; any level needs it running.
    fn promiscuous_on(&self, level: Promiscuity, first: bool) -> Result<(), Errno> {
        if first {
            self.activate()?;
            if let Err(error) = self.link.mac.start() {
                self.deactivate();
                return Err(error);
            }
        }
        let device = self.needs_device(Some(level));
        if device
            && !self.needs_device(None)
            && let Err(error) = self.link.mac.set_promiscuous(true)
        {
            if first {
                self.link.mac.stop();
                self.deactivate();
            }
            return Err(error);
        }
        self.stream.wants.lock().promiscuous.insert(level);
        Ok(())
    }

    fn promiscuous_off(&self, level: Promiscuity) -> Result<(), Errno> {
        let needed = self.needs_device(None);
        self.stream.wants.lock().promiscuous.remove(&level);
        if needed && !self.needs_device(None) {
            self.link.mac.set_promiscuous(false)?;
        }
        if self.stream.wants.lock().promiscuous.is_empty() {
            self.link.mac.stop();
            self.deactivate();
        }
        Ok(())
    }

    /// Whether the levels that are on, and `more`, need the device promiscuous.
    fn needs_device(&self, more: Option<Promiscuity>) -> bool {
        let wants = self.stream.wants.lock();
        wants.promiscuous.iter().copied().chain(more).any(|level| level != Promiscuity::Sap)
    }

    /// `DL_NOTIFY_REQ`: from now on, and at once for the state as it is, of each kind (`dld_str_notify_ind`).
    pub(crate) fn notify(&self, notified: Notified) {
        self.set_notified(notified);
        for note in Note::ALL.into_iter().filter(|note| *note != Note::Tx) {
            if let Some(notification) = self.link.translated(note) {
                self.stream.notify(notification);
            }
        }
    }

    /// `dls_close`, in its order: groups, the datapath, the SAP, promiscuity, the start count.
    fn close(&self) {
        let link = &self.link;
        let _inside = link.mac.perimeter.enter();
        let groups = std::mem::take(&mut self.stream.wants.lock().groups);
        for (group, counted) in groups {
            if counted {
                link.mac.remove_group(group);
            }
        }
        let active = {
            let mut wants = self.stream.wants.lock();
            std::mem::take(&mut wants.activations) > 0
        };
        if active {
            link.deactivate();
        }
        self.stream.wants.lock().bound = None;
        let needed = self.needs_device(None);
        let promiscuous = !std::mem::take(&mut self.stream.wants.lock().promiscuous).is_empty();
        if needed {
            // The stream closes whatever the driver answers.
            let _ = link.mac.set_promiscuous(false);
        }
        if promiscuous {
            link.mac.stop();
        }
        link.state.lock().streams.retain(|stream| !Arc::ptr_eq(stream, &self.stream));
        link.mac.is_legacy();
        link.mac.stop();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let kernel = self.link.mac.kernel.clone();
        if kernel.machine().is_stopping() {
            return;
        }
        kernel.scope(|| self.close());
        Devnets::of(&kernel).release(self.link.id);
    }
}
