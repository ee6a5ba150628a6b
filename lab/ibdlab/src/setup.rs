//! From a scenario to its world: the fabric, its subnet manager, and the hosts.

use anyhow::{Result, bail};
use fabric::{HcaAttr, HcaConfig, LinkSpeed, LinkWidth, Mtu};
use fakekernel::genunix::PropertyValue;
use fakekernel::{Machine, Nanos};
use lab_ibtf::InfiniBand;
use lab_world::{Plan, World, shipped_conf};
use serde_spanned::Spanned;
use sm::fault::FaultAction;
use sm::partition::{GroupParams, Membership, Ports};
use sm::sa::SaConfig;
use sm::{Fault, MtuCode, Partition, SmConfig};

use crate::objects::Objects;
use crate::report::SmKind;
use crate::scenario::{self, HostSpec, PartitionSpec, Scenario, Speed, Step};

/// What every port of ibsim has as its NeighborMTU.
const IBSIM_MTU: u32 = 2048;
/// Node GUIDs of the hosts' adapters count up from here; a port's is its node's plus one.
const FIRST_GUID: u64 = 0x0002_c903_0000_1000;
/// From its start until a subnet manager first looks around.
const FIRST_LOOK: Nanos = Nanos::from_millis(1);
/// Prefix of the second subnet.
const SECOND_PREFIX: u64 = 0xfec0_0000_0000_0002;
/// Switch of the second subnet, where its manager is.
const SECOND_SM: sm::Guid = sm::Guid(0x0002_c902_0000_0002);
/// Node GUID of the router between the two; its ports count up from it.
pub(crate) const ROUTER: fabric::Guid = fabric::Guid(0x0002_c902_0000_0010);

/// The hosts of a scenario on their fabric, without modules and without a subnet manager. On a thread of the machine.
///
/// # Errors
///
/// A driver's configuration file that cannot be read, or adapters that are no fabric.
pub fn hosts(machine: &Machine, scenario: &Scenario, objects: &Objects, seed: u64) -> Result<World> {
    let mut world = World::new(machine, seed);
    for (n, spec) in (0..).zip(&scenario.host) {
        let host = world.add_host(plan(scenario, spec.get_ref(), n, objects)?)?;
        let asks = scenario.fabric.router.as_ref().is_some_and(|router| router.paths);
        lab_ibtf::set_paths_beyond(&host.kernel, asks);
    }
    Ok(world)
}

pub(crate) fn plan(scenario: &Scenario, spec: &HostSpec, n: u16, objects: &Objects) -> Result<Plan> {
    let (name, driver) = (spec.name.get_ref(), spec.driver);
    let (object, plugin) = (objects.path(name, driver.name()), objects.path(name, "mac_ib"));
    let own = spec.conf.iter().map(|(property, value)| (property.clone(), PropertyValue::from(*value)));
    let properties = spec.properties.iter().filter_map(|(name, text)| text.get_ref().property(name).ok());
    let adapter = adapter(scenario, spec, n);
    Ok(Plan {
        conf: shipped_conf(object, driver)?.into_iter().chain(own).collect(),
        pkey: fabric::PKey(*spec.pkey.get_ref()),
        properties: properties.collect(),
        // The P_Key of the link is not in the table.
        forced: spec.membership == scenario::Membership::Limited,
        ..Plan::new(name, driver, object.to_owned(), plugin.to_owned(), adapter)
    })
}

fn adapter(scenario: &Scenario, spec: &HostSpec, n: u16) -> HcaConfig {
    let mut config = HcaConfig::new(fabric::Guid(guid_of(spec, n)), *spec.ports.get_ref());
    config.description.clone_from(spec.name.get_ref());
    if spec.offloads {
        config.attr = HcaAttr::with_offloads();
    }
    config.attr.max_mcg = spec.groups;
    config.loopback_block = !scenario.fabric.multicast_loopback;
    config.keeps_srqs = scenario.fabric.keeps_srqs;
    for (port, number) in config.ports.iter_mut().zip(1..) {
        port.mtu = mtu_of(*spec.mtu.as_ref().unwrap_or(&scenario.fabric.mtu).get_ref());
        // Scenarios are checked when read.
        port.width = LinkWidth::of_lanes(*spec.width.get_ref()).unwrap_or(port.width);
        port.cabled = !spec.unplugged.iter().any(|unplugged| *unplugged.get_ref() == number);
        port.speed = speed_of(spec.speed);
        port.subnet = fabric::Subnet(spec.subnet.get_ref() - 1);
    }
    config
}

/// The subnet manager, and what its SA does wrong as a matter of course.
///
/// # Errors
///
/// What ibsim or OpenSM cannot do, or lacks.
pub fn start_sm(infiniband: &InfiniBand, scenario: &Scenario, sm: SmKind) -> Result<Option<Fault>> {
    let partitions = partitions(scenario);
    if sm == SmKind::Opensm {
        within_opensm(scenario)?;
        infiniband.start_opensm_with_lmc(partitions, scenario.fabric.lmc)?;
        return Ok(None);
    }
    let config = SmConfig { partitions, lmc: scenario.fabric.lmc, ..SmConfig::default() };
    let sms = match &scenario.fabric.router {
        None => vec![infiniband.start_sm(config, FIRST_LOOK)],
        Some(_) => {
            let second = SmConfig { guid: SECOND_SM, ..config.clone() };
            let sa = SaConfig { prefix: SECOND_PREFIX, ..second.sa.clone() };
            infiniband.start_two_sms([config, SmConfig { sa, ..second }], ROUTER, FIRST_LOOK)?.to_vec()
        }
    };
    let delay = sm::Nanos::from_millis(scenario.fabric.sa_delay_ms);
    let habit = (delay.0 > 0).then(|| Fault::always(FaultAction::Delay(delay)));
    if let Some(habit) = habit {
        sms.iter().for_each(|sm| sm.faults(|script| script.push(habit)));
    }
    Ok(habit)
}

