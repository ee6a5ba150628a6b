//! The module and its instances.

use gldv3::{DriverOps, InstanceNumber};
use kernel::Errno;
use kernel::ddi::DevInfo;
use kernel::log;
use kernel::module::{Driver, Env, Module};

use crate::link::Link;
use crate::node::Node;

/// The module, as `ibd` or `ibp`.
pub struct Ibd {
    _ops: DriverOps,
}

impl Module for Ibd {
    fn init(env: &Env) -> Result<Self, Errno> {
        Ok(Self { _ops: DriverOps::register(env)? })
    }
}

/// An attached device node.
pub struct Instance(Link);

impl Driver for Ibd {
    type Instance = Instance;

    fn attach(&self, dip: DevInfo) -> Result<Instance, Errno> {
        let node = Node::read(dip)?;
        let pkey = node.pkey.ok_or_else(|| {
            log!(warn, dip, "property port-pkey is missing");
            Errno::EINVAL
        })?;
        Link::attach(dip, node, pkey, InstanceNumber::Device).map(Instance)
    }

    fn detach(&self, _dip: DevInfo, instance: Instance) -> Result<(), Instance> {
        instance.0.detach().map_err(|(link, _)| Instance(link))
    }
}
