//! A port's umad device on a subnet with an administrator and a second port, in virtual time.

use proptest::prelude::*;
use rustix::io::Errno;
use sm::mad::{DATA_LEN, MAD_LEN, Rmpp, RmppKind};
use sm::records::{NodeRecord, NodeType, PortInfo, attribute_offset, parse_table};
use sm::sa::{Address, Endport, SaConfig};
use sm::{
    Arrival, Attribute, Guid, Lid, Mad, Method, Nanos, PKey, QKey, Qpn, Sa, SaMad, Sl, SmAddress, Status,
};

use super::*;
use crate::files::{AGENTS, WAITING};

const MANAGER: Lid = Lid(1);
/// LIDs of the two ports with a device.
const LIDS: [Lid; 2] = [Lid(2), Lid(3)];
const P_KEYS: [PKey; 3] = [PKey(0xffff), PKey(0), PKey(0x8001)];
const MAD: usize = 64 + MAD_LEN;

/// A subnet; nothing happens in it but in calls.
struct World {
    now: Nanos,
    sa: Sa,
    ports: [Port; 2],
    /// The administrator does not hear.
    deaf: bool,
    /// What the ports have sent.
    sent: Vec<Outgoing>,
    /// Loses the MADs between the two ports whose turn it names.
    lost: Vec<usize>,
    turn: usize,
}

fn endport(n: u16) -> Endport {
    let guid = Guid(0x0002_c903_0000_1000 + u64::from(n) * 0x10);
    let node = NodeRecord {
        lid: Lid(n),
        node_type: NodeType::ChannelAdapter,
        num_ports: 1,
        system_image_guid: guid,
        node_guid: guid,
        port_guid: Guid(guid.0 + 1),
        partition_cap: 8,
        device_id: 0,
        revision: 0,
        local_port_num: 1,
        vendor_id: 0,
        description: [0; 64],
    };
    let info = PortInfo { lid: Lid(n), port_state: 4, port_physical_state: 5, ..PortInfo::default() };
    Endport { node, info, p_keys: P_KEYS.to_vec() }
}

impl World {
    fn new(ports: u16) -> Self {
        let mut sa = Sa::new(SaConfig::default());
        sa.set_ports(Nanos(0), (2..2 + ports).map(endport).collect());
        Self {
            now: Nanos(0),
            sa,
            ports: [Port::new(7), Port::new(7)],
            deaf: false,
            sent: Vec::new(),
            lost: Vec::new(),
            turn: 0,
        }
    }

    /// An open file of a port in the new layout, with an agent.
    fn agent(&mut self, port: usize, methods: &[Method]) -> (FileId, AgentId) {
        let file = self.ports[port].open().unwrap();
        self.ports[port].enable_p_key(file).unwrap();
        let wanted = Registration::subnet_administration(Methods::of(methods));
        (file, self.ports[port].register(file, &wanted).unwrap())
    }

    fn write(&mut self, port: usize, file: FileId, header: &Header, mad: &[u8]) -> Result<usize, Errno> {
        let layout = self.ports[port].layout(file)?;
        self.ports[port].write(self.now, file, &[&header.emit(layout)[..], mad].concat(), &P_KEYS)
    }

