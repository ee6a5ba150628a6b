//! What happens to the style-1 node of an attached network driver: it becomes a link (`U/io/softmac`), here in the thread that
//! attached it.

use fakekernel::genunix::{AttachHook, DevInfo, Level};
use fakekernel::{Errno, Kernel, cx};

use super::devnet;
use super::management::{Class, Management};
use crate::mac::Macs;

/// The DACF rules of network drivers.
#[derive(Debug)]
pub(crate) struct Softmac;

impl AttachHook for Softmac {
    fn attached(&self, kernel: &Kernel, device: &DevInfo) {
        let Some(mac) = Macs::of(kernel).of_device(device) else { return };
        if mac.client.lock().is_some() {
            return;
        }
        let made = Management::of(kernel)
            .create(&mac.name, Class::Physical)
            .and_then(|id| kernel.scope(|| devnet::create(&mac, id, 0)));
        if let Err(error) = made {
            let text = format!("{}: no link: {error}", mac.name);
            kernel.scope(|| kernel.genunix().cmn_err(&cx(), Level::Warning, &text));
        }
    }

    fn detaching(&self, kernel: &Kernel, device: &DevInfo) -> Result<(), Errno> {
        let Some(mac) = Macs::of(kernel).of_device(device) else { return Ok(()) };
        match kernel.scope(|| devnet::destroy(&mac, false)) {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
