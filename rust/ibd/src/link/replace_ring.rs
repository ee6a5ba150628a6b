//! Replaces one queue pair that only sends. The worker's part; [`ipoib::link::SendRings`] says when.

use ibtf::{Pd, Status, UdChannel};
use ipoib::Qpn;
use ipoib::link::{Event, Plan, Standing, Status as LinkStatus, Why};
use kernel::{AllocError, KArc, log};

use super::Shared;
use super::fma::Fault;
use super::queue_pairs::{QpKeys, QueuePairHandles, moderate};
use super::traffic::{Pools, send_side};
use super::transmit::SendSide;
use super::trials;
use crate::{now, probes};

/// What a queue pair has in common with the others of its link.
struct Common {
    standing: Standing,
    handles: Result<QueuePairHandles, AllocError>,
}

/// Takes the queue pair of a transmit ring down and builds another one. The ring gives packets back meanwhile; the others go on.
/// If it cannot be done the link is built anew. **May block.**
#[inline(never)]
pub(crate) fn replace_sender(shared: &KArc<Shared>, ring: usize, why: Why) {
    tell(shared, ring, why);
    if let Some((common, channel)) = take(shared, ring) {
        replace(shared, ring, &common, channel);
    }
    // A failure may have waited for this.
    shared.tell(|control| control.rings.given_up(ring));
}

#[inline(never)]
fn replace(shared: &KArc<Shared>, ring: usize, common: &Common, channel: UdChannel) {
    suspend(shared, ring, channel);
    probes::qp_down(shared.number);
    let built = match (shared.hardware(), &common.handles) {
        (Some((_, pd)), Ok(handles)) => build(shared, &pd, ring, &common.standing.plan, handles),
        (Some(_), Err(error)) => Err((*error).into()),
        (None, _) => Err(Status::HCA_INVALID),
    };
    match built {
        Ok(side) => install(shared, ring, common, side),
        Err(status) => {
            log!(note, shared.name, "cannot make the queue pair of transmit ring {ring}: {status}");
            shared.tell(|control| {
                control.link.handle_event(now(), Event::Broken(common.standing.generation));
            });
        }
    }
}

/// Without these the link is being taken down, and the ring with it.
fn take(shared: &Shared, ring: usize) -> Option<(Common, UdChannel)> {
    let mut control = shared.control.lock();
    let standing = control.link.standing()?;
    let pairs = control.queue_pairs.as_mut()?;
    let channel = pairs.take_sender(ring)?;
    Some((Common { standing, handles: pairs.handles() }, channel))
}

#[inline(never)]
fn tell(shared: &Shared, ring: usize, why: Why) {
    let name = &shared.name;
    match why {
        Why::Failed => {
            probes::qp_broken(shared.number, c"failed");
            shared.counters.history.failed.increment();
            log!(warn, name, "the queue pair of transmit ring {ring} failed; building another");
        }
        Why::Stalled => {
            probes::qp_broken(shared.number, c"stalled");
            shared.counters.history.stalled.increment();
            shared.report(Fault::Stalled);
            log!(
                warn,
                name,
                "the queue pair of transmit ring {ring} hangs, and another one sends; building another"
            );
        }
    }
}

/// Ends the traffic of the ring and frees what it went over: with the channel goes what the adapter had of it.
#[inline(never)]
fn suspend(shared: &Shared, ring: usize, channel: UdChannel) {
    let mut pools = Pools::default();
    shared.transmitters.suspend(ring, &mut pools);
    trials::end_of(shared, ring);
    drop(channel);
    pools.close();
    shared.retire(pools);
}

#[inline(never)]
fn build(
    shared: &Shared,
    pd: &Pd,
    ring: usize,
    plan: &Plan,
    handles: &QueuePairHandles,
) -> Result<SendSide, Status> {
    let settings = *shared.settings.lock();
    let interrupts = shared.interrupts().ok_or(Status::HCA_HDL_INVALID)?;
    let parts = shared.parts(pd, &interrupts, &settings);
    let keys = QpKeys { pkey_index: plan.pkey_index, qkey: plan.qkey };
    let channel = handles.queue_config.channel(&parts, ring, handles.first()?.receive_cq(), keys)?;
    send_side(&parts, handles, &channel, plan.mtu)
}

#[inline(never)]
fn install(shared: &Shared, ring: usize, common: &Common, side: SendSide) {
    let channel = side.queue.channel().clone();
    let qpn = Qpn::from_low_bits(channel.qpn());
    let mut control = shared.control.lock();
    let stands = control.link.stands(common.standing.generation);
    let generation = control.link.draw();
    let unused = match control.queue_pairs.as_mut().filter(|_| stands) {
        Some(pairs) => pairs.put_sender(ring, channel),
        // Stopped or taken down meanwhile.
        None => Some(channel),
    };
    if unused.is_none() {
        control.rings.replaced(now(), ring, generation);
    }
    drop(control);
    if let Some(channel) = unused {
        return discard(shared, side, Some(channel));
    }
    // Who changes moderation from now on finds this one among the link's.
    let settings = *shared.settings.lock();
    let channel = side.queue.channel();
    moderate(channel.pd().hca(), channel.send_cq(), settings.transmit_moderation());
    // Before anything is sent from it that could come back.
    if let Ok(handles) = &common.handles {
        handles.receiver.replace_sender(ring - 1, qpn);
    }
    if let Some(side) = shared.transmitters.reopen(ring, generation, side) {
        return discard(shared, side, None);
    }
    shared.counters.history.made.increment();
    shared.counters.history.started.increment();
    probes::qp_up(shared.number, qpn.get());
    // The link was up all the time. If it is not now it says so when it is.
    if matches!(shared.control.lock().link.status(), LinkStatus::Up(_)) {
        shared.restored();
    }
}

/// Frees what nobody wants any more.
#[inline(never)]
fn discard(shared: &Shared, side: SendSide, channel: Option<UdChannel>) {
    let mut pools = Pools::default();
    side.into_pools(&mut pools);
    drop(channel);
    pools.close();
    shared.retire(pools);
}
