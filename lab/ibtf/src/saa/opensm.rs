//! A real OpenSM as a part of a live machine.
//!
//! Three kinds of thread work here. Those of the connections to ibsim put subnet administration's MADs into the mailbox. One
//! outside the machine, the mirror, does whatever waits for OpenSM or ibsim: it carries out orders, and reads what OpenSM
//! decided whenever its SMInfo says that it has done something. One of the machine empties the mailbox: it hands MADs to
//! sessions and programs the fabric.

mod apply;
mod mirror;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use fabric::{Fabric, LinkSpeed, LinkWidth};
use fakekernel::{Ctx, HostMutex, Kernel, OutsideWaker, WaitQueue};
use opensm::{Adapter, Link, OpenSm, Snapshot, Speed, Tools, Topology};
use sm::partition::Partition;
use sm::{Arrival, Gid, Guid, Inbound, Inbounds, Mad, Qpn, Refused, SaTransport, SmAddress};

use super::linked;
use super::manager::{GroupMembers, SubnetError, SubnetManager};
use super::shown::show_sent;

/// See the module's documentation.
pub struct OpenSmManager {
    shared: Arc<Shared>,
    orders: Sender<mirror::Order>,
    /// Threads outside wake those of the machine, so that everybody waiting is no hang.
    _waker: OutsideWaker,
}

/// What the threads share.
struct Shared {
    fabric: Fabric,
    mail: HostMutex<Mailbox>,
    work: WaitQueue,
    /// Orders and the programming of the fabric end here.
    done: WaitQueue,
}

#[derive(Default)]
struct Mailbox {
    /// Not there before OpenSM is, nor after the machine's end.
    opensm: Option<Arc<OpenSm>>,
    inbound: Inbounds,
    arrived: VecDeque<(Guid, Arrival)>,
    /// The newest, until the fabric is programmed with it.
    snapshot: Option<Snapshot>,
    /// A new manager answers: clients have to register anew.
    reregister: bool,
    /// The fabric is being programmed.
    applying: bool,
    /// Cables are being changed: what was read before says nothing.
    relinking: u32,
    /// What went wrong unasked.
    failure: Option<String>,
    /// Port to (cable, administrator's switch), for those that were touched.
    links: BTreeMap<Guid, (bool, bool)>,
    /// Ports whose adapter was taken away.
    gone: BTreeSet<Guid>,
}

impl OpenSmManager {
    /// Starts OpenSM for the adapters that `fabric` has now. Waits until it has brought every port up. The machine must be
    /// live.
    ///
    /// # Errors
    /// What is missing, or why it did not come up.
    pub(crate) fn start(
        host: &Kernel,
        fabric: &Fabric,
        partitions: Vec<Partition>,
        lmc: u8,
    ) -> Result<Arc<Self>, SubnetError> {
        let tools = Tools::find().map_err(failed)?;
        let topology = topology(fabric)?.with_lmc(lmc);
        let shared = Arc::new(Shared {
            fabric: fabric.clone(),
            mail: HostMutex::new(Mailbox::default()),
            work: WaitQueue::new("OpenSM: MADs and decisions"),
            done: WaitQueue::new("an order to OpenSM"),
        });
        let (orders, inbox) = channel();
        let waker = host.machine().outside_waker();
        let this = Arc::new(Self { shared: shared.clone(), orders, _waker: waker });
        let sink = Arc::downgrade(&shared);
        let mirror = mirror::spawn(shared.clone(), inbox).map_err(|error| SubnetError(error.to_string()))?;
        let _ = host.spawn("subnet manager", Ctx::Kernel, move || {
            // Unwound with the machine, whatever ends it.
            let _mirror = mirror;
            shared.run();
        });
        let started = this.ask(move |_, shared| {
            let opensm = Arc::new(OpenSm::start(tools, topology, &partitions).map_err(failed)?);
            opensm.set_sink(Some(Arc::new(move |port, arrival| deliver(&sink, port, arrival))));
            shared.mail.lock().opensm = Some(opensm);
            Ok(())
        });
        started.and_then(|started| started)?;
        Ok(this)
    }