    /// Carries MADs until none is on its way.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let before = self.sent.len();
            for port in 0..2 {
                while let Some(out) = self.ports[port].poll_send() {
                    self.sent.push(out);
                    self.deliver(port, &out);
                }
            }
            self.sa.handle_timeout(self.now);
            let mut answered = false;
            while let Some(out) = self.sa.poll_send(self.now) {
                answered = true;
                self.arrive(out.to.lid, MANAGER, PKey::DEFAULT_FULL, out.mad, false);
            }
            if before == self.sent.len() && !answered {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    fn deliver(&mut self, port: usize, out: &Outgoing) {
        if out.to.lid == MANAGER && !self.deaf {
            self.sa.receive(self.now, Address { lid: LIDS[port], qpn: Qpn::GSI }, &out.mad);
        } else if out.to.lid != MANAGER {
            self.turn += 1;
            if !self.lost.contains(&self.turn) {
                self.arrive(out.to.lid, LIDS[port], out.to.p_key, out.mad, false);
            }
        }
    }

    fn arrive(&mut self, to: Lid, from: Lid, p_key: PKey, mad: Mad, cut: bool) {
        let from = SmAddress { lid: from, sl: Sl::truncating(2), qpn: Qpn::GSI, p_key };
        if let Some(port) = LIDS.iter().position(|lid| *lid == to) {
            self.ports[port].receive(self.now, &Arrival { from, mad, cut }, &P_KEYS);
        }
    }

    /// Lets the time pass in which something is due.
    fn pass(&mut self, span: Nanos) {
        let end = self.now.after(span);
        self.settle();
        loop {
            let due = self.ports.iter().filter_map(Port::poll_timeout).chain(self.sa.poll_timeout()).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            self.ports.iter_mut().for_each(|port| port.handle_timeout(due));
            self.settle();
        }
        self.now = end;
    }

    fn read(&mut self, port: usize, file: FileId) -> Result<(Header, Vec<u8>), Errno> {
        let mut buffer = vec![0; 1 << 16];
        let size = self.ports[port].read(file, &mut buffer)?;
        let layout = self.ports[port].layout(file)?;
        let (header, mad) = Header::parse(layout, &buffer[..size]).expect("a header");
        assert_eq!(header.length as usize, size, "the header says how long it is");
        Ok((header, mad.to_vec()))
    }

    fn sent_to_manager(&self) -> Vec<SaMad> {
        let sent = self.sent.iter().filter(|out| out.to.lid == MANAGER);
        sent.map(|out| SaMad::parse(&out.mad).unwrap()).collect()
    }
}

fn to(lid: Lid, agent: AgentId, timeout_ms: u32) -> Header {
    Header { agent: agent.0, timeout_ms, qpn: Qpn::GSI, q_key: QKey::GSI, lid, ..Header::default() }
}

fn all_nodes(transaction: u64) -> Vec<u8> {
    SaMad::request(Method::GET_TABLE, Attribute::NODE_RECORD, transaction, 0).emit().0.to_vec()
}

fn first(mad: &[u8]) -> SaMad {
    let mut bytes = [0; MAD_LEN];
    let taken = mad.len().min(MAD_LEN);
    bytes[..taken].copy_from_slice(&mad[..taken]);
    SaMad::parse(&Mad(bytes)).unwrap()
}

#[test]
fn a_table_of_many_segments_is_read_in_one_piece() {
    let mut world = World::new(40);
    let (file, agent) = world.agent(0, &[]);
    world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(5)).unwrap();
    world.settle();
    assert!(world.ports[0].is_readable(file));
    let mut small = [0; MAD];
    assert_eq!(world.ports[0].read(file, &mut small[..10]), Err(Errno::INVAL), "no room for a header");
    assert_eq!(world.ports[0].read(file, &mut small[..MAD - 1]), Err(Errno::INVAL), "none for a MAD");
    assert_eq!(world.ports[0].read(file, &mut small), Err(Errno::NOSPC));
    let (header, mad) = Header::parse(Layout::New, &small).unwrap();
    assert_eq!(first(mad).attribute, Attribute::NODE_RECORD, "the first segment is there");
    let mut enough = vec![0; header.length as usize];
    assert_eq!(world.ports[0].read(file, &mut enough), Ok(enough.len()), "the length is what is needed");
    let (header, mad) = Header::parse(Layout::New, &enough).unwrap();
    assert_eq!((header.status, header.lid, header.sl.get()), (0, MANAGER, 2));
    let answer = first(mad);
    assert!(answer.rmpp.is_active() && answer.rmpp.kind == RmppKind::Data);
    let nodes: Vec<NodeRecord> = parse_table(&mad[56..], answer.attribute_offset);
    assert_eq!(nodes.len(), 40);
    assert_eq!(attribute_offset::<NodeRecord>(), answer.attribute_offset);
    assert_eq!(world.read(0, file), Err(Errno::AGAIN));
}

