//! The module and its instances: an adapter each.

use core::ffi::CStr;

use ibtf_provider::{Attachment, Framework};
use kernel::ddi::{DevInfo, MinorNode, Scope};
use kernel::kstat::Kstat;
use kernel::module::{Control, Driver, Env, Module, Pin};
use kernel::sync::Mutex;
use kernel::thread::Worker;
use kernel::time::{Duration, Instant, sleep};
use kernel::user::{Cred, UserMemory};
use kernel::{Errno, KArc, KVec, MayBlock, log};

use crate::alarm::{Alarms, Waiting};
use crate::attributes::{self, CLASSES, Classes, Features};
use crate::calls::Calls;
use crate::control;
use crate::node::Node;
use crate::port::{MAX_ADAPTERS, MAX_PORTS, Port, SPEEDS};
use crate::sa::PKEYS;
use crate::statistics::Statistics;
use crate::subnet::{Inbox, Refused, Subnet};

/// The module.
pub struct Swhca {
    nodes: Mutex<KVec<(i32, KArc<Node>)>>,
    subnet: KArc<Subnet>,
    alarms: KArc<Alarms>,
    _administrator: Worker<Inbox>,
    _clock: Worker<Waiting>,
    // Last: ibtl's until after everything else has gone.
    _framework: Framework,
}

impl Module for Swhca {
    fn init(env: &Env, may_block: &MayBlock) -> Result<Self, Errno> {
        let framework = Framework::register(env)?;
        let subnet = KArc::new_waiting(Subnet::new(may_block), may_block);
        let administrator = Subnet::serve(&subnet, may_block);
        let alarms = KArc::new_waiting(Alarms::new(may_block), may_block);
        let clock = alarms.serve(may_block);
        let nodes = KVec::with_capacity_waiting(MAX_ADAPTERS as usize, may_block);
        let nodes = Mutex::new_waiting(nodes, may_block);
        Ok(Self {
            nodes,
            subnet,
            alarms,
            _administrator: administrator,
            _clock: clock,
            _framework: framework,
        })
    }
}

/// An attached adapter.
pub struct Adapter {
    statistics: Kstat<Statistics>,
    minor: MinorNode,
    attachment: Attachment<Node>,
    node: KArc<Node>,
    calls: KArc<Calls>,
}

impl Driver for Swhca {
    type Instance = Adapter;

    fn attach(&self, dip: DevInfo, may_block: &MayBlock) -> Result<Adapter, Errno> {
        let config = Config::read(dip)?;
        let calls = calls(dip, may_block)?;
        let node = self.make(&config, &calls, may_block);
        // The subnet manager has brought the ports up before anybody asks.
        self.subnet.join(&node).map_err(|refused| tell(dip, config.unit, refused))?;
        let attached = MinorNode::new(dip, c"ctl").and_then(|minor| {
            let statistics = publish(dip, &node, may_block)?;
            let attributes = attributes::of(config.unit, config.count, config.features);
            Ok((statistics, minor, Attachment::attach(dip, attributes, node.clone(), may_block)?))
        });
        let (statistics, minor, attachment) = match attached {
            Ok(attached) => attached,
            Err(error) => {
                self.subnet.leave(&node);
                // The SA may be at a datagram for it: a port that comes is told of to whoever had the ports before.
                drop_alone(dip, node);
                drop_alone(dip, calls);
                return Err(error);
            }
        };
        node.set_client(attachment.client().clone());
        // There is room for every adapter that there can be.
        let _ = self.nodes.lock().push_within_capacity((dip.instance(), node.clone()));
        attachment.announce();
        Ok(Adapter { statistics, minor, attachment, node, calls })
    }

    fn detach(&self, dip: DevInfo, instance: Adapter) -> Result<(), Adapter> {
        let Adapter { statistics, minor, attachment, node, calls } = instance;
        // From here on no event is raised: what another adapter's owner does to this one's ports waits, and finds it gone.
        let Ok(turn) = node.changes.begin() else {
            return Err(Adapter { statistics, minor, attachment, node, calls });
        };
        wait_for_listeners(&node);
        if let Err(attachment) = attachment.detach() {
            drop(turn);
            return Err(Adapter { statistics, minor, attachment, node, calls });
        }
        turn.end_all();
        self.subnet.leave(&node);
        let mut nodes = self.nodes.lock();
        let mine = nodes.iter().position(|(instance, _)| *instance == dip.instance());
        let taken = mine.and_then(|index| nodes.swap_remove(index));
        drop(nodes);
        drop(taken);
        let census = node.census();
        if census != crate::node::Census::default() {
            log!(warn, dip, "clients did not free {census:?}");
        }
        drop((statistics, minor));
        drop_alone(dip, node);
        drop_alone(dip, calls);
        Ok(())
    }

    fn refuse_suspend(&self, dip: DevInfo, _instance: &Adapter) {
        log!(warn, dip, "cannot be suspended: the requests that clients have posted would be lost");
    }
}

impl Control for Swhca {
    fn ioctl(
        &self,
        instance: i32,
        command: i32,
        argument: UserMemory<'_>,
        caller: Cred<'_>,
    ) -> Result<i32, Errno> {
        let nodes = self.nodes.lock();
        let mine = nodes.iter().find(|(number, _)| *number == instance);
        let node = mine.map(|(_, node)| node.clone()).ok_or(Errno::ENXIO)?;
        drop(nodes);
        control::ioctl(&node, command, argument, caller)
    }
}

impl Swhca {
    #[inline(never)]
    fn make(&self, config: &Config, calls: &KArc<Calls>, may_block: &MayBlock) -> KArc<Node> {
        let (ports, subnet) = (config.ports(may_block), self.subnet.clone());
        let later = (calls.clone(), self.alarms.clone());
        let node = Node::new(config.unit, ports, later, subnet, config.features, may_block);
        KArc::new_waiting(node, may_block)
    }
}