    /// Has the mirror's thread carry out `order`, and waits for its outcome.
    fn ask<R: Send + 'static>(
        &self,
        order: impl FnOnce(Option<&OpenSm>, &Shared) -> R + Send + 'static,
    ) -> Result<R, SubnetError> {
        let outcome: Arc<HostMutex<Option<R>>> = Arc::new(HostMutex::new(None));
        let slot = outcome.clone();
        let work = move |opensm: Option<&OpenSm>, shared: &Shared| {
            let value = order(opensm, shared);
            *slot.lock() = Some(value);
            shared.done.wake_all();
        };
        self.orders.send(Box::new(work)).map_err(|_| gone())?;
        let mut guard = outcome.lock();
        loop {
            match guard.take() {
                Some(value) => return Ok(value),
                None => guard = self.shared.done.wait(guard),
            }
        }
    }

    /// The same, for what needs an OpenSM and may fail.
    fn tell<R: Send + 'static>(
        &self,
        order: impl FnOnce(&OpenSm) -> Result<R, opensm::Error> + Send + 'static,
    ) -> Result<R, SubnetError> {
        self.ask(move |opensm, _| order(opensm.ok_or_else(gone)?).map_err(failed))?
    }

    /// Changes the link of a port on both sides, so that nothing read before is taken for after.
    fn relink(&self, port: fabric::Guid, change: impl FnOnce(&mut (bool, bool))) -> bool {
        let (cabled, enabled) = {
            let mut mail = self.shared.mail.lock();
            mail.relinking += 1;
            while mail.applying {
                mail = self.shared.done.wait(mail);
            }
            let link = mail.links.entry(port).or_insert((true, true));
            change(link);
            *link
        };
        let done = self.shared.fabric.set_cable(port, cabled).is_ok()
            && self.shared.fabric.set_port_enabled(port, enabled).is_ok()
            && self.tell(move |opensm| opensm.set_link(port, cabled && enabled)).is_ok();
        let mut mail = self.shared.mail.lock();
        mail.relinking -= 1;
        mail.snapshot = None;
        drop(mail);
        self.links_changed();
        done
    }
}

fn failed(error: opensm::Error) -> SubnetError {
    SubnetError(error.to_string())
}

fn gone() -> SubnetError {
    SubnetError("OpenSM is not there any more".to_owned())
}

/// A MAD for a port: into the mailbox, if there still is one.
fn deliver(shared: &Weak<Shared>, port: Guid, arrival: Arrival) {
    if let Some(shared) = shared.upgrade() {
        shared.mail.lock().arrived.push_back((port, arrival));
        shared.work.wake_all();
    }
}

/// The adapters in the fabric as ibsim shall play them.
fn topology(fabric: &Fabric) -> Result<Topology, SubnetError> {
    let mut ports = fabric.subnet_ports();
    // A port that has no cable is in nobody's subnet, unless it is all its adapter has.
    ports.retain(|port| port.num.0 == 1 || port.attr.phys == fabric::PhysState::LinkUp);
    if let Some(second) = ports.iter().find(|port| port.num.0 > 1) {
        return Err(SubnetError(format!(
            "ibsim's adapters have one port; {} has another one with a cable",
            second.node
        )));
    }
    let adapter = |port: &fabric::subnet::PortView| {
        Ok(Adapter {
            name: port.description.clone(),
            node: port.node,
            port: port.attr.guid,
            link: link(port.attr.width, port.attr.speed)?,
        })
    };
    let adapters: Vec<Adapter> = ports.iter().map(adapter).collect::<Result<_, SubnetError>>()?;
    Topology::new(adapters).map_err(failed)
}

fn link(width: LinkWidth, speed: LinkSpeed) -> Result<Link, SubnetError> {
    let speed = match speed {
        LinkSpeed::Sdr => Speed::Sdr,
        LinkSpeed::Ddr => Speed::Ddr,
        LinkSpeed::Qdr => Speed::Qdr,
        LinkSpeed::Fdr10 => Speed::Fdr10,
        LinkSpeed::Fdr => Speed::Fdr,
        LinkSpeed::Edr => Speed::Edr,
        LinkSpeed::Hdr => Speed::Hdr,
        LinkSpeed::Ndr => {
            return Err(SubnetError("ibsim's fastest speed is HDR; a port here has NDR".to_owned()));
        }
    };
    Ok(Link { lanes: width.lanes(), speed })
}

