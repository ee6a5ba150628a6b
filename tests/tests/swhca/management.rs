//! Management of the ports that is the module's own.

use std::sync::{Arc, Mutex};

use sm::{Arrival, Inbound, Lid, Mad, PKey, Qpn, Sl, SmAddress};

use super::bench::{Bench, Setup};

/// What came back.
#[derive(Default)]
struct Heard(Mutex<Vec<[u8; 256]>>);

impl Inbound for Heard {
    fn receive(&self, arrival: &Arrival) {
        self.0.lock().expect("nobody panics with it").push(arrival.mad.0);
    }
}

/// Asks queue pair 1 at a LID for an attribute of performance management, from alpha's port; the answer.
fn ask(bench: &Bench, lid: u16, attribute: u16) -> Option<[u8; 256]> {
    let wire = lab_ibtf::wire(&bench.software.kernel);
    let (heard, mut mad) = (Arc::new(Heard::default()), [0; 256]);
    let inbound: Arc<dyn Inbound> = heard.clone();
    wire.attach(bench.alpha.port, &inbound);
    mad[..4].copy_from_slice(&[1, 4, 1, 1]);
    mad[8..16].fill(0x42);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[65] = 1;
    let to = SmAddress { lid: Lid(lid), sl: Sl::truncating(0), qpn: Qpn::GSI, p_key: PKey(0xffff) };
    wire.send(bench.alpha.port, to, &Mad(mad)).expect("the port is up");
    fakekernel::sleep(fakekernel::Nanos::from_millis(10));
    wire.detach(bench.alpha.port, &inbound);
    let answers = heard.0.lock().expect("nobody panics with it");
    answers.iter().find(|mad| mad[1] == 4 && mad[8..16] == [0x42; 8]).copied()
}

/// Packets that a port has sent and received, groups' left out.
fn unicasts(bench: &Bench, lid: u16) -> (u64, u64) {
    let answer = ask(bench, lid, 0x1d).expect("performance management answers");
    let value = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().expect("eight bytes"));
    (value(104), value(112))
}

#[test]
fn each_port_answers_for_its_counters() {
    Setup::default().run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"the way is known now");
        let before = (unicasts(bench, 1), unicasts(bench, 2));
        for _ in 0..10 {
            alpha.reaches(&beta, b"one more");
        }
        let after = (unicasts(bench, 1), unicasts(bench, 2));
        // What alpha's port asked and was answered counts, too: at least the packets.
        assert!(after.0.0 >= before.0.0 + 10, "{before:?} {after:?}");
        assert_eq!(after.1, (before.1.0, before.1.1 + 10), "beta's port has received, and nothing else");
        let info = ask(bench, 2, 0x01).expect("performance management answers");
        assert_eq!((info[3], info[64..66].to_vec()), (0x81, vec![1, 1]));
        assert_eq!(ask(bench, 2, 0x99).expect("it is refused")[4..6], [0, 0x0c]);
        assert_eq!(ask(bench, 7, 0x12), None, "there is no such port");
    });
}
