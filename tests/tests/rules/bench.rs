//! A machine with one host and one probe in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use conformance::probe::Probe;
use fakekernel::genunix::{DevInfo, DevInfoSpec};
use fakekernel::{Ctx, Errno, Kernel, Module};

/// The host every probe runs on.
pub const HOST: &str = "probed";

/// The node GUID of its adapter, if it has one.
pub const ADAPTER: i64 = 0x0002_c903_0000_1000;

/// What a case can do with its loaded probe.
pub struct Bench {
    pub kernel: Kernel,
    pub module: Module,
}

impl Bench {
    /// Calls a function of the probe in user context.
    pub fn call(&self, probe: &'static str) -> i64 {
        self.call_with(probe, 0)
    }

    /// As [`call`](Self::call), with an argument.
    pub fn call_with(&self, probe: &'static str, arg: i64) -> i64 {
        self.module.call_probe(probe, Some(Ctx::User), arg)
    }

    /// A device node for the probe, which is a driver.
    pub fn node(&self) -> DevInfo {
        let driver = self.module.name().to_owned();
        self.kernel.add_device(DevInfoSpec { name: "probed".into(), driver, ..DevInfoSpec::default() })
    }

    /// An attached device node.
    pub fn attached(&self) -> DevInfo {
        let node = self.node();
        self.kernel.attach(&self.module, &node).expect("the driver attaches");
        node
    }

    /// The same, below another node.
    pub fn attached_below(&self) -> DevInfo {
        let above = self.kernel.add_device(DevInfoSpec { name: "above".into(), ..DevInfoSpec::default() });
        let driver = self.module.name().to_owned();
        let spec =
            DevInfoSpec { name: "probed".into(), driver, parent: Some(above), ..DevInfoSpec::default() };
        let node = self.kernel.add_device(spec);
        self.kernel.attach(&self.module, &node).expect("the driver attaches");
        node
    }

    pub fn detach(&self, node: &DevInfo) -> Result<(), Errno> {
        self.kernel.detach(&self.module, node)
    }
}

/// Builds `probes/rules/SOURCE.c` once.
pub fn built(source: &'static str, defines: &'static [&'static str]) -> PathBuf {
    once("rules", source, defines, &[])
}

/// Builds `probes/gldv3/SOURCE.c` once.
pub fn built_over_gldv3(source: &'static str, defines: &'static [&'static str]) -> PathBuf {
    once("gldv3", source, defines, &["misc/mac", "misc/dls", "drv/dld"])
}

/// Builds `probes/ibtl/SOURCE.c` once.
pub fn built_over_ibtf(source: &'static str) -> PathBuf {
    once("ibtl", source, &[], &["misc/ibtl", "misc/ibcm"])
}

fn once(
    folder: &'static str,
    source: &'static str,
    defines: &'static [&'static str],
    depends: &[&str],
) -> PathBuf {
    type Built = BTreeMap<(&'static str, &'static str, &'static [&'static str]), PathBuf>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let probe = Probe::new(source).file(format!("probes/{folder}/{source}.c"));
        let probe = depends.iter().fold(probe, |probe, module| probe.depends(module));
        defines.iter().fold(probe, |probe, define| probe.define(define)).build()
    };
    built.entry((folder, source, defines)).or_insert_with(build).clone()
}