#[test]
fn the_low_half_of_a_transaction_is_the_programs_and_the_high_half_its_agents() {
    let mut world = World::new(2);
    let (one, agent) = world.agent(0, &[]);
    let second = world.ports[0].register(one, &Registration::subnet_administration(Methods::NONE)).unwrap();
    let (other, stranger) = world.agent(0, &[]);
    for (file, agent) in [(one, agent), (one, second), (other, stranger)] {
        world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(0xdead_beef_0000_0005)).unwrap();
    }
    world.settle();
    let mut high: Vec<u64> =
        world.sent_to_manager().iter().take(3).map(|mad| mad.transaction >> 32).collect();
    assert!(world.sent_to_manager()[..3].iter().all(|mad| mad.transaction & 0xffff_ffff == 5));
    high.sort();
    high.dedup();
    assert_eq!(high.len(), 3, "no two agents have one");
    assert!(!high.contains(&7), "nor somebody else's on the port");
    let agents = [world.read(0, one).unwrap().0.agent, world.read(0, one).unwrap().0.agent];
    assert_eq!(agents, [agent.0, second.0]);
    assert_eq!(world.read(0, other).unwrap().0.agent, stranger.0);
}

#[test]
fn an_unanswered_request_comes_back_with_its_header_after_all_retries() {
    let mut world = World::new(2);
    world.deaf = true;
    let (file, agent) = world.agent(0, &[]);
    let header = Header { retries: 2, ..to(MANAGER, agent, 100) };
    world.write(0, file, &header, &all_nodes(5)).unwrap();
    assert_eq!(world.write(0, file, &header, &all_nodes(5)), Err(Errno::INVAL), "it is still out");
    world.pass(Nanos::from_millis(299));
    assert_eq!(world.read(0, file), Err(Errno::AGAIN));
    assert_eq!(world.sent.len(), 3, "once, and two retries");
    world.pass(Nanos::from_millis(1));
    let (back, mad) = world.read(0, file).unwrap();
    assert_eq!((back.status, back.agent, back.lid), (110, agent.0, MANAGER), "ETIMEDOUT");
    assert_eq!(mad.len(), 24, "the general header");
    assert_eq!(first(&mad).transaction & 0xffff_ffff, 5);
    world.deaf = false;
    world.write(0, file, &header, &all_nodes(5)).unwrap();
    world.settle();
    assert_eq!(world.read(0, file).unwrap().0.status, 0, "and can be asked again");
}

#[test]
fn what_expects_no_answer_is_sent_once_and_an_answer_to_it_is_nobodys() {
    let mut world = World::new(2);
    let (file, agent) = world.agent(0, &[]);
    world.write(0, file, &to(MANAGER, agent, 0), &all_nodes(5)).unwrap();
    world.pass(Nanos::from_millis(100_000));
    assert!(world.sent_to_manager().iter().filter(|mad| !mad.rmpp.is_active()).count() == 1);
    assert_eq!(world.read(0, file), Err(Errno::AGAIN));
}

#[test]
fn closing_a_file_ends_what_is_out_for_it_and_nothing_else() {
    let mut world = World::new(2);
    world.deaf = true;
    let (file, agent) = world.agent(0, &[Method::REPORT]);
    let (other, stays) = world.agent(0, &[]);
    let header = Header { retries: 5, ..to(MANAGER, agent, 100) };
    world.write(0, file, &header, &all_nodes(1)).unwrap();
    world.write(0, file, &header, &all_nodes(2)).unwrap();
    world.write(0, other, &Header { retries: 0, ..to(MANAGER, stays, 100) }, &all_nodes(1)).unwrap();
    world.settle();
    let asked = world.sent_to_manager()[0];
    world.ports[0].close(file);
    world.pass(Nanos::from_millis(10_000));
    assert_eq!(world.sent.len(), 3, "nothing is sent again");
    let late = asked.respond(Status::SUCCESS).emit();
    world.arrive(LIDS[0], MANAGER, P_KEYS[0], late, false);
    assert_eq!(world.read(0, file), Err(Errno::BADF));
    assert_eq!(world.read(0, other).unwrap().0.status, 110, "its own, and no other's");
    assert_eq!(world.read(0, other), Err(Errno::AGAIN));
    assert!(world.ports[0].is_open());
    world.agent(0, &[Method::REPORT]);
    world.ports[0].close(other);
    assert_eq!(world.ports[0].poll_timeout(), None);
}