impl OpenSmManager {
    /// OpenSM hangs, or goes on: it is there and does nothing.
    ///
    /// # Errors
    /// If it is not there.
    pub fn hang(&self, hung: bool) -> Result<(), SubnetError> {
        self.tell(move |opensm| opensm.hang_manager(hung))
    }
}

impl SaTransport for OpenSmManager {
    fn attach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        self.shared.mail.lock().inbound.attach(port, inbound);
    }

    fn detach(&self, port: Guid, inbound: &Arc<dyn Inbound>) {
        self.shared.mail.lock().inbound.detach(port, inbound);
    }

    fn send(&self, port: Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        let from = linked(self.shared.fabric.subnet_port(port)).ok_or(Refused::NoPort(port))?;
        show_sent(&self.shared.fabric, from.attr.guid, to, mad);
        let opensm = self.shared.mail.lock().opensm.clone();
        // Packets to another queue pair than the administrator's are lost, as on a wire.
        if let Some(opensm) = opensm.filter(|_| to.qpn == Qpn::GSI) {
            opensm.send(port, to.lid, mad).map_err(|_| Refused::NoPort(port))?;
        }
        Ok(())
    }
}

impl SubnetManager for OpenSmManager {
    fn name(&self) -> &'static str {
        "OpenSM on ibsim"
    }

    fn set_cable(&self, port: fabric::Guid, plugged: bool) -> bool {
        self.relink(port, |link| link.0 = plugged)
    }

    fn set_port_enabled(&self, port: fabric::Guid, enabled: bool) -> bool {
        self.relink(port, |link| link.1 = enabled)
    }

    /// An adapter that was taken away takes its link along, and one that is there again has it back.
    fn links_changed(&self) {
        let present: BTreeSet<Guid> =
            self.shared.fabric.subnet_ports().iter().map(|view| view.attr.guid).collect();
        let order = move |opensm: Option<&OpenSm>, shared: &Shared| {
            let Some(opensm) = opensm else { return };
            for port in opensm.topology().adapters().iter().map(|adapter| adapter.port) {
                let gone = !present.contains(&port);
                let changed = {
                    let mut mail = shared.mail.lock();
                    if gone { mail.gone.insert(port) } else { mail.gone.remove(&port) }
                };
                if changed && let Err(error) = opensm.set_link(port, !gone) {
                    shared.mail.lock().failure = Some(error.to_string());
                }
            }
        };
        // If the mirror is gone so is the machine.
        let _ = self.orders.send(Box::new(order));
    }

    fn set_partitions(&self, partitions: Vec<Partition>) -> Result<(), SubnetError> {
        self.tell(move |opensm| opensm.set_partitions(&partitions))
    }

    fn stop(&self) {
        // If it is gone it has stopped.
        let _ = self.ask(|opensm, _| opensm.map(OpenSm::stop_manager));
    }

    fn restart(&self) -> Result<(), SubnetError> {
        self.tell(OpenSm::start_manager)
    }

    fn is_member(&self, mgid: Gid, port: Guid) -> Result<bool, SubnetError> {
        self.tell(move |opensm| opensm.is_member(mgid, port))
    }

    fn groups(&self) -> Result<Vec<GroupMembers>, SubnetError> {
        let groups = self.tell(OpenSm::dump)?;
        let members = |group: opensm::dump::Group| GroupMembers {
            mgid: group.mgid,
            mlid: group.mlid,
            members: group.members,
        };
        Ok(groups.into_iter().map(members).collect())
    }

    fn health(&self) -> Result<(), SubnetError> {
        self.shared.mail.lock().failure.clone().map_or(Ok(()), |failure| Err(SubnetError(failure)))
    }
}
