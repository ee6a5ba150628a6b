//! What clients ask of a mac inside its perimeter: references, start and stop, groups, promiscuity, the address.

use std::sync::Arc;

use fakekernel::Errno;

use super::{Mac, Note};
use crate::address::LinkAddress;

/// `EPROTO` of `sys/errno.h`.
pub(crate) const EPROTO: Errno = Errno(71);

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
        if first && let Err(error) = self.call_start() {
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
            (false, 0) => return Err(EPROTO),
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
        self.call_unicst(&address)?;
        self.state.lock().address = address;
        self.post(Note::Unicst);
        Ok(())
    }
}

impl Mac {
    /// `mc_tx` of one message.
    pub(crate) fn send(&self, message: *mut illumos_sys_hdrs::mblk_t) -> *mut illumos_sys_hdrs::mblk_t {
        self.call_tx(message)
    }
}