#[test]
fn an_agent_that_ends_takes_its_requests_along_and_its_number_is_free() {
    let mut world = World::new(2);
    world.deaf = true;
    let (file, agent) = world.agent(0, &[]);
    world.write(0, file, &to(MANAGER, agent, 100), &all_nodes(1)).unwrap();
    world.ports[0].unregister(file, agent).unwrap();
    assert_eq!(world.ports[0].unregister(file, agent), Err(Errno::INVAL));
    assert_eq!(world.write(0, file, &to(MANAGER, agent, 100), &all_nodes(2)), Err(Errno::INVAL));
    world.pass(Nanos::from_millis(1000));
    assert_eq!(world.read(0, file), Err(Errno::AGAIN));
    let again = world.ports[0].register(file, &Registration::subnet_administration(Methods::NONE));
    assert_eq!(again, Ok(agent));
}

#[test]
fn registrations_that_cannot_be_are_refused() {
    let mut world = World::new(2);
    let port = &mut world.ports[0];
    let file = port.open().unwrap();
    let good = Registration::subnet_administration(Methods::of(&[Method::REPORT]));
    for (wanted, why) in [
        (Registration { qpn: 0, ..good }, Errno::OPNOTSUPP),
        (Registration { qpn: 2, ..good }, Errno::INVAL),
        (Registration { class: 80, rmpp_version: 0, ..good }, Errno::INVAL),
        (Registration { class: 0x81, rmpp_version: 0, ..good }, Errno::INVAL),
        (Registration { class: 0x30, rmpp_version: 0, ..good }, Errno::OPNOTSUPP),
        (Registration { class_version: 8, ..good }, Errno::INVAL),
        (Registration { rmpp_version: 2, ..good }, Errno::INVAL),
        (Registration { class: 4, class_version: 1, ..good }, Errno::INVAL),
        (Registration { class: 0, ..good }, Errno::INVAL),
    ] {
        assert_eq!(port.register(file, &wanted), Err(why), "{wanted:?}");
    }
    assert_eq!(port.enable_p_key(file), Ok(()), "nothing was registered yet");
    assert_eq!(port.register(file, &good), Ok(AgentId(0)));
    assert_eq!(port.register(file, &good), Err(Errno::INVAL), "another takes the reports");
    assert_eq!(port.enable_p_key(file), Err(Errno::INVAL), "too late");
    let asks_only = Registration { methods: Methods::NONE, ..good };
    let nobodys = Registration { class: 0, rmpp_version: 0, ..asks_only };
    assert_eq!(port.register(file, &nobodys), Ok(AgentId(1)));
    for id in 2..AGENTS {
        assert_eq!(port.register(file, &asks_only), Ok(AgentId(id)));
    }
    assert_eq!(port.register(file, &asks_only), Err(Errno::NOMEM));
    port.close(file);
    assert_eq!(port.register(file, &asks_only), Err(Errno::BADF));
}

#[test]
fn messages_that_cannot_be_sent_are_refused() {
    let mut world = World::new(2);
    let (file, agent) = world.agent(0, &[]);
    let good = to(MANAGER, agent, 1000);
    let mad = all_nodes(1);
    for (header, mad, why) in [
        (good, &mad[..35], Errno::INVAL),
        (good, &[&mad[..], &[0]].concat(), Errno::INVAL),
        (Header { agent: 5, ..good }, &mad, Errno::INVAL),
        (Header { agent: u32::MAX, ..good }, &mad, Errno::INVAL),
        (Header { p_key_index: 1, ..good }, &mad, Errno::INVAL),
        (Header { p_key_index: 3, ..good }, &mad, Errno::INVAL),
        (Header { grh_present: true, ..good }, &mad, Errno::OPNOTSUPP),
    ] {
        assert_eq!(world.write(0, file, &header, mad), Err(why), "{header:?}, {} bytes", mad.len());
    }
    world.settle();
    assert_eq!(world.sent, []);
    // What QP 1 does not take is lost on the way.
    world.write(0, file, &Header { q_key: QKey::IPOIB, timeout_ms: 10, ..good }, &mad).unwrap();
    world.pass(Nanos::from_millis(10));
    assert_eq!((world.sent.len(), world.read(0, file).unwrap().0.status), (0, 110));
}

