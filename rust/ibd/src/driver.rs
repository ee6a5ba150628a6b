//! The module and its instances: `ibd`, whose nodes are links, or `ibp`, whose nodes are ports.

use gldv3::ibpart::MODULE_ID;
use gldv3::ioctl::IoctlRegistration;
use gldv3::{DriverOps, InstanceNumber};
use ibtf::{PartitionRegistration, PathServiceRegistration};
use kernel::ddi::DevInfo;
use kernel::module::{Driver, Env, Module};
use kernel::{Errno, KArc, MayBlock, log};

use crate::common::Common;
use crate::link::Link;
use crate::node::Node;
use crate::partition::{self, Ports};

/// The module, under either name.
pub struct Ibd {
    ports: Option<PortDriver>,
    common: KArc<Common>,
    _questions: PathServiceRegistration,
    // Last: mac's until after everything else has gone.
    _ops: DriverOps,
}

/// What `ibp` has beside.
struct PortDriver {
    ports: KArc<Ports>,
    _ioctls: IoctlRegistration<Ports>,
    _questions: PartitionRegistration<Ports>,
}

impl Module for Ibd {
    fn init(env: &Env, may_block: &MayBlock) -> Result<Self, Errno> {
        let ops = DriverOps::register(env)?;
        // dld dispatches the partition ioctls to the driver of this name.
        let common = Common::new(may_block)?;
        let is_ibp = env.driver_name() == c"ibp";
        let ports = if is_ibp { Some(PortDriver::new(common.clone(), may_block)?) } else { None };
        let questions = PathServiceRegistration::new(common.directory.clone(), may_block)?;
        Ok(Self { ports, common, _questions: questions, _ops: ops })
    }

    /// No instance is attached: they are detached before this is called. So no link uses what rests, and its memory can go.
    fn prepare_unload(&self) -> Result<(), Errno> {
        self.common.kept.end();
        Ok(())
    }
}

impl PortDriver {
    fn new(common: KArc<Common>, may_block: &MayBlock) -> Result<Self, Errno> {
        let ports = Ports::new(common, may_block);
        let rows = partition::ioctls(may_block);
        let ioctls = IoctlRegistration::register(MODULE_ID, ports.clone(), rows, may_block)?;
        let questions = PartitionRegistration::new(ports.clone())?;
        Ok(Self { ports, _ioctls: ioctls, _questions: questions })
    }
}

/// An attached device node.
pub enum Instance {
    /// A partition's link.
    #[doc(hidden)]
    Link(LinkInstance),
    /// A port, kept in the module's list.
    #[doc(hidden)]
    Port,
}

/// An attached link; opaque.
pub struct LinkInstance(Link);

impl Driver for Ibd {
    type Instance = Instance;

    fn attach(&self, dip: DevInfo, may_block: &MayBlock) -> Result<Instance, Errno> {
        let node = Node::read(dip)?;
        if let Some(driver) = &self.ports {
            driver.ports.attach(dip, node, may_block)?;
            return Ok(Instance::Port);
        }
        let pkey = node.pkey.ok_or_else(|| {
            log!(
                warn,
                dip,
                "no property port-pkey: name ibd in vppa-svc-list of ib.conf, not in port-svc-list"
            );
            Errno::EINVAL
        })?;
        let number = dip.instance();
        let link = Link::attach(dip, node, pkey, InstanceNumber::Device, &self.common, number, may_block)?;
        Ok(Instance::Link(LinkInstance(link)))
    }

    fn detach(&self, dip: DevInfo, instance: Instance) -> Result<(), Instance> {
        match (instance, &self.ports) {
            (Instance::Link(LinkInstance(link)), _) => {
                link.detach().map_err(|(link, _)| Instance::Link(LinkInstance(link)))
            }
            (Instance::Port, Some(driver)) => driver.ports.detach(dip).map_err(|_| Instance::Port),
            (Instance::Port, None) => Ok(()),
        }
    }

    fn refuse_suspend(&self, dip: DevInfo, instance: &Instance) {
        match (instance, &self.ports) {
            (Instance::Link(LinkInstance(link)), _) => link.refuse_suspend(),
            (Instance::Port, Some(driver)) => driver.ports.refuse_suspend(dip),
            (Instance::Port, None) => {}
        }
    }
}
