//! MADs for programs of a host: a umad and an issm device for each of its ports, with the semantics of the crate `umad`. And the
//! real ones of this machine, if it has any.
#![deny(unsafe_code)]

#[allow(unsafe_code)] // The border to libibumad.
mod libibumad;

pub use libibumad::{LibIbUmad, NoPort};

use std::collections::BTreeMap;
use std::ptr::addr_eq;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fakekernel::{Ctx, HostMutex, Kernel, Nanos, WaitQueue, now};
use sm::{Arrival, Guid, Inbound, PKey, SaTransport};
use umad::{Administrator, AgentId, Errno, FileId, Layout, Port, Registration};

use crate::ibcm::Ibcm;
use crate::ibtl::{Device, Ibtl};
use crate::saa::administrator;

/// Opens a port's umad device in the new layout, with P_Key indices. User or kernel context; the file closes when dropped.
///
/// # Errors
/// `ENOENT` if the host has no such port; `ENXIO` without a subnet manager in the lab.
pub fn open(kernel: &Kernel, port: fabric::Guid) -> Result<File, Errno> {
    let mut file = open_old(kernel, port)?;
    file.port.state.lock().port.enable_p_key(file.id)?;
    file.layout = Layout::New;
    Ok(file)
}

/// The same in the layout that a program begins with: it has no P_Key index.
///
/// # Errors
/// As for [`open`].
pub fn open_old(kernel: &Kernel, port: fabric::Guid) -> Result<File, Errno> {
    let port = PortMads::of(kernel, port)?;
    let mut state = port.state.lock();
    let id = state.port.open()?;
    let start = !std::mem::replace(&mut state.running, true);
    drop(state);
    if start {
        let runner = port.clone();
        let _ = kernel.spawn("umad", Ctx::Kernel, move || runner.run());
    }
    Ok(File { port, id, layout: Layout::Old })
}

/// Opens a port's issm device: the port says that a subnet manager is behind it until the result is dropped. Somebody else who does is
/// waited for, if `wait` says so.
///
/// # Errors
/// As for [`open`]; `EAGAIN` if it would wait and may not; `ENODEV` once the port is gone.
pub fn open_issm(kernel: &Kernel, port: fabric::Guid, wait: bool) -> Result<IsSm, Errno> {
    let port = PortMads::of(kernel, port)?;
    let mut state = port.state.lock();
    while state.is_sm {
        if !wait {
            return Err(Errno::AGAIN);
        }
        state = port.changed.wait(state);
    }
    if state.gone {
        return Err(Errno::NODEV);
    }
    state.is_sm = true;
    drop(state);
    port.say_is_sm(true);
    Ok(IsSm(port))
}

/// An open umad file of a port of the lab.
pub struct File {
    port: Arc<PortMads>,
    id: FileId,
    layout: Layout,
}

/// An open issm file.
pub struct IsSm(Arc<PortMads>);

/// A port's devices.
struct PortMads {
    guid: Guid,
    num: u8,
    device: Weak<Device>,
    transport: Arc<dyn SaTransport>,
    state: HostMutex<State>,
    /// Messages came, or the devices changed otherwise.
    changed: WaitQueue,
    /// The thread that keeps the time has something to look at.
    work: WaitQueue,
}

struct State {
    port: Port,
    /// The thread is there.
    running: bool,
    is_sm: bool,
    gone: bool,
}

/// A host's ports whose devices were ever opened.
#[derive(Default)]
struct Ports(HostMutex<BTreeMap<Guid, Arc<PortMads>>>);

fn ports(kernel: &Kernel) -> Arc<Ports> {
    kernel.state(Ports::default)
}

/// An adapter is gone: whoever has a file of one of its ports open is told.
pub(crate) fn hca_removed(kernel: &Kernel, hca: u64) {
    let of_it = |port: &PortMads| port.device.upgrade().is_none_or(|device| device.guid == hca);
    let gone: Vec<_> = ports(kernel).0.lock().extract_if(.., |_, port| of_it(port)).collect();
    for (_, port) in gone {
        port.remove();
    }
}

impl PortMads {
    fn of(kernel: &Kernel, guid: Guid) -> Result<Arc<Self>, Errno> {
        let found = Ibtl::of(kernel).all_devices().into_iter().find_map(|device| {
            let num = device.cached_ports().iter().find(|attr| attr.guid.0 == guid.0)?.num.0;
            Some((device, num))
        });
        let (device, num) = found.ok_or(Errno::NOENT)?;
        let transport = Ibcm::of(kernel).transport().ok_or(Errno::NXIO)?;
        let all = ports(kernel);
        let mut known = all.0.lock();
        // A former subnet manager's, or a former adapter's of the same GUID.
        let current = |port: &&Arc<Self>| {
            addr_eq(Arc::as_ptr(&port.transport), Arc::as_ptr(&transport))
                && addr_eq(port.device.as_ptr(), Arc::as_ptr(&device))
        };
        if let Some(port) = known.get(&guid).filter(current) {
            return Ok(port.clone());
        }
        let port = Arc::new(Self {
            guid,
            num,
            device: Arc::downgrade(&device),
            transport: transport.clone(),
            state: HostMutex::new(State {
                // Transactions of the port's session with subnet administration begin with the low half of its GUID.
                port: Port::new(guid.0 as u32),
                running: false,
                is_sm: false,
                gone: false,
            }),
            changed: WaitQueue::new("a MAD for a program"),
            work: WaitQueue::new("a program's MADs"),
        });
        let former = known.insert(guid, port.clone());
        drop(known);
        if let Some(former) = former {
            former.remove();
        }
        let inbound: Arc<dyn Inbound> = port.clone();
        transport.attach(guid, &inbound);
        Ok(port)
    }

