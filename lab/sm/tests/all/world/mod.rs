//! A subnet of plain values around the embedded manager, and a client that speaks MADs.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod records;

use std::collections::BTreeMap;

use sm::records::{NodeRecord, NodeType, PortInfo, Record, parse_table, port_capability};
use sm::rmpp::{Received, Receiver};
use sm::sa::{Address, Endport};
use sm::*;

pub use records::*;

/// One port of the subnet, by the number tests call it.
pub struct SubnetOfValues {
    pub ports: BTreeMap<Guid, Endport>,
    pub unplugged: BTreeMap<Guid, Endport>,
    pub set: Vec<(Guid, PortSettings)>,
    pub routes: BTreeMap<Lid, Vec<Guid>>,
}

impl Subnet for SubnetOfValues {
    fn endports(&mut self) -> Vec<Endport> {
        self.ports.values().cloned().collect()
    }

    fn set_port(&mut self, port: Guid, settings: &PortSettings) {
        settings.apply(&mut self.ports.get_mut(&port).unwrap().info);
        self.set.push((port, *settings));
    }

    fn set_p_keys(&mut self, port: Guid, table: &[PKey]) {
        self.ports.get_mut(&port).unwrap().p_keys = table.to_vec();
    }

    fn set_multicast_route(&mut self, mlid: Lid, ports: &[Guid]) {
        self.routes.insert(mlid, ports.to_vec());
    }
}

/// The manager, its subnet, the time, and what arrived at each port.
pub struct World {
    pub sm: Sm,
    pub subnet: SubnetOfValues,
    pub now: Nanos,
    pub arrived: Vec<(Lid, SaMad)>,
    transaction: u64,
}

/// A port of four lanes.
pub fn endport_with(guid: Guid, lane: Lane) -> Endport {
    let mut port = endport(guid);
    let (active, extended) = match lane {
        Lane::Sdr => (1, 0),
        Lane::Qdr => (4, 0),
        Lane::Edr => (4, 2),
    };
    port.info.link_speed_active = active;
    port.info.link_speed_ext_active = extended;
    if extended != 0 {
        port.info.capability_mask |= port_capability::EXTENDED_SPEEDS;
    }
    port
}

pub fn endport(guid: Guid) -> Endport {
    let node = NodeRecord {
        lid: Lid::NONE,
        node_type: NodeType::ChannelAdapter,
        num_ports: 1,
        system_image_guid: guid,
        node_guid: Guid(guid.0 - 1),
        port_guid: guid,
        partition_cap: 8,
        device_id: 0,
        revision: 0,
        local_port_num: 1,
        vendor_id: 0,
        description: [0; 64],
    };
    let info = PortInfo {
        capability_mask: port_capability::CLIENT_REREGISTRATION,
        local_port_num: 1,
        link_width_active: LinkWidth::X4.to_wire(),
        link_speed_active: 1,
        port_state: PortState::Init.to_wire(),
        mtu_cap: MtuCode::B2048,
        neighbor_mtu: MtuCode::B2048,
        ..PortInfo::default()
    };
    let mut p_keys = vec![PKey(0); 8];
    p_keys[0] = PKey::DEFAULT_FULL;
    Endport { node, info, p_keys }
}

impl World {
    /// Three ports A, B and C under `partitions`, swept.
    pub fn new(partitions: Vec<Partition>) -> Self {
        Self::with(SmConfig { partitions, ..SmConfig::default() })
    }

    pub fn with(config: SmConfig) -> Self {
        Self::with_lanes(config, |_| Lane::Sdr)
    }

    /// The same, with ports of these speeds.
    pub fn with_lanes(config: SmConfig, lane: impl Fn(Guid) -> Lane) -> Self {
        let ports = [A, B, C].map(|guid| (guid, endport_with(guid, lane(guid)))).into();
        let subnet =
            SubnetOfValues { ports, unplugged: BTreeMap::new(), set: Vec::new(), routes: BTreeMap::new() };
        let mut world =
            Self { sm: Sm::new(config), subnet, now: Nanos(0), arrived: Vec::new(), transaction: 100 };
        world.sm.sweep(world.now, &mut world.subnet);
        world
    }

    /// The default partition, open, with its broadcast group.
    pub fn open() -> Self {
        Self::new(vec![Partition::default_open()])
    }

    pub fn lid(&self, port: Guid) -> Lid {
        self.subnet.ports.get(&port).map_or(Lid(0xbeef), |port| port.info.lid)
    }

    pub fn address(&self, port: Guid) -> Address {
        Address { lid: self.lid(port), qpn: Qpn::GSI }
    }

