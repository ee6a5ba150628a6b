//! Sends that do not complete. Either the fabric gives the port no credits, which passes and loses nothing, or the queue pair hangs, which
//! another one ends at the price of the link's address. [`ipoib::link::Stall`] says which; this does what it asks for.
//!
//! The second observation is one small packet from a queue pair that exists for it alone ([`Trial`]). It goes to where the oldest send goes
//! that is stuck: a port without credits on one virtual lane may have some on another. A packet to the port itself would not do: an adapter
//! loops it back without any credits.

use core::time::Duration;

use ibtf::{
    BufferPool, BufferUse, ChannelSizes, CompletionBatch, Pd, SendOptions, SendQueue, Status, UdDest,
};
use ipoib::Instant;
use ipoib::link::{Event, GRACE, Generation, Look, Stall, Standing, Why};
use kernel::sync::Mutex;
use kernel::{KArc, KBox, KVec, MayBlock, log};

use super::Shared;
use super::build_context::BuildContext;
use super::interrupts::Interrupts;
use super::job_queue::Job;
use super::neighbour::NeighbourPath;
use super::queue_pairs::{QpKeys, QueueConfig, QueuePairHandles};
use super::transmit::Abilities;
use crate::now;

/// An IPoIB header and no payload. The type is for local experiments (IEEE 802): every receiver drops it.
const PACKET: [u8; 4] = [0x88, 0xb5, 0, 0];

/// A queue pair that sends one packet.
pub(super) struct Trial {
    queue: SendQueue<(), NeighbourPath>,
    pool: BufferPool,
    completions: CompletionBatch,
}

/// What is known of the sends of one transmit ring.
#[derive(Default)]
struct Watched {
    /// Which generation it is about.
    generation: Option<Generation>,
    stall: Stall,
    trial: Option<KBox<Trial>>,
}

/// Those of all transmit rings of a link.
pub(super) struct Trials(Mutex<KVec<Watched>>);

impl Trials {
    /// **May block.**
    pub(super) fn new(rings: usize, may_block: &MayBlock) -> Self {
        let rings = KVec::from_fn_waiting(rings, may_block, |_| Watched::default());
        Self(Mutex::new_waiting(rings, may_block))
    }

    /// Looks at a ring whose sends are of this generation; and whether they wait.
    fn look(
        &self,
        ring: usize,
        progress: Option<(Generation, Option<u32>)>,
        time: Instant,
        timeout: Duration,
    ) -> (Look, bool) {
        let (generation, progress) = progress.unzip();
        let mut all = self.0.lock();
        let Some(watched) = all.get_mut(ring) else { return (Look::Nothing, false) };
        if watched.generation != generation {
            (watched.generation, watched.stall) = (generation, Stall::default());
        }
        if watched.trial.as_mut().is_some_and(|trial| trial.has_completed()) {
            watched.stall.trial_completed(time);
        }
        let look = watched.stall.look(time, timeout, progress.flatten());
        (look, watched.stall.is_told())
    }

    /// Drop it where it **may block**.
    fn take(&self, ring: usize) -> Option<KBox<Trial>> {
        self.0.lock().get_mut(ring)?.trial.take()
    }

    fn put(&self, ring: usize, trial: KBox<Trial>) -> Option<KBox<Trial>> {
        match self.0.lock().get_mut(ring) {
            Some(watched) => watched.trial.replace(trial),
            None => Some(trial),
        }
    }

    /// Nobody watches any more.
    fn forget(&self) {
        self.0.lock().iter_mut().for_each(|watched| watched.stall = Stall::default());
    }

    /// Ends all that are tried. **May block.**
    pub(super) fn end(&self) {
        let rings = self.0.lock().len();
        (0..rings).filter_map(|ring| self.take(ring)).for_each(end);
    }
}

impl Trial {
    /// Makes the queue pair and posts its packet. What was made before a failure undoes itself. **May block.**
    #[inline(never)]
    fn begin(
        parts: &BuildContext<'_>,
        handles: &QueuePairHandles,
        (ring, standing): (usize, &Standing),
        dest: &KArc<UdDest<NeighbourPath>>,
    ) -> Result<KBox<Self>, Status> {
        let sizes = ChannelSizes { send: 1, receive: 1, send_sgl: 1, receive_sgl: 1 };
        let config = QueueConfig { sizes, abilities: Abilities::NONE };
        let keys = QpKeys { pkey_index: standing.plan.pkey_index, qkey: standing.plan.qkey };
        let channel = config.channel(parts, ring, handles.first()?.receive_cq(), keys)?;
        let pool = BufferPool::new(parts.pd, 1, PACKET.len() as u32, BufferUse::Send)?;
        let queue = SendQueue::new(&channel, 1, 1, 1)?;
        drop(channel);
        // Nothing may fail any more once the adapter has the buffer.
        let mut trial = KBox::new(Self { queue, pool, completions: CompletionBatch::new(1)? })?;
        match trial.send(dest) {
            Ok(()) => Ok(trial),
            Err(status) => {
                end(trial);
                Err(status)
            }
        }
    }

