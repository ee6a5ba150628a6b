//! The embedded subnet manager as a part of a machine: one thread that lets it sweep, answer and route.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use fabric::{Fabric, Subnet};
use fakekernel::{Ctx, HostMutex, Kernel, Nanos, WaitQueue};
use sm::records::McMemberRecord;
use sm::sa::{Address, Beyond, Outgoing};
use sm::{
    Arrival, FaultScript, Inbound, Inbounds, Lid, Mad, PKey, Partition, Qpn, Refused, SaTransport, Sl, Sm,
    SmAddress, SmConfig,
};

use super::linked;
use super::router::Between;
use super::shown::{show_received, show_sent};
use super::subnet::FabricSubnet;

/// The subnet manager and administrator of a fabric's subnet, without anything to install. Clones of the `Arc` are the same manager.
///
/// It learns of links from [`set_cable`](Self::set_cable) and [`set_port_enabled`](Self::set_port_enabled), or from whoever
/// changed them and says so with [`links_changed`](Self::links_changed).
pub struct EmbeddedSm {
    fabric: Fabric,
    subnet: Subnet,
    /// What this subnet and the one behind a router know of one another.
    between: OnceLock<Arc<Between>>,
    machine: fakekernel::Machine,
    state: HostMutex<State>,
    work: WaitQueue,
}

/// A port, who takes what comes in for it, and what came.
type Parcel = (sm::Guid, Vec<Arc<dyn Inbound>>, Arrival);

struct State {
    sm: Sm,
    inbound: Inbounds,
    /// From one port's QP 1 to the one at another port's LID; the manager has no part in it.
    passing: VecDeque<(Lid, Arrival)>,
    sweep: bool,
    /// Nothing has been said to anybody before this instant.
    ready_at: Nanos,
}

impl EmbeddedSm {
    /// Starts a manager for the first subnet of `fabric`. Its thread belongs to `host`, which need have no adapter. The first sweep comes
    /// `delay` after the start.
    pub fn start(host: &Kernel, fabric: Fabric, config: SmConfig, delay: Nanos) -> Arc<Self> {
        Self::start_in(host, fabric, Subnet::default(), config, delay)
    }

    /// The same for another subnet.
    pub fn start_in(
        host: &Kernel,
        fabric: Fabric,
        subnet: Subnet,
        config: SmConfig,
        delay: Nanos,
    ) -> Arc<Self> {
        let machine = host.machine().clone();
        let state = State {
            sm: Sm::new(config),
            inbound: Inbounds::default(),
            passing: VecDeque::new(),
            sweep: true,
            ready_at: machine.now() + delay,
        };
        let this = Arc::new(Self {
            fabric,
            subnet,
            between: OnceLock::new(),
            machine,
            state: HostMutex::new(state),
            work: WaitQueue::new("subnet manager: MADs, links and timers"),
        });
        let runner = this.clone();
        let _ = host.spawn("subnet manager", Ctx::Kernel, move || runner.run());
        this
    }

    /// Pulls or plugs a port's cable; the manager sweeps soon after. False if there is no such port.
    pub fn set_cable(&self, port: fabric::Guid, plugged: bool) -> bool {
        let done = self.fabric.set_cable(port, plugged).is_ok();
        self.links_changed();
        done
    }

    /// Switches a port off or on; the manager sweeps soon after. False if there is no such port.
    pub fn set_port_enabled(&self, port: fabric::Guid, enabled: bool) -> bool {
        let done = self.fabric.set_port_enabled(port, enabled).is_ok();
        self.links_changed();
        done
    }

    /// A link came or went, or a port changed: sweep soon.
    pub fn links_changed(&self) {
        self.state.lock().sweep = true;
        self.work.wake_all();
    }

    /// Other partitions from now on.
    pub fn set_partitions(&self, partitions: Vec<Partition>) {
        let (now, mut subnet) = (self.now(), self.subnet());
        self.state.lock().sm.set_partitions(now, &mut subnet, partitions);
        self.work.wake_all();
    }

    /// The manager dies: nothing is answered until [`restart`](Self::restart).
    pub fn stop(&self) {
        self.state.lock().sm.stop();
    }

    /// A new manager takes over; see [`Sm::restart`]. Multicast LIDs are given out from `first_mlid` on.
    pub fn restart(&self, first_mlid: Lid) {
        let (now, mut subnet) = (self.now(), self.subnet());
        self.state.lock().sm.restart(now, &mut subnet, first_mlid);
        self.work.wake_all();
    }

    /// As [`restart`](Self::restart), and every port but the manager's gets another LID, from `first_lid` on.
    pub fn restart_with_other_lids(&self, first_mlid: Lid, first_lid: Lid) {
        self.state.lock().sm.forget_lids(first_lid);
        self.restart(first_mlid);
    }

    /// A new manager takes over at another LID; see [`Sm::fail_over`].
    pub fn fail_over(&self, lid: Lid, first_mlid: Lid) {
        let (now, mut subnet) = (self.now(), self.subnet());
        self.state.lock().sm.fail_over(now, &mut subnet, lid, first_mlid);
        self.work.wake_all();
    }

    /// A new manager gives the subnet another prefix; see [`Sm::renumber`].
    pub fn renumber(&self, prefix: u64) {
        let (now, mut subnet) = (self.now(), self.subnet());
        self.state.lock().sm.renumber(now, &mut subnet, prefix);
        self.work.wake_all();
    }

