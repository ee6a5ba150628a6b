//! What is below IBTL: the lab's model of an adapter, or the driver of one that is loaded into the host and attached itself
//! (`ibc_attach`). IBTL calls both by the methods here; what it hands out for either has the same handles, rules and books.

mod connected;
pub(crate) mod driver;
mod management;
mod objects;
mod queue;

use std::sync::Arc;

use fabric::PortAttr;
use illumos_sys_hdrs::ibt_status_t;

use crate::status::error;
pub(crate) use connected::RcConfig;
pub(crate) use driver::{Driver, Wire};
pub(crate) use objects::{Ah, Cq, Mr, Pd, Qp, QpNow, Srq, UdConfig};

type Answer<T> = Result<T, ibt_status_t>;

/// An adapter. Clones are the same one.
#[derive(Clone)]
pub(crate) enum Adapter {
    /// The lab's own, on the fabric of the machine.
    Model(fabric::Hca),
    /// A module of the host.
    Driver(Arc<Driver>),
}

/// What its node says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub vendor: u32,
    pub device: u16,
    pub version: u32,
}

impl Adapter {
    /// The lab's own, if it is that.
    pub(crate) fn model(&self) -> Option<&fabric::Hca> {
        match self {
            Self::Model(hca) => Some(hca),
            Self::Driver(_) => None,
        }
    }

    /// The loaded one, if it is that.
    pub(crate) fn driver(&self) -> Option<&Arc<Driver>> {
        match self {
            Self::Model(_) => None,
            Self::Driver(driver) => Some(driver),
        }
    }

    /// Node GUID.
    pub(crate) fn guid(&self) -> u64 {
        match self {
            Self::Model(hca) => hca.guid().0,
            Self::Driver(driver) => driver.guid(),
        }
    }

    /// Number of ports.
    pub(crate) fn nports(&self) -> u8 {
        match self {
            Self::Model(hca) => hca.config().ports.len() as u8,
            Self::Driver(driver) => driver.nports(),
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        match self {
            Self::Model(hca) => {
                let attr = &hca.config().attr;
                Identity { vendor: attr.vendor_id, device: attr.device_id, version: attr.version_id }
            }
            Self::Driver(driver) => driver.identity(),
        }
    }

    /// Its ports as they are now, if it says.
    pub(crate) fn query_ports(&self) -> Option<Vec<PortAttr>> {
        match self {
            Self::Model(hca) => hca.query_ports().ok(),
            Self::Driver(driver) => Some(driver.query_ports()),
        }
    }

    /// Says that a subnet manager is behind a port, or not any more; false if the adapter does not take it.
    pub(crate) fn set_is_sm(&self, port: u8, is_sm: bool) -> bool {
        match self {
            Self::Model(hca) => hca.set_is_sm(fabric::PortNum(port), is_sm).is_ok(),
            Self::Driver(_) => false,
        }
    }
}

/// What the model answers, as IBTL says it.
fn of_model<T>(result: Result<T, fabric::Error>) -> Answer<T> {
    result.map_err(error)
}
