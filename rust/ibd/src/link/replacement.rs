//! Replaces one queue pair that only sends. The worker's part; [`super::senders`] says when.

use ibtf::{Cq, Pd, Status, UdChannel};
use ipoib::Qpn;
use ipoib::link::{self, Plan};
use kernel::{KArc, log};

use super::Shared;
use super::datapath::{Design, Pools, moderate, next_serial};
use super::receive::Receiver;
use super::senders::Why;
use super::transmit::Open;
use crate::{now, probes};

/// What a queue pair has in common with the others of its link.
pub(crate) struct Common {
    pub(crate) serial: u64,
    pub(crate) receive_cq: Cq,
    pub(crate) receiver: KArc<Receiver>,
}

/// Takes the queue pair of a transmit ring down and builds another one. The ring gives packets back meanwhile; the others go on.
/// If it cannot be done the link is built anew. **May block.**
#[inline(never)]
pub(crate) fn replace_sender(shared: &KArc<Shared>, ring: usize, why: Why) {
    tell(shared, ring, why);
    let mut control = shared.control.lock();
    let fits = control.link.standing();
    let standing = control.datapath.as_mut().and_then(|datapath| datapath.take_sender(ring));
    drop(control);
    // Without these the link is being taken down, and the ring with it.
    let (Some((common, channel)), Some(plan)) = (standing, fits) else { return };
    suspend(shared, ring, channel);
    probes::qp_down(shared.number);
    let built = match shared.hardware() {
        Some((_, pd)) => build(shared, &pd, ring, &plan, &common.receive_cq),
        None => Err(Status::HCA_INVALID),
    };
    match built {
        Ok(side) => install(shared, ring, &common, side),
        Err(status) => {
            log!(note, shared.name, "queue pair of transmit ring {ring} could not be had: {status}");
            shared.tell(|control| {
                if control.datapath.as_ref().is_some_and(|datapath| datapath.serial() == common.serial) {
                    control.link.handle_event(now(), link::Event::Broken);
                }
            });
        }
    }
}

#[inline(never)]
fn tell(shared: &Shared, ring: usize, why: Why) {
    let name = &shared.name;
    match why {
        Why::Failed => {
            probes::qp_broken(shared.number, c"failed");
            log!(warn, name, "the queue pair of transmit ring {ring} failed; building another");
        }
        Why::Stalled => {
            probes::qp_broken(shared.number, c"stalled");
            log!(warn, name, "no send of transmit ring {ring} has completed; building another queue pair");
        }
    }
}

/// Ends the traffic of the ring and frees what it went over: with the channel goes what the adapter had of it.
#[inline(never)]
fn suspend(shared: &Shared, ring: usize, channel: UdChannel) {
    let mut pools = Pools::default();
    shared.transmitters.suspend(ring, &mut pools);
    drop(channel);
    pools.close();
    shared.retire(pools);
}

#[inline(never)]
fn build(shared: &Shared, pd: &Pd, ring: usize, plan: &Plan, receive_cq: &Cq) -> Result<Open, Status> {
    let settings = *shared.settings.lock();
    let parts = shared.parts(pd, &settings);
    Design::new(&parts, plan).send_side(ring, receive_cq)
}

#[inline(never)]
fn install(shared: &Shared, ring: usize, common: &Common, side: Open) {
    let channel = side.queue.channel().clone();
    let (qpn, serial) = (Qpn::from_low_bits(channel.qpn()), next_serial());
    let mut control = shared.control.lock();
    let place = control.datapath.as_mut().filter(|datapath| datapath.serial() == common.serial);
    let unused = match place {
        Some(datapath) => datapath.put_sender(ring, channel),
        // Stopped or taken down meanwhile.
        None => Some(channel),
    };
    if unused.is_none() {
        control.senders.replaced(now(), ring, serial);
    }
    let epoch = shared.transmitters.epoch();
    drop(control);
    if let Some(channel) = unused {
        return discard(shared, side, Some(channel));
    }
    // Who changes moderation from now on finds this one among the link's.
    let settings = *shared.settings.lock();
    let channel = side.queue.channel();
    moderate(channel.pd().hca(), channel.send_cq(), settings.transmit_moderation());
    // Before anything is sent from it that could come back.
    common.receiver.replace_sender(ring - 1, qpn);
    if let Some(side) = shared.transmitters.reopen(ring, epoch, serial, side) {
        return discard(shared, side, None);
    }
    probes::qp_up(shared.number, qpn.get());
}

/// Frees what nobody wants any more.
#[inline(never)]
fn discard(shared: &Shared, side: Open, channel: Option<UdChannel>) {
    let mut pools = Pools::default();
    side.into_pools(&mut pools);
    drop(channel);
    pools.close();
    shared.retire(pools);
}
