//! The services of `unix` and `genunix` that are neither locks, threads nor time: memory, messages, printing, lists, device
//! nodes.
//!
//! Each is an `unsafe extern "C" fn` a module may import, listed with the contexts it may be called from. Those the lab's
//! other crates need as well are methods of [`Genunix`], reached with [`Kernel::genunix`].

mod atomics;
mod bare;
mod cache;
mod console;
mod cred;
mod ddi;
mod firewall;
mod hash;
mod heap;
mod kmem;
mod kstat;
mod list;
mod memory;
mod number;
mod origin;
mod plain;
mod print;
mod random;
mod shadow;
mod stream;
mod string;
mod user;

pub use console::{Level, Message, Printer, To};
pub use cred::{Cred, Privilege};
pub use ddi::{
    AttachHook, DevInfo, DevInfoSpec, Ereport, MinorNode, Properties, PropertyValue, Service,
    parse_beside_nodes, parse_conf,
};
pub use hash::HashShown;
pub use kstat::{KstatEntry, KstatId, KstatOrigin, KstatValue};
pub use stream::{Chain, Checksums, Owner, SharedSnapshot};
pub use user::UserBuffer;

use sim::Config;

use crate::loader::kernel::Kernel;

/// What one host's kernel knows beside locks, threads and time.
#[derive(Debug)]
pub struct Genunix {
    pub(crate) memory: kmem::Memory,
    pub(crate) caches: cache::Caches,
    pub(crate) streams: stream::Streams,
    pub(crate) hashes: hash::Hashes,
    pub(crate) linked: list::Linked,
    pub(crate) devices: ddi::Devices,
    pub(crate) kstats: kstat::Kstats,
    pub(crate) console: console::Log,
    pub(crate) users: user::Users,
    pub(crate) creds: cred::Creds,
    pub(crate) random: random::Random,
}

impl Genunix {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            memory: kmem::Memory::new(config),
            caches: cache::Caches::new(),
            streams: stream::Streams::new(config.checks),
            hashes: hash::Hashes::new(),
            linked: list::Linked::default(),
            devices: ddi::Devices::new(),
            kstats: kstat::Kstats::new(),
            console: console::Log::new(),
            users: user::Users::new(),
            creds: cred::Creds::new(),
            random: random::Random::default(),
        }
    }
}

/// What a machine without checks binds a name to, when there is something plainer than the function of that name.
pub(crate) fn plain(name: &str) -> Option<usize> {
    plain::address(name)
}

/// Lists everything here with the host's kernel modules.
pub(crate) fn provide(kernel: &Kernel) {
    let unix =
        [atomics::exports(), memory::unix(), string::unix(), number::unix(), print::unix(), random::unix()];
    kernel.provide("unix", "unix", unix.concat());
    let genunix = [
        kmem::exports(),
        cache::exports(),
        stream::exports(),
        hash::exports(),
        list::exports(),
        memory::genunix(),
        string::genunix(),
        number::genunix(),
        print::genunix(),
        ddi::exports(),
        kstat::exports(),
        cred::exports(),
        user::exports(),
    ];
    kernel.provide("genunix", "genunix", genunix.concat());
    kernel.provide("ip", "drv/ip", stream::ip());
    kernel.set_detach_all(|module| module.kernel().detach_instances(module));
    user::guard(kernel);
}

/// Everything a module has taken from these services and not given back, for the report of rule 19: what the host's ledger
/// does not hold because it changes hands with every packet.
pub(crate) fn messages_of(kernel: &Kernel, module: &str) -> Vec<String> {
    kernel.genunix().streams.held_by(kernel, module)
}
