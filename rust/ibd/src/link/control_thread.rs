//! The control thread: carries out what the machines ask for. It waits for short locks, and for the adapter only when the worker's queue
//! of jobs is full.

use core::fmt;
use core::time::Duration;

use ipoib::Instant;
use ipoib::link::{self, SaError};
use kernel::sync::MonitorGuard;
use kernel::thread::{Parker, Worker};
use kernel::{KArc, MayBlock, log};

use super::Shared;
use super::backlog::Backlog;
use super::control::{Control, Effect, Note};
use super::fma::Fault;
use super::job_queue::Job;
use super::outgoing::{TooBigReport, answer};
use super::qp_jobs;
use super::sa_calls::Call;
use super::trials;
use super::worker::{large_buffers, refuse};
use crate::counters::LinkState;
use crate::{kernel_instant, now, probes};

/// How often memory that nobody uses any more is given back.
const TIDY: Duration = Duration::from_secs(10);

/// Starts the control thread. **May block.**
pub(crate) fn spawn(shared: &KArc<Shared>, may_block: &MayBlock) -> Worker<Control> {
    let body = shared.clone();
    Worker::spawn(c"ibd_control", shared.control.clone(), may_block, move |parker| live(parker, &body))
}

fn live(parker: &Parker<'_, Control>, shared: &KArc<Shared>) {
    let (mut tidy, mut watch) = (now() + TIDY, now());
    let mut control = parker.lock();
    while !parker.should_stop() {
        let time = now();
        if core::mem::take(&mut control.timeout_is_new) {
            watch = time;
        }
        if time >= tidy {
            control.carries_out = true;
            drop(control);
            tidy = time + TIDY;
            carry_out(shared, Effect::Job(Job::Tidy));
            control = parker.lock();
        }
        if time >= watch && control.link.has_traffic() {
            drop(control);
            watch = time + watch_sends(shared, time);
            control = parker.lock();
        }
        control.handle_timeout(time);
        shared.counters.state.show(control.state(), control.link.broadcast_state());
        match control.next_effect(time) {
            Some(effect) => {
                drop(control);
                carry_out(shared, effect);
                control = parker.lock();
            }
            None => wait(parker, shared, &mut control, [tidy, watch]),
        }
    }
}

fn wait<'a>(
    parker: &Parker<'a, Control>,
    shared: &Shared,
    control: &mut MonitorGuard<'a, Control>,
    [tidy, watch]: [Instant; 2],
) {
    // An idle link has nothing to give back, unless it waits for buffers of a queue pair that is gone, and one without a queue pair
    // nothing to watch.
    let idle = control.outstanding().is_nothing() && shared.retired.lock().len() == 0;
    let tidy = (!idle).then_some(tidy);
    let watch = control.link.has_traffic().then_some(watch);
    let next = [control.deadline(), tidy, watch].into_iter().flatten().min();
    parker.wait_until(control, next.map(kernel_instant));
}

/// Sees whether sends complete; when to look again.
fn watch_sends(shared: &KArc<Shared>, time: Instant) -> Duration {
    let timeout = shared.settings.lock().transmit_timeout();
    let Some(timeout) = timeout else {
        trials::forget(shared);
        return TIDY;
    };
    trials::watch(shared, time, timeout, TIDY)
}

/// For whoever traces, and for the log if it is to have it.
#[inline(never)]
fn announce(shared: &Shared, state: LinkState) {
    probes::link_state(shared.number, state.name());
    shared.counters.history.note(state, kernel::time::Instant::now());
    if shared.is_talkative(1) {
        // One place each: of two states within a second both are told.
        let name = &shared.name;
        match state {
            LinkState::Stopped => log!(note, name, "link: stopped"),
            LinkState::Port => log!(note, name, "link: waits for port"),
            LinkState::PKey => log!(note, name, "link: waits for P_Key"),
            LinkState::BroadcastGroup => log!(note, name, "link: waits for broadcast group"),
            LinkState::QueuePair => log!(note, name, "link: waits for queue pair"),
            LinkState::Up | LinkState::SendsWait => log!(note, name, "link: up"),
        }
    }
}

/// With no lock held.
#[inline(never)]
fn carry_out(shared: &KArc<Shared>, effect: Effect) {
    match effect {
        Effect::Job(job) => queue(shared, job),
        Effect::Call(call) => ask(shared, call),
        Effect::Owe(debt) => shared.owe(debt),
        Effect::Packets => shared.transmitters.send_resolved(),
        Effect::Waited => {
            // Whatever they came to: the order is kept by the connection.
            if let Some(transmitter) = shared.transmitters.of(0) {
                transmitter.send_waited();
            }
        }
        Effect::TooBig(report) => tell_too_big(shared, report),
        Effect::Address(address) => shared.announcer.announce_address(address),
        Effect::Announce(status) => {
            announce(shared, status.into());
            if let link::Status::Up(_) = status {
                shared.restored();
            }
            shared.announcer.announce(status);
        }
        Effect::TearDown(up_to) => queue(shared, Job::End(up_to)),
        Effect::Answer(answered) => shared.answer(answered),
        Effect::Note(note) => print(shared, note),
    }
}

