//! [`admin::System`] on a host of the lab, as one process of it sees it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::{
    AddressKind, Capture, FileError, Group, Interface, Kstat, Neighbour, PingSpec, Pinger, Port, System,
};
use fakekernel::genunix::{Cred, KstatId};
use fakekernel::{Errno, Nanos};
use lab_gldv3::{
    Datalink, LinkSummary, PointedTo, PropertyId, PropertyInfo, PropertyValue, datalinks, dld_ioctl_with,
};
use lab_ibtf::nexus;

use super::files;
use super::heard::boot_time;
use super::host::DeskHost;
use super::ip::HostIp;
use super::listener::Listener;
use super::zones::Zone;
use crate::words::complain;

/// How soon a sleeping command notices that it was interrupted.
const ATTENTION: Duration = Duration::from_millis(20);

/// A process of a host.
pub struct Process {
    host: Arc<DeskHost>,
    /// The other hosts, by whose names it calls them.
    others: Vec<Arc<DeskHost>>,
    privileged: bool,
    /// Where it is.
    directory: PathBuf,
    interrupted: Arc<AtomicBool>,
    /// The zone it is in, if not the global one.
    zone: Option<Arc<Zone>>,
    id: u32,
}

impl Process {
    /// One of the machine's own, as the boot methods are.
    pub fn root(host: Arc<DeskHost>) -> Self {
        let (others, directory) = (Vec::new(), "/".into());
        Self::new(host, others, true, directory, Arc::default())
    }

    /// One that a person started.
    pub fn new(
        host: Arc<DeskHost>,
        others: Vec<Arc<DeskHost>>,
        privileged: bool,
        directory: PathBuf,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        let id = host.next_process_id();
        Self { host, others, privileged, directory, interrupted, zone: None, id }
    }

    /// The same process in a zone.
    #[must_use]
    pub fn in_zone(self, zone: Option<Arc<Zone>>) -> Self {
        Self { zone, ..self }
    }