    /// Ends a group, whoever is in it, and reports that. False if there is no such group.
    pub fn delete_group(&self, mgid: sm::Gid) -> bool {
        let now = self.now();
        let deleted = self.state.lock().sm.delete_group(now, mgid);
        self.work.wake_all();
        deleted
    }

    /// Changes what the administrator does wrong.
    pub fn faults(&self, change: impl FnOnce(&mut FaultScript)) {
        change(self.state.lock().sm.faults());
    }

    /// Looks at the manager's state. `look` may not wait.
    pub fn inspect<R>(&self, look: impl FnOnce(&Sm) -> R) -> R {
        look(&self.state.lock().sm)
    }

    /// The same with what has to be asked by a mutable reference. `look` may not wait.
    pub fn change<R>(&self, look: impl FnOnce(&mut Sm) -> R) -> R {
        look(&mut self.state.lock().sm)
    }

    fn now(&self) -> sm::Nanos {
        sm::Nanos(self.machine.now().0)
    }

    fn subnet(&self) -> FabricSubnet {
        FabricSubnet(self.fabric.clone(), self.subnet)
    }

    /// Whose manager it is.
    pub(crate) const fn manages(&self) -> Subnet {
        self.subnet
    }

    /// The subnet is joined to another one, for good.
    pub(crate) fn join(&self, between: &Arc<Between>) {
        self.between.get_or_init(|| between.clone());
    }

    /// What is behind the router that has `port` here, and which groups are heard there. Whether there is more to do now.
    pub(super) fn learn(&self, port: sm::Guid, beyond: Option<(Beyond, &[McMemberRecord])>) -> bool {
        let (beyond, heard) = beyond.unzip();
        let now = self.now();
        let mut state = self.state.lock();
        if state.sm.sa().beyond() != beyond.as_ref() {
            state.sm.set_beyond(beyond);
        }
        state.sm.set_routed(now, port, heard)
    }

    /// Has the manager's thread look for what to do.
    pub(super) fn wake(&self) {
        self.work.wake_all();
    }

    fn run(&self) {
        loop {
            let (sends, due) = self.work_off();
            if let Some(between) = self.between.get() {
                between.tell();
            }
            for (port, inbounds, arrival) in &sends {
                show_received(&self.fabric, *port, arrival);
                for inbound in inbounds {
                    inbound.receive(arrival);
                }
            }
            if sends.is_empty() {
                self.wait(due);
            }
        }
    }

    /// Does what is due and collects what is to be sent, with the time when more is due.
    fn work_off(&self) -> (Vec<Parcel>, Nanos) {
        let (now, mut subnet) = (self.now(), self.subnet());
        let mut state = self.state.lock();
        let mut arrivals: Vec<(Lid, Arrival)> = state.passing.drain(..).collect();
        let due = if now.0 < state.ready_at.0 {
            state.ready_at
        } else {
            if std::mem::take(&mut state.sweep) {
                state.sm.sweep(now, &mut subnet);
            }
            state.sm.handle_timeout(now, &mut subnet);
            let lid = state.sm.lid();
            while let Some(out) = state.sm.poll_send(now) {
                arrivals.push(arrival(lid, &out));
            }
            state.sm.poll_timeout().map_or(Nanos::NEVER, |due| Nanos(due.0))
        };
        let parcel = |(lid, arrival): (Lid, Arrival)| {
            let port = linked(self.fabric.subnet_port_at_in(self.subnet, lid))?.attr.guid;
            Some((port, state.inbound.of(port), arrival))
        };
        (arrivals.into_iter().filter_map(parcel).collect(), due)
    }

    /// Waits for something to do; what came in meanwhile ends the wait at once.
    fn wait(&self, due: Nanos) {
        let state = self.state.lock();
        let now = self.machine.now();
        let pending = state.sm.poll_timeout().is_some_and(|at| at.0 <= now.0);
        let ready = now >= state.ready_at;
        if state.passing.is_empty() && !(ready && (state.sweep || pending)) {
            let _ = self.work.wait_until(state, due);
        }
    }
}

/// What the manager at `lid` sends, as it arrives.
const fn arrival(lid: Lid, out: &Outgoing) -> (Lid, Arrival) {
    let from = SmAddress { lid, sl: Sl::truncating(0), qpn: Qpn::GSI, p_key: PKey::DEFAULT_FULL };
    (out.to.lid, Arrival { from, mad: out.mad, cut: false })
}

impl SaTransport for EmbeddedSm {
    fn attach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.state.lock().inbound.attach(port, inbound);
    }

    fn detach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.state.lock().inbound.detach(port, inbound);
    }

    fn capabilities_changed(&self, _port: sm::Guid) {
        self.links_changed();
    }

    fn send(&self, port: sm::Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        let from = self.fabric.subnet_port(port);
        let from = linked(from).ok_or(Refused::NoPort(port))?;
        let address = Address { lid: from.attr.lid, qpn: Qpn::GSI };
        let now = self.now();
        show_sent(&self.fabric, from.attr.guid, to, mad);
        let mut state = self.state.lock();
        // Packets to a LID or queue pair that nobody has are lost, as on a wire.
        if to.qpn == Qpn::GSI && to.lid == state.sm.lid() {
            if self.machine.now() >= state.ready_at {
                state.sm.receive(now, address, mad);
            }
        } else if to.qpn == Qpn::GSI {
            let from = SmAddress { lid: address.lid, ..to };
            state.passing.push_back((to.lid, Arrival { from, mad: *mad, cut: false }));
        }
        drop(state);
        self.work.wake_all();
        Ok(())
    }
}