#[test]
fn the_p_key_index_is_the_sendings_and_the_receivings() {
    let mut world = World::new(2);
    let (file, agent) = world.agent(0, &[]);
    let (there, _) = world.agent(1, &[Method::GET]);
    let ask = SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 1, 0).emit().0;
    world.write(0, file, &Header { p_key_index: 2, ..to(LIDS[1], agent, 1000) }, &ask).unwrap();
    world.settle();
    assert_eq!(world.sent[0].to.p_key, PKey(0x8001));
    let (header, mad) = world.read(1, there).unwrap();
    assert_eq!((header.p_key_index, header.lid, header.qpn), (2, LIDS[0], Qpn::GSI));
    let answer = first(&mad).respond(Status::SUCCESS).emit().0;
    world.write(1, there, &Header { p_key_index: 0, ..to(header.lid, AgentId(0), 0) }, &answer).unwrap();
    world.settle();
    assert_eq!(world.read(0, file).unwrap().0.p_key_index, 0);
    // The old layout has none, and means the first.
    let old = world.ports[0].open().unwrap();
    let agent = world.ports[0].register(old, &Registration::subnet_administration(Methods::NONE)).unwrap();
    world.write(0, old, &Header { p_key_index: 2, ..to(MANAGER, agent, 1000) }, &all_nodes(1)).unwrap();
    world.settle();
    assert_eq!(world.sent.last().unwrap().to.p_key, PKey(0xffff));
    let (header, _) = world.read(0, old).unwrap();
    assert_eq!((header.p_key_index, header.lid), (0, MANAGER));
}

/// A message in segments from one program to another, and its answer, in segments as well.
fn conversation(lost: &[usize]) -> (usize, usize) {
    let mut world = World::new(2);
    world.lost = lost.to_vec();
    let (file, agent) = world.agent(0, &[]);
    let (there, server) = world.agent(1, &[Method::GET_MULTI]);
    let active = Rmpp { version: 1, flags: Rmpp::ACTIVE, ..Rmpp::default() };
    let ask = SaMad { rmpp: active, ..SaMad::request(Method::GET_MULTI, Attribute::MULTI_PATH_RECORD, 9, 0) };
    let data: Vec<u8> = (0..1001).map(|n| n as u8).collect();
    let message = [&ask.emit().0[..56], &data].concat();
    world.write(0, file, &to(LIDS[1], agent, 5000), &message).unwrap();
    world.pass(Nanos::from_millis(2000));
    let (header, asked) = world.read(1, there).unwrap();
    assert_eq!((&asked[56..], header.lid), (&data[..], LIDS[0]));
    let answer = SaMad { rmpp: active, ..first(&asked).respond(Status::SUCCESS) };
    let reply: Vec<u8> = data.iter().rev().cycle().take(2222).copied().collect();
    let message = [&answer.emit().0[..56], &reply].concat();
    world.write(1, there, &to(LIDS[0], server, 0), &message).unwrap();
    world.pass(Nanos::from_millis(2000));
    let (header, mad) = world.read(0, file).unwrap();
    assert_eq!((header.status, &mad[56..]), (0, &reply[..]));
    assert_eq!(first(&mad).transaction & 0xffff_ffff, 9);
    (world.turn, world.sent.len())
}

#[test]
fn programs_send_each_other_messages_in_segments() {
    let (mads, _) = conversation(&[]);
    // Six segments and twelve, and their acknowledgements.
    assert_eq!(mads, 2 * (1001_usize.div_ceil(DATA_LEN) + 2222_usize.div_ceil(DATA_LEN)));
}

#[test]
fn a_lost_segment_or_acknowledgement_is_sent_again() {
    let (mads, _) = conversation(&[]);
    for lost in 1..=mads {
        conversation(&[lost]);
        conversation(&[lost, lost + 1]);
    }
}

#[test]
fn a_receiver_that_closes_in_the_middle_leaves_the_sender_unanswered() {
    let mut world = World::new(2);
    let (file, agent) = world.agent(0, &[]);
    let (there, _) = world.agent(1, &[Method::GET_MULTI]);
    let active = Rmpp { version: 1, flags: Rmpp::ACTIVE, ..Rmpp::default() };
    let ask = SaMad { rmpp: active, ..SaMad::request(Method::GET_MULTI, Attribute::MULTI_PATH_RECORD, 9, 0) };
    let message = [&ask.emit().0[..56], &[0; 3000]].concat();
    world.write(0, file, &to(LIDS[1], agent, 500), &message).unwrap();
    let sent = world.ports[0].poll_send().unwrap();
    world.deliver(0, &sent);
    world.ports[1].close(there);
    world.pass(Nanos::from_millis(60_000));
    assert_eq!(world.read(0, file).unwrap().0.status, 110);
    assert_eq!(world.ports.iter().filter_map(Port::poll_timeout).min(), None, "nothing is left over");
}