/// Has the log say why an adapter cannot come.
fn tell(dip: DevInfo, unit: u32, refused: Refused) -> Errno {
    match refused {
        Refused::Number => log!(warn, dip, "adapter {unit} exists already"),
        Refused::Lid(lid) => log!(warn, dip, "LID {lid} of adapter {unit} is taken"),
        Refused::Memory => {
            log!(warn, dip, "no memory for the broadcast groups of its partitions");
            return Errno::ENOMEM;
        }
    }
    Errno::EEXIST
}

#[inline(never)]
fn calls(dip: DevInfo, may_block: &MayBlock) -> Result<KArc<Calls>, Errno> {
    Ok(KArc::new_waiting(Calls::new(dip, may_block)?, may_block))
}

/// The kstat `swhca:N:statistics`.
fn publish(dip: DevInfo, node: &KArc<Node>, may_block: &MayBlock) -> Result<Kstat<Statistics>, Errno> {
    let source = KArc::new_waiting(Statistics(node.clone()), may_block);
    Kstat::new(dip.driver_name(), dip.instance(), c"statistics", c"ib", source)
}

/// Before an adapter is detached its events have been heard: `ibtl` would deliver the rest to what it has freed. A second is enough,
/// and this narrows it only: clients query for reasons of their own, too.
fn wait_for_listeners(node: &Node) {
    let deadline = Instant::now() + Duration::from_secs(1);
    while node.has_unread_event() && Instant::now() < deadline {
        sleep(Duration::from_millis(10));
    }
}

/// Drops the last reference here and not where a datagram was under way, which can be an interrupt.
fn drop_alone<T>(dip: DevInfo, shared: KArc<T>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !KArc::is_unique(&shared) {
        if Instant::now() >= deadline {
            log!(
                warn,
                dip,
                "{} users of the detached adapter remain: the module cannot be unloaded",
                KArc::count(&shared) - 1
            );
            core::mem::forget(Pin::new());
            core::mem::forget(shared);
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

/// What `swhca.conf` says of an adapter.
struct Config {
    unit: u32,
    count: u8,
    pkeys: [u16; PKEYS],
    speed: u8,
    features: Features,
}

impl Config {
    /// A value that makes no sense is told to the log, and the adapter is not attached.
    #[inline(never)]
    fn read(dip: DevInfo) -> Result<Self, Errno> {
        let mut reg = [0; 3];
        dip.prop_int_array(c"reg", &mut reg);
        let unit = u32::try_from(reg[1]).ok().filter(|unit| *unit < MAX_ADAPTERS);
        let unit = unit.ok_or_else(|| wrong(dip, "reg"))?;
        let int = |name: &CStr, default| dip.prop_int(name, Scope::Node).unwrap_or(default);
        let count = u8::try_from(int(c"ports", 2)).ok().filter(|count| (1..=MAX_PORTS).contains(count));
        let count = count.ok_or_else(|| wrong(dip, "ports"))?;
        let speed = u8::try_from(int(c"speed", 4)).ok().filter(|speed| SPEEDS.contains(speed));
        let speed = speed.ok_or_else(|| wrong(dip, "speed"))?;
        let on = |name: &CStr| match int(name, 1) {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong(dip, name.to_str().unwrap_or("?"))),
        };
        let (checksum, reserved_key) = (on(c"checksum")?, on(c"reserved-lkey")?);
        let large_send = on(c"lso")? && checksum && reserved_key;
        let (shared, classes) = (on(c"srq")?, Self::classes(dip)?);
        let features = Features { checksum, large_send, reserved_key, shared, classes };
        Ok(Self { unit, count, pkeys: Self::pkeys(dip)?, speed, features })
    }

    #[inline(never)]
    fn pkeys(dip: DevInfo) -> Result<[u16; PKEYS], Errno> {
        let mut values = [0; PKEYS];
        let count = dip.prop_int_array(c"pkeys", &mut values);
        let mut pkeys = [0; PKEYS];
        if count == 0 {
            pkeys[0] = 0xffff;
        }
        for (to, value) in pkeys.iter_mut().zip(values).take(count) {
            *to = u16::try_from(value).map_err(|_| wrong(dip, "pkeys"))?;
        }
        if count > PKEYS {
            return Err(wrong(dip, "pkeys"));
        }
        if !pkeys.iter().any(|pkey| pkey & 0x7fff == 0x7fff) {
            log!(warn, dip, "no default P_Key (0xffff or 0x7fff) in pkeys: ibmf cannot reach the subnet");
        }
        Ok(pkeys)
    }

    #[inline(never)]
    fn classes(dip: DevInfo) -> Result<Classes, Errno> {
        let mut values = [0; CLASSES];
        let count = dip.prop_int_array(c"gsi-classes", &mut values);
        let values = values.get(..count).ok_or_else(|| wrong(dip, "gsi-classes"))?;
        if values.iter().any(|class| u8::try_from(*class).is_err()) {
            return Err(wrong(dip, "gsi-classes"));
        }
        Ok(if count == 0 { Classes::USUAL } else { Classes::of(values.iter().map(|class| *class as u8)) })
    }

    #[inline(never)]
    fn ports(&self, may_block: &MayBlock) -> KVec<Port> {
        let ports = (1..=self.count).map(|number| Port::new(self.unit, number, &self.pkeys, self.speed));
        let mut all = KVec::with_capacity_waiting(usize::from(self.count), may_block);
        for port in ports {
            all.push_waiting(port, may_block);
        }
        all
    }
}

fn wrong(dip: DevInfo, property: &str) -> Errno {
    log!(warn, dip, "property {property} is not valid");
    Errno::EINVAL
}
