//! The request table, asked of OpenSM and of the embedded administrator: every answer has to be the same.

#[path = "../../sm/tests/all/table/mod.rs"]
mod table;
#[path = "../../sm/tests/all/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opensm::{Adapter, Link, OpenSm, Speed, Tools, Topology};
use sm::records::{ClassPortInfo, Notice};
use sm::rmpp::{Received, Receiver as Segments};
use sm::{Attribute, Guid, Lid, Mad, Method, SaMad, SmConfig, Status};
use table::{A, Administrator, Answer, B, C, Request, Row, Subnet};
use world::{Lane, World};

/// OpenSM, asked by A, B and C.
struct Real {
    sm: OpenSm,
    arrived: Receiver<(Guid, Mad)>,
    lids: BTreeMap<Guid, Lid>,
    manager: Lid,
    next: u64,
}

fn speed(lane: Lane) -> Speed {
    match lane {
        Lane::Sdr => Speed::Sdr,
        Lane::Qdr => Speed::Qdr,
        Lane::Edr => Speed::Edr,
    }
}

/// More than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// A request without an answer counts as unanswered once so many later ones have been answered.
const LATER: u32 = 3;

impl Real {
    fn new(subnet: Subnet) -> Self {
        let adapter = |port: Guid| Adapter {
            name: String::new(),
            node: Guid(port.0 - 1),
            port,
            link: Link { lanes: 4, speed: speed(subnet.lane(port)) },
        };
        let topology = Topology::new([A, B, C].map(adapter)).unwrap();
        let tools = Tools::find().expect("make test installs OpenSM and ibsim");
        let sm = OpenSm::start(tools, topology, &subnet.partitions()).unwrap();
        let (sender, arrived) = channel();
        let sender = Mutex::new(sender);
        sm.set_sink(Some(Arc::new(move |port, arrival| {
            // The test may be over.
            let _ = sender.lock().unwrap().send((port, arrival.mad));
        })));
        let ports = sm.snapshot().unwrap().ports;
        let manager = ports[&A].info.master_sm_lid;
        let lids = ports.into_iter().map(|(guid, port)| (guid, port.info.lid)).collect();
        Self { sm, arrived, lids, manager, next: 0 }
    }

    fn send(&mut self, request: &Request) -> u64 {
        self.next += 1;
        let mad = request.mad(self.next, |port| self.lids.get(&port).copied().unwrap_or(Lid(0xbeef)));
        self.sm.send(request.from, self.manager, &mad.emit()).unwrap();
        self.next
    }

    /// The next answer to anything; reports are answered on the way.
    fn next_answer(&mut self) -> Option<SaMad> {
        loop {
            let (port, mad) = self.arrived.recv_timeout(PATIENCE).ok()?;
            let mad = SaMad::parse(&mad).unwrap();
            if mad.method != Method::REPORT {
                return Some(mad);
            }
            let response = SaMad { method: Method::REPORT_RESP, ..mad };
            self.sm.send(port, self.manager, &response.emit()).unwrap();
            assert!(mad.record::<Notice>().is_some());
        }
    }
}

impl Administrator for Real {
    fn ask(&mut self, request: &Request, silent: bool) -> Option<Answer> {
        let asked = self.send(request);
        if !silent {
            let mut answers = std::iter::from_fn(|| self.next_answer());
            return answers.find(|answer| answer.transaction == asked).map(|answer| whole(&answer));
        }
        let marker = Request::of(A, Method::GET, 0, &ClassPortInfo::default());
        let mut markers = 0;
        let mut sent = self.send(&marker);
        loop {
            let answer = self.next_answer().expect("OpenSM answers Get(ClassPortInfo)");
            if answer.transaction == asked {
                return Some(whole(&answer));
            }
            if answer.transaction == sent {
                markers += 1;
                if markers == LATER {
                    return None;
                }
                sent = self.send(&marker);
            }
        }
    }
}

fn whole(answer: &SaMad) -> Answer {
    if !answer.rmpp.is_active() {
        return Answer::of_one(answer);
    }
    let Received::Complete(_, message) = Segments::new().receive(answer) else {
        panic!("{answer:?} in one segment")
    };
    let offset = message.header.attribute_offset;
    Answer { status: Status::SUCCESS, offset, data: message.data }
}

/// The embedded administrator's world, which is asked through the same MADs.
struct Embedded(World);