    fn attr(&self) -> Option<fabric::PortAttr> {
        self.device.upgrade()?.cached_port(self.num)
    }

    fn p_keys(&self) -> Vec<PKey> {
        let attr = self.attr();
        attr.iter().flat_map(|attr| &attr.pkeys).copied().collect()
    }

    /// Until no file is open.
    fn run(&self) {
        loop {
            self.send();
            let mut state = self.state.lock();
            if !state.port.is_open() {
                state.running = false;
                return;
            }
            let due = state.port.poll_timeout().map_or(Nanos::NEVER, |due| Nanos(due.0));
            if due > now() {
                drop(self.work.wait_until(state, due));
                continue;
            }
            state.port.handle_timeout(sm::Nanos(now().0));
            drop(state);
            self.changed.wake_all();
        }
    }

    /// Sends what there is to send. What the port cannot send is lost, as on a wire.
    fn send(&self) {
        loop {
            let next = self.state.lock().port.poll_send();
            let Some(out) = next else { return };
            let _ = self.transport.send(self.guid, out.to, &out.mad);
        }
    }

    /// Other times, or MADs to send.
    fn progress(&self) {
        self.send();
        self.work.wake_all();
    }

    fn remove(self: &Arc<Self>) {
        let inbound: Arc<dyn Inbound> = self.clone();
        self.transport.detach(self.guid, &inbound);
        let mut state = self.state.lock();
        state.gone = true;
        state.port.remove();
        drop(state);
        self.changed.wake_all();
        self.work.wake_all();
    }

    fn say_is_sm(&self, is_sm: bool) {
        let Some(device) = self.device.upgrade() else { return };
        // A port that has gone says nothing any more.
        if device.adapter.set_is_sm(self.num, is_sm) {
            self.transport.capabilities_changed(self.guid);
        }
    }
}

impl Inbound for PortMads {
    fn receive(&self, arrival: &Arrival) {
        let p_keys = self.p_keys();
        self.state.lock().port.receive(sm::Nanos(now().0), arrival, &p_keys);
        self.progress();
        self.changed.wake_all();
    }
}

impl umad::Device for File {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn register(&mut self, wanted: &Registration) -> Result<AgentId, Errno> {
        self.port.state.lock().port.register(self.id, wanted)
    }

    fn unregister(&mut self, agent: AgentId) -> Result<(), Errno> {
        self.port.state.lock().port.unregister(self.id, agent)
    }

    fn write(&mut self, message: &[u8]) -> Result<usize, Errno> {
        let p_keys = self.port.p_keys();
        let taken = self.port.state.lock().port.write(sm::Nanos(now().0), self.id, message, &p_keys);
        self.port.progress();
        taken
    }

    fn read(&mut self, into: &mut [u8], patience: Duration) -> Result<usize, Errno> {
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let deadline = Nanos(now().0.saturating_add(patience));
        let mut state = self.port.state.lock();
        loop {
            match state.port.read(self.id, into) {
                Err(Errno::AGAIN) if now() < deadline => {
                    state = self.port.changed.wait_until(state, deadline).0;
                }
                done => return done,
            }
        }
    }

    fn administrator(&self) -> Result<Administrator, Errno> {
        let attr = self.port.attr().filter(|_| !self.port.state.lock().gone).ok_or(Errno::NODEV)?;
        let gid = attr.gids.first().copied().unwrap_or_default();
        let to = administrator(&attr);
        Ok(Administrator {
            lid: to.lid,
            sl: to.sl,
            own_lid: attr.lid,
            own_gid: gid,
            p_keys: self.port.p_keys(),
        })
    }
}

impl File {
    /// `poll(2)`: whether a message can be read at once.
    pub fn is_readable(&self) -> bool {
        self.port.state.lock().port.is_readable(self.id)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.port.state.lock().port.close(self.id);
        self.port.changed.wake_all();
        self.port.work.wake_all();
    }
}

impl Drop for IsSm {
    fn drop(&mut self) {
        self.0.state.lock().is_sm = false;
        self.0.say_is_sm(false);
        self.0.changed.wake_all();
    }
}
