//! What clients ask of a mac inside its perimeter: references, start and stop, groups, promiscuity, the address.

use std::sync::Arc;

use fakekernel::Errno;
use illumos_sys_hdrs::mblk_t;

use super::{Mac, Note, Ring};
use crate::address::LinkAddress;

impl Mac {
    /// `mac_open`: a reference, and a hold on the device node.
    ///
    /// # Errors
    ///
    /// ENOENT on a disabled mac; what `mc_open` refused with.
    pub(crate) fn open(self: &Arc<Self>) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        let first = {
            let mut state = self.state.lock();
            if state.disabled {
                return Err(Errno::ENOENT);
            }
            state.references += 1;
            state.references == 1
        };
        if first && let Err(error) = self.call_open() {
            self.state.lock().references -= 1;
            return Err(error);
        }
        Ok(())
    }

    /// `mac_close`.
    pub(crate) fn close(&self) {
        let _inside = self.perimeter.enter();
        let last = {
            let mut state = self.state.lock();
            state.references -= 1;
            state.references == 0
        };
        if last {
            self.call_close();
        }
    }

    /// `mac_start`: one more user that needs it running.
    ///
    /// # Errors
    ///
    /// What `mc_start` refused with; there is no such user then.
    pub(crate) fn start(&self) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        let first = {
            let mut state = self.state.lock();
            state.active += 1;
            state.running = true;
            state.active == 1
        };
        // A driver whose ring does not start is left started: the C framework does not stop it either.
        if first && let Err(error) = self.call_start().and_then(|()| self.start_rings()) {
            let mut state = self.state.lock();
            state.active -= 1;
            state.running = false;
            return Err(error);
        }
        Ok(())
    }

    /// `mac_stop`: one user less.
    pub(crate) fn stop(&self) {
        let _inside = self.perimeter.enter();
        let last = {
            let mut state = self.state.lock();
            state.active -= 1;
            state.active == 0
        };
        if last {
            self.stop_rings();
            self.call_stop();
            self.state.lock().running = false;
        }
    }

    /// `mac_multicast_add`: the driver is told of the first user of a group.
    ///
    /// # Errors
    ///
    /// EINVAL when the plugin does not call it a group; what the driver refused with.
    pub(crate) fn add_group(&self, group: LinkAddress) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        if !self.plugin.is_group(&self.kernel, &group) {
            return Err(Errno::EINVAL);
        }
        let first = !self.state.lock().groups.contains_key(&group);
        if first {
            self.call_multicst(true, &group)?;
        }
        *self.state.lock().groups.entry(group).or_insert(0) += 1;
        Ok(())
    }

    /// `mac_multicast_remove`: the driver is told of the last user of a group; what it says to that is nobody's business.
    pub(crate) fn remove_group(&self, group: LinkAddress) {
        let _inside = self.perimeter.enter();
        let last = {
            let mut state = self.state.lock();
            match state.groups.get_mut(&group) {
                Some(1) => {
                    state.groups.remove(&group);
                    true
                }
                Some(users) => {
                    *users -= 1;
                    false
                }
                None => false,
            }
        };
        if last {
            // The framework forgets the group whatever the driver answers.
            let _ = self.call_multicst(false, &group);
        }
    }

    /// `i_mac_promisc_set`.
    ///
    /// # Errors
    ///
    /// EPROTO when it is off already; what the driver refused with.
    pub(crate) fn set_promiscuous(&self, on: bool) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        let count = self.state.lock().promiscuous;
        let (new, changes) = match (on, count) {
            (true, count) => (count + 1, count == 0),
            (false, 0) => return Err(Errno::EPROTO),
            (false, count) => (count - 1, count == 1),
        };
        if changes {
            self.call_setpromisc(on)?;
        }
        self.state.lock().promiscuous = new;
        if changes {
            self.post(Note::DevPromisc);
        }
        Ok(())
    }

    /// `mac_unicast_primary_set`.
    ///
    /// # Errors
    ///
    /// EINVAL when the plugin does not call it a unicast address; what the driver refused with.
    pub(crate) fn set_address(&self, address: LinkAddress) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        if !self.plugin.is_unicast(&self.kernel, &address) {
            return Err(Errno::EINVAL);
        }
        if self.state.lock().address == address {
            return Ok(());
        }
        self.program_address(&address)?;
        self.state.lock().address = address;
        self.post(Note::Unicst);
        Ok(())
    }
}

impl Mac {
    /// Tells the driver of another address: its group, if it has rings and the link is used, and the old one goes (`mac_update_macaddr`).
    fn program_address(&self, address: &LinkAddress) -> Result<(), Errno> {
        if self.rings().receive.is_empty() {
            return self.call_unicst(address);
        }
        let Some(programmed) = self.state.lock().programmed else { return Ok(()) };
        self.group_address(false, &programmed)?;
        if let Err(error) = self.group_address(true, address) {
            // What it had before it takes again.
            let _ = self.group_address(true, &programmed);
            return Err(error);
        }
        self.state.lock().programmed = Some(*address);
        Ok(())
    }

    /// The link is used: the group takes its address (`mac_add_macaddr`). One that is refused makes the device promiscuous. Inside
    /// the perimeter.
    ///
    /// # Errors
    ///
    /// What the driver answers to that.
    pub(crate) fn claim_address(&self) -> Result<(), Errno> {
        let address = self.state.lock().address;
        if self.rings().receive.is_empty() {
            return Ok(());
        }
        match self.group_address(true, &address) {
            Ok(()) => self.state.lock().programmed = Some(address),
            Err(_) => self.set_promiscuous(true)?,
        }
        Ok(())
    }

    /// Nobody uses the link any more (`mac_remove_macaddr`): its group is told the address that the link has now, whichever it took.
    pub(crate) fn release_address(&self) {
        if self.rings().receive.is_empty() {
            return;
        }
        let (address, programmed) = {
            let mut state = self.state.lock();
            (state.address, state.programmed.take())
        };
        // What the driver answers changes nothing.
        let _ = match programmed {
            Some(_) => self.group_address(false, &address),
            None => self.set_promiscuous(false),
        };
    }

    /// `mc_tx` of one message, or `mri_tx` of a ring.
    pub(crate) fn send(&self, message: *mut mblk_t, ring: Option<&Arc<Ring>>) -> *mut mblk_t {
        match ring {
            Some(ring) => self.call_ring_tx(ring, message),
            None => self.call_tx(message),
        }
    }
}
