//! The control thread: carries out what the machines ask for. Never waits for anything but short locks.

use core::time::Duration;

use ipoib::Instant;
use ipoib::link::{self, SaError};
use kernel::sync::MonitorGuard;
use kernel::thread::{Parker, Worker};
use kernel::{AllocError, KArc, log};

use super::Shared;
use super::control::{Control, Effect, Note};
use super::jobs::Job;
use super::run::{refuse, run};
use crate::{kernel_instant, now};

/// How often the transmit queue's cache is asked which addresses were used, and unused memory is given back.
const SWEEP: Duration = Duration::from_secs(10);

/// Starts the control thread. **May block.**
pub(crate) fn spawn(shared: &KArc<Shared>) -> Result<Worker<Control>, AllocError> {
    let body = shared.clone();
    Worker::spawn(c"ibd_control", shared.control.clone(), move |parker| live(parker, &body))
}

fn live(parker: &Parker<'_, Control>, shared: &KArc<Shared>) {
    let mut sweep = now() + SWEEP;
    let mut control = parker.lock();
    while !parker.should_stop() {
        let time = now();
        if time >= sweep {
            sweep = time + SWEEP;
            drop(control);
            shared.transmitter.report_used();
            carry_out(shared, Effect::Job(Job::Tidy));
            control = parker.lock();
        }
        control.handle_timeout(time);
        match control.next_effect(time) {
            Some(effect) => {
                drop(control);
                carry_out(shared, effect);
                control = parker.lock();
            }
            None => wait(parker, &mut control, sweep),
        }
    }
}

fn wait<'a>(parker: &Parker<'a, Control>, control: &mut MonitorGuard<'a, Control>, sweep: Instant) {
    // An idle link has nothing to sweep.
    let sweep = (!control.outstanding().is_nothing()).then_some(sweep);
    let next = [control.deadline(), sweep].into_iter().flatten().min();
    parker.wait_until(control, next.map(kernel_instant));
}

/// With no lock held.
#[inline(never)]
fn carry_out(shared: &KArc<Shared>, effect: Effect) {
    match effect {
        // These two only ask; the answer calls back.
        Effect::Job(job @ (Job::Lookup(_) | Job::JoinGroup(..) | Job::JoinBroadcast(..))) => run(shared, job),
        Effect::Job(job) => queue(shared, job),
        Effect::Packets => shared.transmitter.send_resolved(),
        Effect::Unbind(to) => shared.transmitter.unbind(&to),
        Effect::UnbindAll => shared.transmitter.unbind_all(),
        Effect::Announce(status) => shared.announcer.announce(status),
        Effect::TearDown(None) => {}
        Effect::TearDown(Some(datapath)) => queue(shared, Job::TakeDown(datapath)),
        Effect::Answer(answered) => shared.answer(answered),
        Effect::Note(note) => print(shared, note),
    }
}

fn queue(shared: &KArc<Shared>, job: Job) {
    match shared.jobs.push(job) {
        Ok(()) => {}
        // Nobody can refuse these: done here, at the price of waiting for the adapter.
        Err(job @ (Job::TakeDown(_) | Job::LargeBuffers)) => run(shared, job),
        Err(job) => refuse(shared, job),
    }
}

#[inline(never)]
fn print(shared: &Shared, note: Note) {
    let name = shared.name;
    match note {
        Note::Link(link::Note::BroadcastAbsent) => log!(note, name, "IPoIB broadcast group absent"),
        Note::Link(link::Note::CreateFailed(error)) => {
            log!(note, name, "IPoIB broadcast group absent, create failed: ret = {}", status(error));
        }
        Note::Link(link::Note::JoinFailed(error)) => {
            log!(note, name, "IPoIB broadcast group join failed: ret = {}", status(error));
        }
        Note::Link(link::Note::MtuTooLarge(group, port)) => log!(
            note,
            name,
            "IPoIB broadcast group MTU {} greater than port's maximum MTU {}",
            group.bytes(),
            port.bytes()
        ),
        Note::Link(link::Note::BuildFailed) => {
            log!(note, name, "no queue pair or buffers; will be tried again")
        }
        Note::Link(link::Note::Broken) => log!(warn, name, "the queue pair failed; building another"),
        Note::JoinFailed(group, false) => log!(note, name, "Join multicast group failed :{group:?}"),
        Note::JoinFailed(group, true) => {
            log!(note, name, "Failure on port up to rejoin multicast gid {group:?}");
        }
        Note::Missed(group) => log!(note, name, "IBA promiscuous mode missed multicast gid {group:?}"),
    }
}

fn status(error: SaError) -> i32 {
    match error {
        SaError::Refused(status) | SaError::Unanswered(status) => status,
    }
}