    /// Moves what is due now.
    fn collect(&mut self) {
        while let Some(out) = self.sm.poll_send(self.now) {
            assert_eq!(out.to.qpn, Qpn::GSI);
            self.arrived.push((out.to.lid, SaMad::parse(&out.mad).unwrap()));
        }
    }

    /// Lets time pass until nothing is due any more, at most `span`.
    pub fn run(&mut self, span: Nanos) {
        let end = self.now.after(span);
        self.collect();
        while let Some(due) = self.sm.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.sm.handle_timeout(self.now, &mut self.subnet);
            self.collect();
        }
        self.now = end;
    }

    pub fn unplug(&mut self, port: Guid) {
        let gone = self.subnet.ports.remove(&port).unwrap();
        self.subnet.unplugged.insert(port, gone);
        self.sm.sweep(self.now, &mut self.subnet);
        self.collect();
    }

    pub fn plug(&mut self, port: Guid) {
        let mut back = self.subnet.unplugged.remove(&port).unwrap();
        back.info.port_state = PortState::Init.to_wire();
        self.subnet.ports.insert(port, back);
        self.sm.sweep(self.now, &mut self.subnet);
        self.collect();
    }

    /// Sends a MAD as it is.
    pub fn send(&mut self, from: Guid, mad: &SaMad) {
        let address = self.address(from);
        self.sm.receive(self.now, address, &mad.emit());
        self.collect();
    }

    pub fn next_transaction(&mut self) -> u64 {
        self.transaction += 1;
        self.transaction
    }

    /// Takes the MADs that arrived at `port` and match.
    pub fn take(&mut self, port: Guid, matches: impl Fn(&SaMad) -> bool) -> Vec<SaMad> {
        let lid = self.lid(port);
        let (taken, kept) =
            std::mem::take(&mut self.arrived).into_iter().partition(|(to, mad)| *to == lid && matches(mad));
        self.arrived = kept;
        let taken: Vec<(Lid, SaMad)> = taken;
        taken.into_iter().map(|(_, mad)| mad).collect()
    }

    /// Asks and returns the single MAD of the answer, `None` if there is none.
    pub fn ask<R: Record>(&mut self, from: Guid, method: Method, mask: u64, record: &R) -> Option<SaMad> {
        let transaction = self.next_transaction();
        let request = SaMad::request(method, R::ATTRIBUTE, transaction, mask).with_record(record);
        self.send(from, &request);
        let mut answers = self.take(from, |mad| mad.transaction == transaction);
        assert!(answers.len() <= 1, "{answers:?}");
        let answer = answers.pop();
        if let Some(answer) = &answer {
            assert_eq!(answer.method, method.response());
            assert_eq!(answer.sm_key, 0);
        }
        answer
    }

    /// Asks for something that is answered with one record.
    pub fn ask_one<R: Record>(
        &mut self,
        from: Guid,
        method: Method,
        mask: u64,
        record: &R,
    ) -> Result<R, Status> {
        let answer = self.ask(from, method, mask, record).expect("an answer");
        match answer.status {
            Status::SUCCESS => Ok(answer.record().unwrap()),
            refused => Err(refused),
        }
    }

    /// Asks for a table and puts its segments together.
    pub fn ask_table<R: Record>(&mut self, from: Guid, mask: u64, record: &R) -> Result<Vec<R>, Status> {
        self.ask_table_as(from, 0, mask, record)
    }

    pub fn ask_table_as<R: Record>(
        &mut self,
        from: Guid,
        sm_key: u64,
        mask: u64,
        record: &R,
    ) -> Result<Vec<R>, Status> {
        let transaction = self.next_transaction();
        let request = SaMad::request(Method::GET_TABLE, R::ATTRIBUTE, transaction, mask).with_record(record);
        self.send(from, &SaMad { sm_key, ..request });
        let mut receiver = Receiver::new();
        loop {
            for mad in self.take(from, |mad| mad.transaction == transaction) {
                assert_eq!(mad.method, Method::GET_TABLE_RESP);
                if !mad.rmpp.is_active() {
                    assert_ne!(mad.status, Status::SUCCESS, "tables are segmented");
                    return Err(mad.status);
                }
                match receiver.receive(&mad) {
                    Received::More(ack) => self.send(from, &SaMad::parse(&ack).unwrap()),
                    Received::Complete(ack, message) => {
                        self.send(from, &SaMad::parse(&ack).unwrap());
                        return Ok(parse_table(&message.data, message.header.attribute_offset));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
