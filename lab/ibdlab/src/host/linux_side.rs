//! The namespace of a host whose link Linux's programs use, and the thread that reads its TUN device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use fakekernel::{Machine, OutsideWaker};
use smoltcp::wire::IpCidr;

use crate::linux::{BUFFER, Namespace, Tun};
use crate::words::complain;

/// How soon the reader notices that it shall end, and what the interface is now.
const POLL: Duration = Duration::from_millis(50);
/// Interface names are at most 15 bytes; a namespace of `ibdlab run` has one device of ours.
const DEVICE: &str = "ibd0";
/// Longest name of a device.
pub const DEVICE_NAME: usize = 15;

/// See the module's documentation. Everything goes when it is dropped.
pub struct LinuxSide {
    pub namespace: Arc<Namespace>,
    pub tun: Arc<Tun>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    /// The reader wakes threads of the machine, so everybody waiting is no hang.
    _waker: OutsideWaker,
}

impl LinuxSide {
    /// A namespace for `host` with its device.
    pub fn create(host: &str, addresses: &[IpCidr], mtu: usize, machine: &Machine) -> Result<Self> {
        Self::inside(Arc::new(Namespace::create(host)?), DEVICE, addresses, mtu, machine)
    }

    /// A device of that name in a namespace that is there.
    pub fn inside(
        namespace: Arc<Namespace>,
        device: &str,
        addresses: &[IpCidr],
        mtu: usize,
        machine: &Machine,
    ) -> Result<Self> {
        let tun = Arc::new(Tun::create(&namespace, device, addresses, mtu)?);
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Self { namespace, tun, stop, reader: None, _waker: machine.outside_waker() })
    }

    /// Starts reading: each packet goes to `sender` with its virtio header, then `wake` is called. The device follows the interface.
    pub fn read(&mut self, sender: Sender<Vec<u8>>, wake: impl Fn() + Send + 'static) {
        let (tun, stop, namespace) = (self.tun.clone(), self.stop.clone(), self.namespace.clone());
        self.reader = Some(std::thread::spawn(move || {
            let mut buffer = vec![0; BUFFER];
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = tun.follow(&namespace) {
                    complain(&format!("{error:#}"));
                }
                match tun.receive(&mut buffer, POLL) {
                    Ok(Some(len)) if sender.send(buffer[..len].to_vec()).is_ok() => wake(),
                    Ok(None) => {}
                    // The device or the IP layer is gone.
                    Ok(Some(_)) | Err(_) => return,
                }
            }
        }));
    }

    /// Has the device be what the interface is, without waiting for the reader.
    pub fn follow(&self) -> Result<()> {
        self.tun.follow(&self.namespace)
    }
}

impl Drop for LinuxSide {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
    }
}
