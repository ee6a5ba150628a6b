//! Zones of a host: each has an IP instance of its own, links that were given to it, and files below its own root.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fakekernel::{Errno, HostMutex, Kernel, SleepMutex};
use lab_gldv3::{LinkSummary, set_link_zone};

use super::ip::HostIp;

/// A zone that runs.
pub struct Zone {
    pub id: i32,
    pub name: String,
    pub ip: HostIp,
    /// The root of its files.
    pub root: PathBuf,
    links: Vec<String>,
}

impl Zone {
    /// Links that are in the zone, whoever made them.
    pub fn sees(&self, link: &LinkSummary) -> bool {
        link.zone == self.id || link.owner == self.id
    }
}

/// See the module's documentation.
pub struct Zones {
    kernel: Kernel,
    /// The root of the host's files.
    root: PathBuf,
    seed: u64,
    /// Held while a zone comes or goes.
    changing: SleepMutex<()>,
    running: HostMutex<Running>,
}

#[derive(Default)]
struct Running {
    zones: BTreeMap<String, Arc<Zone>>,
    last: i32,
}

impl Zones {
    pub fn new(kernel: &Kernel, root: PathBuf, seed: u64) -> Self {
        let (changing, running) = (SleepMutex::new("the zones", ()), HostMutex::new(Running::default()));
        Self { kernel: kernel.clone(), root, seed, changing, running }
    }

    /// Those that run, by name. From anywhere, as [`Zones::find`].
    pub fn all(&self) -> Vec<Arc<Zone>> {
        self.running.lock().zones.values().cloned().collect()
    }

    pub fn find(&self, name: &str) -> Option<Arc<Zone>> {
        self.running.lock().zones.get(name).cloned()
    }

    /// Starts a zone with these links, all of them or none.
    ///
    /// # Errors
    ///
    /// EEXIST when it runs; ENOENT when there is no such link, or another zone has it; EBUSY when somebody has it open.
    pub fn boot(&self, name: &str, links: &[String]) -> Result<Arc<Zone>, Errno> {
        let _alone = self.changing.lock();
        if self.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let known = lab_gldv3::links(&self.kernel);
        let is_free = |name: &String| known.iter().any(|link| link.name == *name && link.zone == 0);
        if !links.iter().all(is_free) {
            return Err(Errno::ENOENT);
        }
        let id = self.running.lock().last + 1;
        for (at, link) in links.iter().enumerate() {
            if let Err(errno) = set_link_zone(&self.kernel, link, id) {
                give_back(&self.kernel, &links[..at]);
                return Err(errno);
            }
        }
        let zone = Arc::new(Zone {
            id,
            name: name.to_owned(),
            ip: HostIp::new(&self.kernel, self.seed.wrapping_add(id.unsigned_abs().into()), None),
            root: self.root.join(admin::zone_directory(name)).join("root"),
            links: links.to_vec(),
        });
        let mut running = self.running.lock();
        running.last = id;
        running.zones.insert(name.to_owned(), zone.clone());
        Ok(zone)
    }

    /// Ends a zone; its links are the global zone's again.
    ///
    /// # Errors
    ///
    /// ENXIO when it does not run.
    pub fn halt(&self, name: &str) -> Result<(), Errno> {
        let _alone = self.changing.lock();
        let zone = self.running.lock().zones.remove(name).ok_or(Errno::ENXIO)?;
        zone.ip.close();
        give_back(&self.kernel, &zone.links);
        Ok(())
    }

    /// Ends them all.
    pub fn halt_all(&self) {
        for zone in self.all() {
            // Somebody else may have been quicker.
            let _ = self.halt(&zone.name);
        }
    }
}

fn give_back(kernel: &Kernel, links: &[String]) {
    for link in links {
        // A link whose adapter is gone has nobody to be given back to.
        let _ = set_link_zone(kernel, link, 0);
    }
}