#[test]
fn an_answer_that_may_have_been_cut_says_so() {
    let mut world = World::new(2);
    world.deaf = true;
    let (file, agent) = world.agent(0, &[]);
    world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(5)).unwrap();
    world.settle();
    let answer = world.sent_to_manager()[0].respond(Status::SUCCESS).emit();
    world.arrive(LIDS[0], MANAGER, P_KEYS[0], answer, true);
    let (header, mad) = world.read(0, file).unwrap();
    assert_eq!((header.status, mad.len()), (75, MAD_LEN), "EOVERFLOW, and what there is");
}

#[test]
fn a_port_that_is_gone_refuses_everything_and_keeps_what_had_come() {
    let mut world = World::new(2);
    let (file, agent) = world.agent(0, &[]);
    world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(5)).unwrap();
    world.settle();
    world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(6)).unwrap();
    world.ports[0].remove();
    assert_eq!(world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(7)), Err(Errno::IO));
    let wanted = Registration::subnet_administration(Methods::NONE);
    assert_eq!(world.ports[0].register(file, &wanted), Err(Errno::PIPE));
    assert_eq!(world.ports[0].open(), Err(Errno::NXIO));
    assert!(world.read(0, file).is_ok());
    assert!(world.ports[0].is_readable(file));
    assert_eq!(world.read(0, file), Err(Errno::IO));
    assert_eq!(world.ports[0].poll_timeout(), None);
    world.ports[0].close(file);
    assert!(!world.ports[0].is_open());
}

#[test]
fn a_program_that_does_not_read_loses_the_newest() {
    let mut world = World::new(2);
    let (file, _) = world.agent(0, &[Method::REPORT]);
    let report = SaMad::request(Method::REPORT, Attribute::NOTICE, 1, 0).emit();
    for _ in 0..WAITING + 3 {
        world.arrive(LIDS[0], MANAGER, P_KEYS[0], report, false);
    }
    assert_eq!(world.ports[0].dropped(), 3);
    assert_eq!(std::iter::from_fn(|| world.read(0, file).ok()).count(), WAITING);
}

#[test]
fn an_agent_without_rmpp_sees_the_segments_themselves() {
    let mut world = World::new(40);
    let file = world.ports[0].open().unwrap();
    let wanted = Registration { rmpp_version: 0, ..Registration::subnet_administration(Methods::NONE) };
    let agent = world.ports[0].register(file, &wanted).unwrap();
    world.write(0, file, &to(MANAGER, agent, 1000), &all_nodes(5)).unwrap();
    world.settle();
    let (_, mad) = world.read(0, file).unwrap();
    let segment = first(&mad);
    assert_eq!((mad.len(), segment.rmpp.kind, segment.rmpp.data1), (MAD_LEN, RmppKind::Data, 1));
}

proptest! {
    #[test]
    fn no_bytes_from_either_side_make_a_port_panic(
        steps in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..400), any::<bool>()), 0..40)
    ) {
        let mut world = World::new(2);
        let (file, _) = world.agent(0, &[Method::REPORT, Method::GET]);
        for (what, bytes, cut) in steps {
            let mut mad = [0; MAD_LEN];
            let taken = bytes.len().min(MAD_LEN);
            mad[..taken].copy_from_slice(&bytes[..taken]);
            match what % 4 {
                0 => {
                    let _ = world.ports[0].write(world.now, file, &bytes, &P_KEYS);
                }
                1 => {
                    // A header that is one, and whatever behind it.
                    let header = to(Lid(u16::from(what)), AgentId(0), what.into());
                    mad[..3].copy_from_slice(&[1, 3, 2]);
                    let _ = world.write(0, file, &header, &mad[..taken.max(40)]);
                }
                2 => {
                    mad[..3].copy_from_slice(&[1, 3, 2]);
                    mad[8..12].copy_from_slice(&1u32.to_be_bytes());
                    world.arrive(LIDS[0], MANAGER, P_KEYS[0], Mad(mad), cut);
                }
                _ => world.pass(Nanos::from_millis(what.into())),
            }
            let _ = world.read(0, file);
        }
    }
}