    fn send(&mut self, dest: &KArc<UdDest<NeighbourPath>>) -> Result<(), Status> {
        let mut buffer = self.pool.take().ok_or(Status::INSUFF_RESOURCE)?;
        buffer.fill(&PACKET);
        let staged = self.queue.stage_buffer(dest, buffer, SendOptions::default(), ());
        staged.map_err(|refused| refused.why)?;
        self.queue.post(|_, _| ()).map(drop).map_err(|failure| failure.why)
    }

    fn has_completed(&mut self) -> bool {
        let Self { queue, completions, .. } = self;
        let cq = queue.channel().send_cq();
        cq.poll(completions).is_ok_and(|count| count != 0)
            && completions.take().is_some_and(|completion| completion.status().is_success())
    }
}

/// Frees the queue pair, and then its buffer: with the queue pair goes what the adapter had of it.
fn end(trial: KBox<Trial>) {
    let Trial { queue, pool, .. } = trial.into_inner();
    drop(queue);
    drop(pool.close());
}

/// Looks at all transmit queues; when to look again.
#[inline(never)]
pub(super) fn watch(shared: &KArc<Shared>, time: Instant, timeout: Duration, longest: Duration) -> Duration {
    let mut some_wait = false;
    for (ring, transmitter) in shared.transmitters.iter().enumerate() {
        let progress = transmitter.progress();
        let (look, waits) = shared.trials.look(ring, progress, time, timeout);
        some_wait |= waits;
        match look {
            Look::Begins => transmitter.is_late(),
            Look::Broken => transmitter.broken(progress.map(|(generation, _)| generation), Why::Stalled),
            Look::Nothing | Look::Try | Look::Over(_) => {}
        }
        follow(shared, ring, look, timeout);
    }
    shared.control.lock().sends_wait = some_wait;
    (timeout / 4).min(if some_wait { GRACE } else { longest })
}

/// Nobody is to watch any more.
pub(super) fn forget(shared: &Shared) {
    if core::mem::take(&mut shared.control.lock().sends_wait) {
        shared.trials.forget();
        (0..shared.transmitters.len()).for_each(|ring| queue(shared, Job::EndTrial(ring)));
    }
}

#[inline(never)]
fn follow(shared: &KArc<Shared>, ring: usize, look: Look, timeout: Duration) {
    let name = &shared.name;
    match look {
        Look::Nothing => {}
        Look::Begins => {
            let seconds = timeout.as_secs();
            log!(note, name, "no send has completed for {seconds} s; another queue pair is tried");
            // A port that is not active any more sends nothing either, and may not have said so.
            shared.tell(|control| control.link.handle_event(now(), Event::PortEvent));
            queue(shared, Job::Try(ring));
        }
        Look::Try => queue(shared, Job::Try(ring)),
        Look::Over(after) => {
            log!(note, name, "sends complete again, after {} s", after.as_secs());
            queue(shared, Job::EndTrial(ring));
        }
        Look::Broken => queue(shared, Job::EndTrial(ring)),
    }
}

/// Without a place in the queue a trial is begun later, and ended later: with the next one, or with the traffic.
fn queue(shared: &Shared, job: Job) {
    let refused = shared.jobs.push(job);
    drop(refused);
}

/// [`Job::Try`]. **May block.**
#[inline(never)]
pub(super) fn begin(shared: &KArc<Shared>, ring: usize) {
    end_of(shared, ring);
    let Some(dest) = shared.transmitters.of(ring).and_then(|transmitter| transmitter.oldest_dest()) else {
        return;
    };
    let control = shared.control.lock();
    let standing = control.link.standing();
    let handles = control.queue_pairs.as_ref().map(|pairs| pairs.handles());
    drop(control);
    let (Some(standing), Some(Ok(handles))) = (standing, handles) else { return };
    let begun = match (shared.hardware(), shared.interrupts()) {
        (Some((_, pd)), Some(interrupts)) => {
            try_beside(shared, (&pd, &interrupts), &handles, (ring, &standing), &dest)
        }
        _ => return,
    };
    match begun {
        Ok(trial) => keep(shared, &standing, ring, trial),
        Err(status) => log!(note, shared.name, "cannot try another queue pair: {status}"),
    }
}

#[inline(never)]
fn try_beside(
    shared: &Shared,
    (pd, interrupts): (&Pd, &Interrupts),
    handles: &QueuePairHandles,
    place: (usize, &Standing),
    dest: &KArc<UdDest<NeighbourPath>>,
) -> Result<KBox<Trial>, Status> {
    let settings = *shared.settings.lock();
    Trial::begin(&shared.parts(pd, interrupts, &settings), handles, place, dest)
}

/// Keeps it as long as the traffic stands that it is for. Who ends that takes the trial afterwards.
fn keep(shared: &Shared, standing: &Standing, ring: usize, trial: KBox<Trial>) {
    let control = shared.control.lock();
    let unwanted = match control.link.stands(standing.generation) {
        true => shared.trials.put(ring, trial),
        false => Some(trial),
    };
    drop(control);
    unwanted.into_iter().for_each(end);
}

/// [`Job::EndTrial`]. **May block.**
pub(super) fn end_of(shared: &Shared, ring: usize) {
    shared.trials.take(ring).into_iter().for_each(end);
}
