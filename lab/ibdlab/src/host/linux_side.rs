//! The namespace of a host whose link Linux's programs use, and the thread that reads its TUN device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use fakekernel::{Machine, OutsideWaker};
use smoltcp::wire::IpCidr;

use crate::linux::{Namespace, Tun};

/// Longest packet a TUN device with our MTU can hand over.
const PACKET: usize = 65_536;
/// How soon the reader notices that it shall end.
const POLL: Duration = Duration::from_millis(50);
/// Interface names are at most 15 bytes; a namespace has one device of ours.
const DEVICE: &str = "ibd0";

/// See the module's documentation. Everything goes when it is dropped.
pub struct LinuxSide {
    pub namespace: Namespace,
    pub tun: Arc<Tun>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    /// The reader wakes threads of the machine, so everybody waiting is no hang.
    _waker: OutsideWaker,
}

impl LinuxSide {
    /// A namespace for `host` with its device.
    pub fn create(host: &str, addresses: &[IpCidr], mtu: usize, machine: &Machine) -> Result<Self> {
        let namespace = Namespace::create(host)?;
        let tun = Arc::new(Tun::create(&namespace, DEVICE, addresses, mtu)?);
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Self { namespace, tun, stop, reader: None, _waker: machine.outside_waker() })
    }

    /// Starts reading: each packet goes to `sender`, then `wake` is called.
    pub fn read(&mut self, sender: Sender<Vec<u8>>, wake: impl Fn() + Send + 'static) {
        let (tun, stop) = (self.tun.clone(), self.stop.clone());
        self.reader = Some(std::thread::spawn(move || {
            let mut buffer = vec![0; PACKET];
            while !stop.load(Ordering::Relaxed) {
                match tun.receive(&mut buffer, POLL) {
                    Ok(Some(len)) if sender.send(buffer[..len].to_vec()).is_ok() => wake(),
                    Ok(None) => {}
                    // The device or the IP layer is gone.
                    Ok(Some(_)) | Err(_) => return,
                }
            }
        }));
    }

    /// The link's SDU is known now.
    pub fn set_mtu(&self, mtu: usize) -> Result<()> {
        self.namespace.ip(&["link", "set", DEVICE, "mtu", &mtu.to_string()])
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
