//! The thread outside the machine: orders to OpenSM, and what it decided.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use opensm::{OpenSm, Poll, SmEvent, SmWatch};

use super::Shared;

/// What the thread is to carry out; it reads everything afterwards.
pub(super) type Order = Box<dyn FnOnce(Option<&OpenSm>, &Shared) + Send>;

/// Ends the thread, and OpenSM with it, when dropped.
pub(super) struct Mirror {
    shared: Arc<Shared>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Between polls of the manager's SMInfo, which says whether there is something to read.
const POLL: Duration = Duration::from_millis(10);
/// Between readings when it says there is nothing.
const REREAD: Duration = Duration::from_secs(1);
/// An SMP may be counted before it has taken effect: so often what was read is read again.
const AGAIN: u32 = 3;

/// Starts the thread.
pub(super) fn spawn(shared: Arc<Shared>, orders: Receiver<Order>) -> io::Result<Mirror> {
    let (end, ended) = channel();
    let inner = shared.clone();
    let thread = std::thread::Builder::new()
        .name("OpenSM mirror".to_owned())
        .spawn(move || Reader::new(&inner).run(&orders, &ended))?;
    Ok(Mirror { shared, end: Some(end), thread: Some(thread) })
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The last one but for a send that is under way ends OpenSM and ibsim.
        let opensm = self.shared.mail.lock().opensm.take();
        drop(opensm);
    }
}

struct Reader<'a> {
    shared: &'a Shared,
    watch: SmWatch,
    /// The manager's count of SMPs when it was last asked.
    counted: Option<u32>,
    /// How often to read on, whatever the count says.
    again: u32,
    read_at: Instant,
    /// A new manager is there, and its administrator does not answer yet.
    awaited: bool,
}

impl<'a> Reader<'a> {
    #[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            watch: SmWatch::new(),
            counted: None,
            again: AGAIN,
            read_at: Instant::now(),
            awaited: false,
        }
    }

    fn run(&mut self, orders: &Receiver<Order>, ended: &Receiver<()>) {
        loop {
            match orders.recv_timeout(POLL) {
                Ok(work) => {
                    let opensm = self.shared.mail.lock().opensm.clone();
                    work(opensm.as_deref(), self.shared);
                    self.again = AGAIN;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
                return;
            }
            let opensm = self.shared.mail.lock().opensm.clone();
            if let Some(opensm) = opensm {
                self.look(&opensm);
            }
        }
    }

    /// One poll, and what follows from it.
    #[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
    fn look(&mut self, opensm: &OpenSm) {
        let poll = opensm.poll_manager();
        if let Some(SmEvent::New(_)) = self.watch.poll(poll) {
            self.awaited = true;
        }
        if let Poll::Answer(info) = poll
            && self.counted.replace(info.act_count) != Some(info.act_count)
        {
            self.again = AGAIN;
        }
        let due = self.read_at.elapsed() >= REREAD;
        if self.again == 0 && !due {
            return;
        }
        self.again = self.again.saturating_sub(1);
        self.read_at = Instant::now();
        self.read(opensm, due);
    }

    fn read(&mut self, opensm: &OpenSm, check: bool) {
        // OpenSM has to answer before it is any use to register with it.
        let reregister = self.awaited && self.watch.master().is_some() && opensm.answers();
        // An adapter that does not answer in time is read the next time.
        let snapshot = opensm.snapshot().ok();
        let failure = if check { opensm.check().err().map(|error| error.to_string()) } else { None };
        let mut mail = self.shared.mail.lock();
        if mail.relinking == 0 && snapshot.is_some() {
            mail.snapshot = snapshot;
        }
        if reregister {
            self.awaited = false;
            mail.reregister = true;
        }
        mail.failure = failure.or(mail.failure.take());
        drop(mail);
        self.shared.work.wake_all();
        if self.awaited {
            self.again = AGAIN;
        }
    }
}
