//! A program's MADs over ibsim, which has neither times nor segments, to a real OpenSM. In real time: waits for conditions.

use std::time::{Duration, Instant};

use fabric::{Guid, HcaConfig, PortState};
use fakekernel::{Config, Machine, Nanos};
use lab_ibtf::umad::{File, open};
use lab_ibtf::{InfiniBand, saa::OpenSmManager};
use sm::records::{ClassPortInfo, NodeRecord, Record, node_mask};
use sm::{Attribute, Method, Partition, QKey, Qpn, SaMad};
use umad::{AskError, Device, Errno, Header, Layout, Methods, Registration, SaClient};

const ALICE: u64 = 0x0002_c903_0000_1000;
const BOB: u64 = 0x0002_c903_0000_2000;
const PATIENCE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
fn run(test: impl FnOnce(&dyn Fn() -> File, &OpenSmManager) + Send + 'static) {
    let machine = Machine::new(Config::live());
    let infiniband = InfiniBand::new(&machine, 1);
    let host = machine.add_host("alice");
    lab_ibtf::provide(&host);
    let outcome = machine.run(move || {
        for node in [ALICE, BOB] {
            infiniband.add_hca(&host, HcaConfig::new(Guid(node), 1)).expect("an adapter");
        }
        let opensm = infiniband.start_opensm(vec![Partition::default_open()]).expect("OpenSM");
        let end = Instant::now() + PATIENCE;
        let up =
            || infiniband.fabric().subnet_ports().iter().all(|port| port.attr.state == PortState::Active);
        while !up() {
            assert!(Instant::now() < end, "the ports do not come up");
            fakekernel::sleep(Nanos::from_millis(10));
        }
        test(&|| open(&host, Guid(ALICE + 1)).expect("the device"), &opensm);
    });
    outcome.unwrap_or_else(|halt| panic!("{halt}"));
}

fn request(
    file: &mut File,
    transaction: u64,
    attribute: Attribute,
    timeout_ms: u32,
    retries: u32,
) -> Vec<u8> {
    let agent = file.register(&Registration::subnet_administration(Methods::NONE)).expect("an agent");
    let header = Header {
        agent: agent.0,
        timeout_ms,
        retries,
        qpn: Qpn::GSI,
        q_key: QKey::GSI,
        lid: file.administrator().expect("it is there").lid,
        ..Header::default()
    };
    let mad = SaMad::request(Method::GET_TABLE, attribute, transaction, 0).emit();
    [&header.emit(Layout::New)[..], &mad.0].concat()
}

/// Asks until OpenSM answers: its ports are active before it is ready to, and on a busy machine that shows.
#[expect(clippy::disallowed_methods, reason = "a real OpenSM lives on the wall clock")]
fn asks_until_answered(client: &mut SaClient<File>) {
    let end = Instant::now() + PATIENCE;
    while let Err(error) = client.get(0, &ClassPortInfo::default()) {
        assert!(Instant::now() < end, "no answer within {PATIENCE:?}, at last {error:?}");
        fakekernel::sleep(Nanos::from_millis(100));
    }
}

#[test]
fn a_table_that_ibsim_may_have_cut_is_marked_and_a_narrow_one_is_whole() {
    run(|device, _| {
        let mut client = SaClient::new(device()).expect("an agent");
        asks_until_answered(&mut client);
        let nobody = NodeRecord::parse(&[0; NodeRecord::LEN]).expect("zeros are a record");
        let all = client.table(0, &nobody).expect("an answer");
        assert!(all.cut && all.records.len() == 1, "{all:?}");
        let bob = NodeRecord { port_guid: sm::Guid(BOB + 1), ..nobody };
        let narrow = client.table(node_mask::PORT_GUID, &bob).expect("an answer");
        assert_eq!((narrow.cut, narrow.records.len()), (false, 1));
        assert_eq!(narrow.records[0].port_guid, bob.port_guid);
        let mut file = device();
        let message = request(&mut file, 5, Attribute::NODE_RECORD, 5000, 2);
        file.write(&message).expect("it is out");
        let mut buffer = [0; 4096];
        assert_eq!(file.read(&mut buffer, PATIENCE), Ok(64 + 256));
        let (header, _) = Header::parse(Layout::New, &buffer).expect("a header");
        assert_eq!(header.status, 75, "EOVERFLOW");
    });
}

#[test]
fn an_opensm_that_hangs_leaves_requests_unanswered_by_our_own_times() {
    run(|device, opensm| {
        let mut client = SaClient::new(device()).expect("an agent");
        opensm.hang(true).expect("it is there");
        let mut file = device();
        let message = request(&mut file, 5, Attribute::NODE_RECORD, 100, 2);
        file.write(&message).expect("it is out");
        // One that is closed while its request is out; OpenSM's late answer is nobody's.
        let mut closed = device();
        let abandoned = request(&mut closed, 6, Attribute::NODE_RECORD, 60_000, 0);
        closed.write(&abandoned).expect("it is out");
        drop(closed);
        let mut buffer = [0; 4096];
        assert_eq!(file.read(&mut buffer, PATIENCE), Ok(64 + 24));
        let (header, _) = Header::parse(Layout::New, &buffer).expect("a header");
        assert_eq!(header.status, 110, "ETIMEDOUT");
        assert_eq!(client.get(0, &ClassPortInfo::default()), Err(AskError::Unanswered));
        opensm.hang(false).expect("it is there");
        asks_until_answered(&mut client);
        assert_eq!(
            file.read(&mut buffer, Duration::from_millis(10)),
            Err(Errno::AGAIN),
            "late answers are nobody's"
        );
    });
}