    fn allowed(&self) -> Result<(), Errno> {
        if self.privileged { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// May it configure data links (`sys_dl_config`)? No process of a zone has that privilege.
    fn may_configure_links(&self) -> Result<(), Errno> {
        if self.zone.is_none() { self.allowed() } else { Err(Errno::EPERM) }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The IP instance of its zone.
    fn ip(&self) -> &HostIp {
        self.zone.as_ref().map_or(&self.host.ip, |zone| &zone.ip)
    }

    fn zone_id(&self) -> i32 {
        self.zone.as_ref().map_or(0, |zone| zone.id)
    }

    fn sees(&self, link: &LinkSummary) -> bool {
        self.zone.as_ref().is_none_or(|zone| zone.sees(link))
    }

    /// A link is opened in the zone that has it.
    fn may_open(&self, link: &str) -> Result<(), Errno> {
        let found = self.links().into_iter().find(|known| known.name == link).ok_or(Errno::ENOENT)?;
        if found.zone == self.zone_id() { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// Its properties are for the zone that made it.
    fn owns(&self, link: &str) -> Result<(), Errno> {
        let found = self.links().into_iter().find(|known| known.name == link).ok_or(Errno::ENOENT)?;
        if found.owner == self.zone_id() { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn sees_kstat(&self, id: &KstatId) -> bool {
        self.zone.is_none() || id.module == "link" && self.links().iter().any(|link| link.name == id.name)
    }

    /// A path below the host's root; `None` for one that leads out of it.
    fn path(&self, path: &str) -> Option<PathBuf> {
        let parts = Path::new(path).components();
        let inside: Option<PathBuf> = parts
            .filter(|part| !matches!(part, Component::RootDir | Component::CurDir))
            .map(|part| if let Component::Normal(name) = part { Some(name) } else { None })
            .collect();
        let root = self.zone.as_ref().map_or(&self.host.root, |zone| &zone.root);
        Some(root.join(inside?))
    }
}

impl Process {
    fn own_path(&self, path: &str) -> Result<PathBuf, FileError> {
        self.path(path).ok_or_else(|| FileError(format!("{path}: outside the host's files")))
    }

    fn file_error(&self, path: &Path, error: &io::Error) -> FileError {
        let why = format!("{}: {error}", path.display());
        // Commands of illumos do not say it.
        complain(&format!("{}: {why}", self.host.name));
        FileError(why)
    }
}

impl System for Process {
    fn privileged(&self) -> bool {
        self.privileged
    }

    fn datalinks(&self) -> Vec<Datalink> {
        let links = self.links();
        let mut all = datalinks(&self.host.kernel);
        // Only a link that is there can be another zone's.
        all.retain(|entry| self.zone.is_none() || links.iter().any(|link| link.id == entry.id));
        all
    }

    fn links(&self) -> Vec<LinkSummary> {
        let mut links = lab_gldv3::links(&self.host.kernel);
        links.retain(|link| self.sees(link));
        links
    }

    fn create_datalink(
        &self,
        name: &str,
        partition: bool,
        properties: &[(PropertyId, PropertyValue)],
    ) -> Result<u32, Errno> {
        self.may_configure_links()?;
        lab_gldv3::create_datalink(&self.host.kernel, name, partition, properties)
    }

    fn destroy_datalink(&self, id: u32) {
        lab_gldv3::destroy_datalink(&self.host.kernel, id);
    }

    fn rename_datalink(&self, id: u32, name: &str) -> Result<(), Errno> {
        self.may_configure_links()?;
        lab_gldv3::rename_datalink(&self.host.kernel, id, name)
    }

    fn ioctl(
        &self,
        command: u32,
        argument: &mut [u8],
        pointed_to: Option<PointedTo<'_>>,
    ) -> Result<i32, Errno> {
        let cred = if self.may_configure_links().is_ok() { Cred::ROOT } else { Cred::USER };
        dld_ioctl_with(&self.host.kernel, cred, command, argument, pointed_to)
    }

    fn get_property(&self, link: &str, id: &PropertyId) -> Result<PropertyValue, Errno> {
        self.owns(link)?;
        lab_gldv3::get_property(&self.host.kernel, link, id)
    }

    fn set_property(&self, link: &str, id: &PropertyId, value: &PropertyValue) -> Result<(), Errno> {
        self.may_configure_links()?;
        lab_gldv3::set_property(&self.host.kernel, link, id, value)
    }

    fn property_info(&self, link: &str, id: &PropertyId) -> Result<PropertyInfo, Errno> {
        self.owns(link)?;
        lab_gldv3::property_info(&self.host.kernel, link, id)
    }

    fn kstats(&self) -> Vec<KstatId> {
        let mut kstats = self.host.kernel.kstats();
        kstats.retain(|id| self.sees_kstat(id));
        kstats
    }

    fn read_kstat(&self, id: &KstatId) -> Result<Kstat, Errno> {
        let kernel = &self.host.kernel;
        if !self.sees_kstat(id) {
            return Err(Errno::ENOENT);
        }
        let origin = kernel.kstat_origin(id).ok_or(Errno::ENOENT)?;
        let values = kernel.scope(|| kernel.read_kstat(id))?;
        Ok(Kstat {
            class: origin.class,
            created: Duration::from_nanos(origin.created.0),
            read: Duration::from_nanos(fakekernel::now().0),
            values,
        })
    }

    fn ports(&self) -> Vec<Port> {
        if self.zone.is_some() {
            return Vec::new();
        }
        let attached = self.host.kernel.attached_instances("ibp");
        let port = |node: nexus::PortNode| Port {
            hca: node.hca.0,
            guid: node.port_guid.0,
            configured: attached.contains(&node.device.instance()),
        };
        nexus::ports(&self.host.kernel).into_iter().map(port).collect()
    }

    fn walk_devices(&self) -> Result<(), Errno> {
        self.may_configure_links()?;
        self.host.walk_devices();
        Ok(())
    }

    fn set_services(&self, text: &str) -> Result<(), Errno> {
        self.may_configure_links()?;
        nexus::set_conf(&self.host.kernel, text).map_err(|_| Errno::EINVAL)
    }

    fn read_file(&self, path: &str) -> Option<String> {
        files::readable(&self.host.name, &self.path(path)?, &self.host.told)
    }

    fn change_file_and(
        &self,
        path: &str,
        change: &mut dyn FnMut(String) -> String,
        act: &mut dyn FnMut() -> bool,
    ) -> Result<(), FileError> {
        let path = self.own_path(path)?;
        let _alone = self.host.files.lock();
        replace(&path, change, act).map_err(|error| self.file_error(&path, &error))
    }

    fn remove_file(&self, path: &str) -> Result<(), FileError> {
        let path = self.own_path(path)?;
        let _alone = self.host.files.lock();
        remove(&path).map_err(|error| self.file_error(&path, &error))
    }

    fn open_file(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let bytes = files::read(&self.directory.join(path), files::LARGEST_CAPTURE);
        bytes.map_err(|error| FileError(format!("{path}: {error}")))
    }

    fn create_file(&self, path: &str) -> Result<Box<dyn Write>, FileError> {
        let file = fs::File::create(self.directory.join(path));
        let file = file.map_err(|error| FileError(format!("{path}: {error}")))?;
        Ok(Box::new(BufWriter::new(file)))
    }

    fn listen(&self, link: &str, promiscuous: bool) -> Result<Box<dyn Capture>, Errno> {
        self.allowed()?;
        self.may_open(link)?;
        Ok(Box::new(Listener::open(&self.host.kernel, link, promiscuous)?))
    }

    fn interfaces(&self) -> Vec<Interface> {
        self.ip().interfaces()
    }

    fn plumb(&self, link: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.may_open(link)?;
        self.ip().plumb(link)
    }

    fn unplumb(&self, interface: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().unplumb(interface)
    }

    fn add_address(&self, interface: &str, object: &str, kind: AddressKind) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().add_address(interface, object, kind)
    }

    fn remove_address(&self, object: &str, release: bool) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().remove_address(object, release)
    }

    fn create_group(&self, name: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().create_group(name)
    }

    fn delete_group(&self, name: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().delete_group(name)
    }

    fn add_to_group(&self, group: &str, interface: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().add_to_group(group, interface)
    }

    fn remove_from_group(&self, group: &str, interface: &str) -> Result<(), Errno> {
        self.allowed()?;
        self.ip().remove_from_group(group, interface)
    }

    fn groups(&self) -> Vec<Group> {
        self.ip().groups()
    }

    fn neighbours(&self) -> Vec<Neighbour> {
        self.ip().neighbours()
    }

    fn pinger(&self, spec: &PingSpec) -> Result<Box<dyn Pinger + '_>, Errno> {
        self.ip().pinger(spec, Box::new(|| self.is_interrupted()))
    }

    fn resolve(&self, name: &str) -> Option<IpAddr> {
        if name == "localhost" {
            return Some(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let mut all = std::iter::once(&self.host).chain(&self.others);
        all.find(|host| host.name == name)?.ip.address()
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        let mut all = std::iter::once(&self.host).chain(&self.others);
        Some(all.find(|host| host.ip.has(address))?.name.clone())
    }

    fn zone(&self) -> admin::Zone {
        self.zone.as_ref().map_or_else(admin::Zone::global, |zone| name_of(zone))
    }

    fn zones(&self) -> Vec<admin::Zone> {
        match &self.zone {
            Some(zone) => vec![name_of(zone)],
            None => {
                let running = self.host.zones.all();
                std::iter::once(admin::Zone::global())
                    .chain(running.iter().map(|zone| name_of(zone)))
                    .collect()
            }
        }
    }

    fn boot_zone(&self, name: &str, links: &[String]) -> Result<(), Errno> {
        self.may_configure_links()?;
        self.host.boot_zone(name, links)
    }

    fn halt_zone(&self, name: &str) -> Result<(), Errno> {
        self.may_configure_links()?;
        self.host.zones.halt(name)
    }

    fn process_id(&self) -> u32 {
        self.id
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(fakekernel::now().0)
    }

    fn time(&self) -> Duration {
        boot_time() + self.now()
    }

    fn wait(&self, span: Duration) -> bool {
        // A span may be longer than there is time.
        let end = self.now().saturating_add(span);
        loop {
            if self.is_interrupted() {
                return true;
            }
            let left = end.saturating_sub(self.now()).min(ATTENTION);
            if left.is_zero() {
                return false;
            }
            fakekernel::sleep(Nanos(left.as_nanos() as u64));
        }
    }
}

fn name_of(zone: &Zone) -> admin::Zone {
    admin::Zone { id: zone.id, name: zone.name.clone() }
}

/// See [`System::remove_file`]. A link is taken away, not what it points to.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Writes beside the file, acts, and puts that in its place, so that whoever reads sees the one or the other. What failed leaves
/// nothing behind.
fn replace(
    path: &Path,
    change: &mut dyn FnMut(String) -> String,
    act: &mut dyn FnMut() -> bool,
) -> io::Result<()> {
    let before = match files::text(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        other => Some(other?),
    };
    let after = change(before.clone().unwrap_or_default());
    if before.as_ref() == Some(&after) {
        act();
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let new = path.with_extension("new");
    let written = fs::write(&new, after).and_then(|()| if act() { fs::rename(&new, path) } else { Ok(()) });
    // It is gone if it has taken its place.
    let _ = fs::remove_file(&new);
    written
}