/// What ibsim's links and OpenSM cannot be asked for.
fn within_opensm(scenario: &Scenario) -> Result<()> {
    let both = scenario.host.iter().any(|host| host.get_ref().membership == scenario::Membership::Both);
    let later = scenario.step.iter().any(
        |step| matches!(step.get_ref(), Step::MembershipChanges(change) if change.to == scenario::Membership::Both),
    );
    if scenario.fabric.router.is_some() {
        bail!("OpenSM manages one subnet, and the fabric has a router to a second one");
    }
    if both || later {
        bail!(
            "OpenSM that allows ports both P_Keys of a partition lets no port with the full one alone into a group"
        );
    }
    let hops = scenario.partition.iter().find(|spec| spec.get_ref().hop_limit.is_some());
    if let Some(partition) = hops {
        bail!(
            "OpenSM gives a group the hop limit of its scope, partition {:#06x} asks for one of its own",
            partition.get_ref().pkey.get_ref()
        );
    }
    let larger = scenario.partition.iter().find(|spec| *spec.get_ref().mtu.get_ref() > IBSIM_MTU);
    if let Some(partition) = larger {
        bail!(
            "ibsim's links carry {IBSIM_MTU} bytes, partition {:#06x} wants more",
            partition.get_ref().pkey.get_ref()
        );
    }
    let smaller = scenario.host.iter().map(Spanned::get_ref).find_map(|host| {
        let mtu = *host.mtu.as_ref()?.get_ref();
        (mtu < IBSIM_MTU).then_some((host.name.get_ref(), mtu))
    });
    if let Some((name, mtu)) = smaller {
        bail!("ibsim's ports all have an MTU of {IBSIM_MTU} bytes, and `{name}` asks for {mtu}");
    }
    Ok(())
}

/// The partitions as a subnet manager is told of them.
pub(crate) fn partitions(scenario: &Scenario) -> Vec<Partition> {
    let hosts = || (0..).zip(scenario.host.iter().map(Spanned::get_ref));
    let specs = scenario.partition.iter().map(Spanned::get_ref);
    let told = specs.map(|spec| {
        let is_in = |host: &HostSpec| (host.pkey.get_ref() ^ spec.pkey.get_ref()) & 0x7fff == 0;
        hosts().filter(|(_, host)| is_in(host)).fold(partition(spec), |partition, (n, host)| {
            let port = Ports::One(sm::Guid(guid_of(host, n) + 1));
            match host.membership {
                scenario::Membership::Full => partition,
                scenario::Membership::Limited => partition.with_members(port, Membership::Limited),
                scenario::Membership::Both => partition.with_members(port, Membership::Both),
            }
        })
    });
    told.collect()
}

/// The partition as a subnet manager is told of it, with full members.
pub(crate) fn partition(spec: &PartitionSpec) -> Partition {
    let pkey = sm::PKey(*spec.pkey.get_ref());
    let partition =
        Partition::new(&format!("p{:04X}", pkey.0), pkey).with_members(Ports::All, Membership::Full);
    if !spec.ipoib {
        return partition;
    }
    let mtu = MtuCode(mtu_of(*spec.mtu.get_ref()).code());
    let usual = GroupParams::default();
    let params = GroupParams {
        mtu,
        rate: sm::RateCode(*spec.rate.get_ref()),
        sl: spec.sl.as_ref().map_or(usual.sl, |sl| sm::Sl::truncating(*sl.get_ref())),
        q_key: spec.qkey.as_ref().map_or(usual.q_key, |key| sm::QKey(*key.get_ref())),
        t_class: spec.tclass.as_ref().map_or(usual.t_class, |class| *class.get_ref()),
        flow_label: spec.flow_label.as_ref().map_or(usual.flow_label, |label| *label.get_ref()),
        hop_limit: spec.hop_limit.as_ref().map(|limit| *limit.get_ref()),
    };
    partition.with_ipoib_in(spec.group_scope(), params)
}

/// A scenario's MTU is checked when it is read.
pub fn mtu_of(bytes: u32) -> Mtu {
    match bytes {
        256 => Mtu::M256,
        512 => Mtu::M512,
        1024 => Mtu::M1024,
        2048 => Mtu::M2048,
        _ => Mtu::M4096,
    }
}

/// Node GUID of a host's adapter; `number` is the host's place in the scenario, from 0.
pub fn guid_of(spec: &HostSpec, number: u16) -> u64 {
    spec.guid.as_ref().map_or(FIRST_GUID + u64::from(number) * 0x10, |guid| *guid.get_ref())
}

/// How fast a lane of this name is.
pub const fn speed_of(speed: Speed) -> LinkSpeed {
    match speed {
        Speed::Sdr => LinkSpeed::Sdr,
        Speed::Ddr => LinkSpeed::Ddr,
        Speed::Qdr => LinkSpeed::Qdr,
        Speed::Fdr10 => LinkSpeed::Fdr10,
        Speed::Fdr => LinkSpeed::Fdr,
        Speed::Edr => LinkSpeed::Edr,
        Speed::Hdr => LinkSpeed::Hdr,
        Speed::Ndr => LinkSpeed::Ndr,
    }
}