impl Administrator for Embedded {
    fn ask(&mut self, request: &Request, _: bool) -> Option<Answer> {
        let transaction = self.0.next_transaction();
        let mad = request.mad(transaction, |port| self.0.lid(port));
        self.0.send(request.from, &mad);
        // No row has an answer of more than one segment: ibsim carries none.
        let answer = self.0.take(request.from, |mad| mad.transaction == transaction).pop()?;
        Some(whole(&answer))
    }
}

/// What is the same although the bytes are not:
///
/// - LIDs are the manager's choice: a unicast one is replaced by the number of its port.
/// - The lower half of an MGID that the administrator makes is a number of its own.
/// - The order of a table's records is that of the administrator's own list.
/// - The number of a block of P_Keys is in OpenSM's machine's order, where the standard has network order.
/// - ClassPortInfo offers what there is: the embedded administrator has no MultiPathRecord and does not say so.
fn comparable(answer: Option<Answer>, attribute: Attribute, lids: &BTreeMap<Guid, Lid>) -> Option<Answer> {
    let mut answer = answer?;
    let stride = match usize::from(answer.offset) * 8 {
        0 => answer.data.len().max(1),
        stride => stride,
    };
    let mut records: Vec<Vec<u8>> = answer.data.chunks(stride).map(<[u8]>::to_vec).collect();
    for record in &mut records {
        match attribute {
            Attribute::PATH_RECORD => [40, 42].into_iter().for_each(|at| name_lid(record, at, lids)),
            Attribute::P_KEY_TABLE_RECORD => {
                name_lid(record, 0, lids);
                record[2..4].sort_unstable();
            }
            Attribute::CLASS_PORT_INFO => record[2] &= !MULTIPATH,
            Attribute::MC_MEMBER_RECORD if record[2..4] == [0xa0, 0x1b] && record[1] == 0x12 => {
                record[8..16].fill(0);
            }
            _ => {}
        }
    }
    records.sort();
    answer.data = records.concat();
    Some(answer)
}

/// In the upper byte of the capability mask.
const MULTIPATH: u8 = 0x04;

fn name_lid(record: &mut [u8], at: usize, lids: &BTreeMap<Guid, Lid>) {
    let lid = Lid(u16::from_be_bytes([record[at], record[at + 1]]));
    if let Some(n) = lids.values().position(|other| *other == lid) {
        record[at..at + 2].copy_from_slice(&(n as u16 + 0x100).to_be_bytes());
    }
}

#[test]
fn every_row_of_the_request_table_is_answered_by_opensm_and_by_the_embedded_administrator_alike() {
    let rows = table::rows();
    let mut wrong = Vec::new();
    for subnet in Subnet::ALL {
        let mut real = Real::new(subnet);
        let config = SmConfig { partitions: subnet.partitions(), ..SmConfig::default() };
        let mut embedded = Embedded(World::with_lanes(config, |port| subnet.lane(port)));
        let theirs = real.lids.clone();
        let ours: BTreeMap<Guid, Lid> = [A, B, C].map(|port| (port, embedded.0.lid(port))).into();
        for row in rows.iter().filter(|row| row.subnet == subnet) {
            wrong.extend(compare(row, &mut real, &theirs, &mut embedded, &ours));
        }
        assert_eq!(real.sm.answers_cut(), 0, "{subnet:?}: a row asks for more than ibsim carries");
    }
    // Not through the test harness, which keeps what a passing test prints to itself.
    let equal = rows.len() - wrong.len();
    writeln!(std::io::stdout(), "SA table: {equal} of {} rows equal", rows.len()).unwrap();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn compare(
    row: &Row,
    real: &mut Real,
    theirs: &BTreeMap<Guid, Lid>,
    embedded: &mut Embedded,
    ours: &BTreeMap<Guid, Lid>,
) -> Option<String> {
    let opensm = comparable(table::play(real, row), row.ask.attribute, theirs);
    let embedded = comparable(table::play(embedded, row), row.ask.attribute, ours);
    let expected = Answer::meets(opensm.as_ref(), row.expect);
    if opensm == embedded && expected {
        return None;
    }
    Some(format!(
        "{}: expected {:?}\n  OpenSM   {}\n  embedded {}",
        row.what,
        row.expect,
        shown(opensm.as_ref()),
        shown(embedded.as_ref())
    ))
}

fn shown(answer: Option<&Answer>) -> String {
    let Some(Answer { status, offset, data }) = answer else { return "nothing".to_owned() };
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{status:?} offset {offset} {hex}")
}