/// IP hears that a packet is longer than what goes to its neighbour.
#[inline(never)]
fn tell_too_big(shared: &Shared, report: TooBigReport) {
    let own = shared.control.lock().link.address();
    let answer = own.and_then(|own| answer(&report, &own));
    drop(report);
    if let Some(answer) = answer {
        let unwanted = shared.delivery.tell(answer);
        drop(unwanted);
        Backlog::leave(&shared.backlog);
    }
}

fn queue(shared: &KArc<Shared>, job: Job) {
    match shared.jobs.push(job) {
        Ok(()) => {}
        // Nobody can refuse these: done here, at the price of waiting for the adapter.
        Err(Job::End(up_to)) => qp_jobs::end(shared, up_to),
        Err(Job::LargeBuffers) => large_buffers(shared),
        Err(job) => {
            log!(note, shared.name, "too many requests to the adapter wait; will repeat one");
            refuse(shared, job);
        }
    }
}

fn ask(shared: &Shared, call: Call) {
    if let Err(call) = shared.pool.push(shared.number, call) {
        log!(note, shared.name, "too many requests to the SA wait; will repeat one");
        call.refuse(shared);
    }
}

#[inline(never)]
fn print(shared: &KArc<Shared>, note: Note) {
    let name = &shared.name;
    match note {
        Note::Link(link::Note::BroadcastAbsent) => log!(note, name, "IPoIB broadcast group absent"),
        Note::Link(link::Note::CreateFailed(error)) => {
            log!(note, name, "IPoIB broadcast group absent, create failed: ret = {}", Ret(error));
        }
        Note::Link(link::Note::JoinFailed(error)) => {
            log!(note, name, "IPoIB broadcast group join failed: ret = {}", Ret(error));
        }
        Note::Link(link::Note::Moved(from, to)) => {
            log!(note, name, "two IPoIB broadcast groups: leaves {from:?} for {to:?}");
        }
        Note::Link(link::Note::MtuTooLarge(group, port)) => log!(
            note,
            name,
            "IPoIB broadcast group MTU {} greater than port's maximum MTU {}",
            group.bytes(),
            port.bytes()
        ),
        Note::Link(link::Note::BuildFailed) => {
            log!(note, name, "no queue pair or buffers; will try again")
        }
        Note::Link(link::Note::Stalled) => {
            probes::qp_broken(shared.number, c"stalled");
            shared.counters.history.stalled.increment();
            queue(shared, Job::Report(Fault::Stalled));
            log!(warn, name, "the queue pair hangs, and another one sends; making another queue pair");
        }
        Note::Link(link::Note::Broken) => {
            probes::qp_broken(shared.number, c"failed");
            shared.counters.history.failed.increment();
            if shared.control.lock().failures.take_fault() {
                queue(shared, Job::Report(Fault::Broken));
            }
            log!(warn, name, "the queue pair failed; making another one");
        }
        Note::JoinFailed(group, false) => log!(note, name, "Join multicast group failed :{group:?}"),
        Note::JoinFailed(group, true) => {
            log!(note, name, "Failure on port up to rejoin multicast gid {group:?}");
        }
        Note::SendRefused(status) => log!(note, name, "the adapter refused to send a packet: {status}"),
        Note::NoRoom => log!(note, name, "too many multicast groups at once: some are not reached or heard"),
        Note::Misses(number) => {
            log!(
                note,
                name,
                "no place for {number} multicast groups or more that promiscuous mode would hear"
            );
        }
        Note::Missed(group) => log!(note, name, "IBA promiscuous mode missed multicast gid {group:?}"),
    }
}

/// A status as the C driver's log has it; that of a module's failure is a pattern of bits, which has no number in any manual.
struct Ret(SaError);

impl fmt::Display for Ret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SaError::Refused(status) | SaError::Unanswered(status) | SaError::NotAsked(status)
                if status < 0 =>
            {
                write!(f, "{status:#x}")
            }
            SaError::Refused(status) | SaError::Unanswered(status) | SaError::NotAsked(status) => {
                write!(f, "{status}")
            }
            // The log has what is wrong with the record.
            SaError::Unusable => f.write_str("0"),
        }
    }
}
