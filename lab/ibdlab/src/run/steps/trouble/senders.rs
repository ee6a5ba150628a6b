//! Threads of a host that send frames of their own beside its IP, so that several of them are in the driver at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fakekernel::{Ctx, HostMutex, Kernel, Nanos, Thread, now, sleep};
use lab_gldv3::{LinkAddress, Offload, Stream};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A protocol that nobody listens to: one of those that IEEE 802 keeps for experiments.
const SAP: u32 = 0x88b5;
/// Sends one behind the other, and the longest time between two such bursts in five seconds or less.
const BURST: u32 = 8;
const PAUSE: Nanos = Nanos(200_000);
/// At most so many of the longest pauses fill the time: sending for a minute costs no more than for five seconds.
const PAUSES: u64 = 25_000;
/// How long to wait for room on the link.
const PATIENCE: Nanos = Nanos::from_millis(1);
/// Lengths of what is sent: copied, mapped, and as long as the smallest link takes.
const LENGTHS: [usize; 4] = [20, 200, 700, 980];

/// Link addresses of the hosts of one link, as their senders last saw them: some are those of before.
pub type Neighbours = Arc<HostMutex<Vec<LinkAddress>>>;

/// The senders of a host's link while it is open.
#[derive(Default)]
pub struct Senders {
    stop: Arc<AtomicBool>,
    threads: Vec<Thread>,
}

impl Senders {
    /// Starts as many as `number`, which send until an instant at most. A link that cannot be opened has none.
    pub fn start(kernel: &Kernel, link: &str, number: u8, until: Nanos, neighbours: &Neighbours) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let pause = PAUSE.max(Nanos(until.since(now()).0 / PAUSES));
        let start = |index| {
            let (kernel, link, neighbours, stop) =
                (kernel.clone(), link.to_owned(), neighbours.clone(), stop.clone());
            // As there is one machine of a seed, another thread at another time is another draw.
            let seed = now().0 << 8 | u64::from(index);
            let goes_on = move || !stop.load(Ordering::Relaxed) && now() < until;
            kernel
                .clone()
                .spawn("sender", Ctx::User, move || send(&kernel, &link, &neighbours, goes_on, pause, seed))
        };
        let threads = (0..number).map(start).collect();
        Self { stop, threads }
    }

    /// Ends them: when it returns, none of them has the link open.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join());
    }
}

fn send(
    kernel: &Kernel,
    link: &str,
    neighbours: &Neighbours,
    goes_on: impl Fn() -> bool,
    pause: Nanos,
    seed: u64,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Ok(stream) = Stream::open(kernel, link) else { return };
    if stream.bind(SAP).is_err() {
        return;
    }
    while goes_on() {
        let details = stream.details();
        let to = {
            let mut known = neighbours.lock();
            if !known.contains(&details.address) {
                known.push(details.address);
            }
            let chosen = rng.random_range(0..=known.len());
            known.get(chosen).copied().unwrap_or(details.broadcast)
        };
        for _ in 0..rng.random_range(1..=BURST) {
            let payload = vec![0x5a; LENGTHS[rng.random_range(0..LENGTHS.len())]];
            // A link that is going refuses: what is sent then is nobody's.
            let _ = stream.transmit(to, &payload, Offload::default());
        }
        stream.wait_writable(now() + PATIENCE);
        sleep(Nanos(rng.random_range(0..=pause.0)));
    }
}
