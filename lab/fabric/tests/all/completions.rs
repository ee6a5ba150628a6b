//! Whatever happens, every posted work request completes exactly once, and each queue's in the order of posting.

use crate::rig::*;
use fabric::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Send { from: bool, len: u16 },
    BadKey { from: bool },
    Recv { at: bool, room: u16 },
    Poll { at: bool, max: usize },
    Flush { at: bool },
    Recover { at: bool },
    Cable { at: bool, plugged: bool },
    Tick { by: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<bool>(), 0..2100u16).prop_map(|(from, len)| Step::Send { from, len }),
        1 => any::<bool>().prop_map(|from| Step::BadKey { from }),
        8 => (any::<bool>(), 0..2200u16).prop_map(|(at, room)| Step::Recv { at, room }),
        4 => (any::<bool>(), 1..20usize).prop_map(|(at, max)| Step::Poll { at, max }),
        1 => any::<bool>().prop_map(|at| Step::Flush { at }),
        2 => any::<bool>().prop_map(|at| Step::Recover { at }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(at, plugged)| Step::Cable { at, plugged }),
        4 => (0..3000u64).prop_map(|by| Step::Tick { by }),
    ]
}

/// What one host posted and what it got back.
#[derive(Default)]
struct Ledger {
    sends: Vec<u64>,
    recvs: Vec<u64>,
    sent: Vec<u64>,
    received: Vec<u64>,
}

struct Run {
    world: World,
    ledgers: [Ledger; 2],
    next: u64,
    now: u64,
}

impl Run {
    fn send(&mut self, i: usize, len: usize, bad_key: bool) {
        let (host, peer) = (&self.world.hosts[i], &self.world.hosts[1 - i]);
        let mut wr = host.request(self.next, &vec![1; len], host.to(peer));
        if bad_key {
            wr.sgl[0].lkey = 1;
            wr.sgl[0].len = 4;
        }
        if host.hca.post_send(&host.qp, wr).is_ok() {
            self.ledgers[i].sends.push(self.next);
        }
        self.next += 1;
    }

    fn recv(&mut self, i: usize, room: usize) {
        let host = &self.world.hosts[i];
        let wr = RecvWr { id: self.next, sgl: vec![host.sge(slot(self.next % 50), room)] };
        if host.hca.post_recv(&host.qp, wr).is_ok() {
            self.ledgers[i].recvs.push(self.next);
        }
        self.next += 1;
    }

    fn poll(&mut self, i: usize, max: usize) {
        let host = &self.world.hosts[i];
        let mut out = Vec::new();
        let _ = host.hca.poll_cq(&host.scq, max, &mut out);
        self.ledgers[i].sent.extend(out.drain(..).map(|c| c.wr_id));
        let _ = host.hca.poll_cq(&host.rcq, max, &mut out);
        self.ledgers[i].received.extend(out.iter().map(|c| c.wr_id));
    }

    fn carry_out(&mut self, step: &Step) {
        match *step {
            Step::Send { from, len } => self.send(usize::from(from), usize::from(len), false),
            Step::BadKey { from } => self.send(usize::from(from), 4, true),
            Step::Recv { at, room } => self.recv(usize::from(at), usize::from(room)),
            Step::Poll { at, max } => self.poll(usize::from(at), max),
            Step::Flush { at } => {
                self.world.hosts[usize::from(at)].hca.flush_qp(&self.world.hosts[usize::from(at)].qp).unwrap()
            }
            Step::Recover { at } => {
                let host = &self.world.hosts[usize::from(at)];
                let _ = host.hca.recover_qp(&host.qp);
            }
            Step::Cable { at, plugged } => {
                let host = &self.world.hosts[usize::from(at)];
                self.world.fabric.set_cable(host.port, plugged).unwrap();
                if plugged {
                    activate(&self.world.fabric, host.port, host.lid);
                }
            }
            Step::Tick { by } => {
                self.now += by;
                self.world.clock.set(Nanos(self.now));
                self.world.fabric.pump(Nanos(self.now));
            }
        }
    }

    /// Flushes, drains and compares.
    fn finish(mut self) -> Result<(), TestCaseError> {
        self.world.settle();
        for i in 0..2 {
            let host = &self.world.hosts[i];
            host.hca.flush_qp(&host.qp).unwrap();
            self.poll(i, 1000);
            let ledger = &self.ledgers[i];
            prop_assert_eq!(&ledger.sent, &ledger.sends);
            prop_assert_eq!(&ledger.received, &ledger.recvs);
        }
        Ok(())
    }
}

fn faulty() -> LinkFaults {
    let often = Probability::per_million(150_000);
    LinkFaults {
        only: Only::All,
        loss: often,
        duplicate: often,
        corrupt: often,
        corrupt_inside: often,
        reorder: often,
        reorder_by: Nanos(2500),
        delay: Nanos(100),
        jitter: Nanos(400),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_completes_exactly_once_and_in_order(
        steps in proptest::collection::vec(step(), 1..250),
        latency in prop_oneof![Just(0u64), Just(700)],
        faults: bool,
    ) {
        let world = world_with(2, |c| c.send_latency = Nanos(latency));
        if faults {
            for h in &world.hosts {
                world.fabric.set_faults(h.port, faulty(), faulty());
            }
        }
        let mut run = Run { world, ledgers: Default::default(), next: 0, now: 0 };
        for step in &steps {
            run.carry_out(step);
        }
        run.finish()?;
    }
}
