//! What a command can ask of the host it runs on.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use fakekernel::Errno;
use fakekernel::genunix::{KstatId, KstatValue};
use lab_gldv3::{
    Datalink, LinkAddress, LinkState, LinkSummary, PointedTo, PropertyId, PropertyInfo, PropertyValue,
};

/// A host, as a process with certain privileges sees it. Every call is one that the command makes on illumos too; each may
/// sleep.
pub trait System {
    /// May the process configure data links and interfaces (`sys_dl_config`, `sys_ip_config`)?
    fn privileged(&self) -> bool;

    /// Every data link that the management daemon has an id for, by id.
    fn datalinks(&self) -> Vec<Datalink>;
    /// Those with a mac, by name.
    fn links(&self) -> Vec<LinkSummary>;
    /// An id for a new link; its properties are set when it comes.
    ///
    /// # Errors
    ///
    /// EEXIST when the name is taken, EINVAL when it is none, EPERM.
    fn create_datalink(
        &self,
        name: &str,
        partition: bool,
        properties: &[(PropertyId, PropertyValue)],
    ) -> Result<u32, Errno>;
    /// Gives an id back.
    fn destroy_datalink(&self, id: u32);
    /// Another name for a link that nobody has open.
    ///
    /// # Errors
    ///
    /// ENOENT, EEXIST, EBUSY, EPERM.
    fn rename_datalink(&self, id: u32, name: &str) -> Result<(), Errno>;
    /// `ioctl(2)` on `/dev/dld`.
    ///
    /// # Errors
    ///
    /// The framework's or the driver's.
    fn ioctl(
        &self,
        command: u32,
        argument: &mut [u8],
        pointed_to: Option<PointedTo<'_>>,
    ) -> Result<i32, Errno>;
    /// A property's value, from the framework or the driver.
    ///
    /// # Errors
    ///
    /// The framework's or the driver's.
    fn get_property(&self, link: &str, id: &PropertyId) -> Result<PropertyValue, Errno>;
    /// Sets a property until the link goes.
    ///
    /// # Errors
    ///
    /// The framework's or the driver's.
    fn set_property(&self, link: &str, id: &PropertyId, value: &PropertyValue) -> Result<(), Errno>;
    /// What else is known of it.
    ///
    /// # Errors
    ///
    /// The framework's or the driver's.
    fn property_info(&self, link: &str, id: &PropertyId) -> Result<PropertyInfo, Errno>;

    /// Every statistic, in order.
    fn kstats(&self) -> Vec<KstatId>;
    /// A statistic as it is now.
    ///
    /// # Errors
    ///
    /// ENOENT, or what the owner refused with.
    fn read_kstat(&self, id: &KstatId) -> Result<Kstat, Errno>;

    /// The adapters' ports, as the nexus has them.
    fn ports(&self) -> Vec<Port>;

    /// What `devfsadm` has the kernel do: device nodes that are to be there by now are made and get their drivers.
    ///
    /// # Errors
    ///
    /// EPERM.
    fn walk_devices(&self) -> Result<(), Errno>;
    /// Tells the IB nexus what its configuration file will say.
    ///
    /// # Errors
    ///
    /// EPERM; EINVAL for a text that is no such file.
    fn set_services(&self, text: &str) -> Result<(), Errno>;

    /// A file below the host's root; `None` when there is none.
    fn read_file(&self, path: &str) -> Option<String>;
    /// Replaces a file by what `change` makes of it, as one step.
    ///
    /// # Errors
    ///
    /// What the file system says.
    fn change_file(&self, path: &str, change: &mut dyn FnMut(String) -> String) -> Result<(), FileError> {
        self.change_file_and(path, change, &mut || true)
    }

    /// The same, with something done once the new text is known to have its place on the disk. If that says that it failed,
    /// the file stays as it was, which is no error.
    ///
    /// # Errors
    ///
    /// What the file system says; nothing was done then.
    fn change_file_and(
        &self,
        path: &str,
        change: &mut dyn FnMut(String) -> String,
        act: &mut dyn FnMut() -> bool,
    ) -> Result<(), FileError>;

    /// Takes a file below the host's root away, or a directory with all that is in it. One that is not there is gone already.
    ///
    /// # Errors
    ///
    /// What the file system says.
    fn remove_file(&self, path: &str) -> Result<(), FileError>;

    /// The content of a file that a person names, from where they are.
    ///
    /// # Errors
    ///
    /// What the file system says.
    fn open_file(&self, path: &str) -> Result<Vec<u8>, FileError>;
    /// A new file under the name that a person gives.
    ///
    /// # Errors
    ///
    /// What the file system says.
    fn create_file(&self, path: &str) -> Result<Box<dyn Write>, FileError>;
    /// Listens on a link, raw and passive, until the result is dropped. That starts the link's driver.
    ///
    /// # Errors
    ///
    /// ENOENT when there is no such link, what opening it failed with, EPERM.
    fn listen(&self, link: &str, promiscuous: bool) -> Result<Box<dyn Capture>, Errno>;

    /// Interfaces in the order of their indices, `lo0` first.
    fn interfaces(&self) -> Vec<Interface>;
    /// Plumbs an interface: opens the link, which starts its driver.
    ///
    /// # Errors
    ///
    /// EEXIST when it is there, ENOENT when there is no such link, what opening it failed with.
    fn plumb(&self, link: &str) -> Result<(), Errno>;
    /// Takes an interface away, addresses and all.
    ///
    /// # Errors
    ///
    /// ENXIO when there is none; EPERM.
    fn unplumb(&self, interface: &str) -> Result<(), Errno>;
    /// Gives an interface an address.
    ///
    /// # Errors
    ///
    /// ENXIO when there is no such interface, EEXIST for a name or address that is there, ENOSPC when there is no room,
    /// ENOTSUP when DHCP cannot give it here, EPERM.
    fn add_address(&self, interface: &str, object: &str, kind: AddressKind) -> Result<(), Errno>;
    /// Takes it away; `release` tells the DHCP server that gave it.
    ///
    /// # Errors
    ///
    /// ENOENT when no interface has an address of that name; EPERM.
    fn remove_address(&self, object: &str, release: bool) -> Result<(), Errno>;
    /// Makes an IPMP interface without members.
    ///
    /// # Errors
    ///
    /// EEXIST, ENOTSUP when the host cannot have one, EPERM.
    fn create_group(&self, name: &str) -> Result<(), Errno>;
    /// Takes it away.
    ///
    /// # Errors
    ///
    /// ENXIO when there is none, EBUSY while it has members, EPERM.
    fn delete_group(&self, name: &str) -> Result<(), Errno>;
    /// Puts an interface under it.
    ///
    /// # Errors
    ///
    /// ENXIO when there is no such group or interface, EBUSY when the interface has addresses or is in a group, EPERM.
    fn add_to_group(&self, group: &str, interface: &str) -> Result<(), Errno>;
    /// Lets it go.
    ///
    /// # Errors
    ///
    /// ENXIO when the interface is not in the group, EPERM.
    fn remove_from_group(&self, group: &str, interface: &str) -> Result<(), Errno>;
    /// Every IPMP group, as its daemon has them.
    fn groups(&self) -> Vec<Group>;
    /// Whom the interfaces know, by interface and address, their own addresses and the groups they hear among them.
    fn neighbours(&self) -> Vec<Neighbour>;
    /// Opens a socket for echoes.
    ///
    /// # Errors
    ///
    /// ENETUNREACH (128) when no interface leads there.
    fn pinger(&self, spec: &PingSpec) -> Result<Box<dyn Pinger + '_>, Errno>;
    /// The address of a host of the lab by that name.
    fn resolve(&self, name: &str) -> Option<IpAddr>;

    /// The name of the host of the lab that has an address.
    fn name_of(&self, address: IpAddr) -> Option<String>;

    /// The zone the process is in.
    fn zone(&self) -> Zone;
    /// The zones that run, as the process may see them.
    fn zones(&self) -> Vec<Zone>;
    /// Starts a zone with an IP instance of its own and gives it these links.
    ///
    /// # Errors
    ///
    /// EEXIST when it runs, ENOENT when there is no such link, EBUSY when somebody has a link open, EPERM.
    fn boot_zone(&self, name: &str, links: &[String]) -> Result<(), Errno>;
    /// Ends a zone: its interfaces go, and its links are the global zone's again.
    ///
    /// # Errors
    ///
    /// ENXIO when it does not run, EPERM.
    fn halt_zone(&self, name: &str) -> Result<(), Errno>;

    /// Number of this process.
    fn process_id(&self) -> u32;

    /// The system's clock, which never goes back; spans are differences of it.
    fn now(&self) -> Duration;
    /// The wall clock, since 1970.
    fn time(&self) -> Duration;
    /// Waits; true when the command was interrupted.
    fn wait(&self, span: Duration) -> bool;
}

/// A socket for echoes to one address; closed when dropped.
pub trait Pinger {
    /// Sends a request with so many bytes behind the ICMP header, and does not wait.
    ///
    /// # Errors
    ///
    /// EMSGSIZE (97) when the interface does not take so much.
    fn send(&mut self, sequence: u16, size: usize) -> Result<(), Errno>;
    /// The next answer; waits for it until then by [`System::now`], or until the command is interrupted.
    fn answer(&mut self, deadline: Duration) -> Option<EchoAnswer>;
}

/// Changes a file, and the host with it: both, or neither.
///
/// # Errors
///
/// Those of `act`, or `unwritable`.
pub(crate) fn change_both<E>(
    system: &dyn System,
    path: &str,
    change: &mut dyn FnMut(String) -> String,
    act: impl FnOnce() -> Result<(), E>,
    unwritable: E,
) -> Result<(), E> {
    let (mut act, mut done) = (Some(act), Ok(()));
    let written = system.change_file_and(path, change, &mut || {
        done = act.take().map_or(Ok(()), |act| act());
        done.is_ok()
    });
    done.and(written.map_err(|_| unwritable))
}

/// A zone that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// 0 is the global zone's.
    pub id: i32,
    /// Its name.
    pub name: String,
}

impl Zone {
    /// The zone that every host has.
    pub fn global() -> Self {
        Self { id: 0, name: "global".to_owned() }
    }

    /// Is it that one?
    pub fn is_global(&self) -> bool {
        self.id == 0
    }
}

/// A listener on a link.
pub trait Capture {
    /// The next packet, if one comes in time.
    fn next(&mut self, patience: Duration) -> Option<Frame>;
}

/// A packet as a raw listener sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it came, since 1970.
    pub time: Duration,
    /// Its size in bytes, the 4-byte IPoIB header included.
    pub size: usize,
    /// Packets lost before it.
    pub drops: u32,
    /// What was kept of it.
    pub bytes: Vec<u8>,
}

/// A statistic as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Kstat {
    /// Its class, `net` for a link's.
    pub class: String,
    /// When it was created, since boot.
    pub created: Duration,
    /// When it was read, since boot.
    pub read: Duration,
    /// Its values, in its own order.
    pub values: Vec<(String, KstatValue)>,
}

/// A port of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Node GUID of the adapter.
    pub hca: u64,
    /// Port GUID.
    pub guid: u64,
    /// Has the driver its instance?
    pub configured: bool,
}

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(pub String);

/// An IP interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name: the link's, or `lo0`.
    pub name: String,
    /// From 1.
    pub index: u32,
    /// Carrier.
    pub link: LinkState,
    /// What kind of interface.
    pub class: Class,
    /// The link's address; `None` for `lo0`, for a group, and while the link has none.
    pub link_address: Option<LinkAddress>,
    /// Greatest packet, bytes.
    pub mtu: u32,
    /// Its addresses, in the order they came.
    pub addresses: Vec<Address>,
    /// Packets and errors: in, in errors, out, out errors.
    pub counters: [u64; 4],
}

impl Interface {
    /// Is it the loopback interface?
    pub fn is_loopback(&self) -> bool {
        self.class == Class::Loopback
    }
}

/// What kind of interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// `lo0`.
    Loopback,
    /// On a link.
    Ip,
    /// On a link, in an IPMP group.
    Under {
        /// The group's interface.
        group: String,
    },
    /// An IPMP group's.
    Ipmp {
        /// Those under it.
        members: Vec<String>,
    },
}

/// An IPMP group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its interface, and its name.
    pub name: String,
    /// Its members, in the order they came.
    pub members: Vec<GroupMember>,
    /// Its data addresses.
    pub addresses: Vec<GroupAddress>,
}

/// A member of an IPMP group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The interface.
    pub name: String,
    /// Its carrier.
    pub link: LinkState,
    /// It sends and receives.
    pub active: bool,
    /// It hears groups and broadcasts for all.
    pub nominated: bool,
}

/// A data address of an IPMP group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAddress {
    /// The address.
    pub address: IpAddr,
    /// Who serves it.
    pub member: Option<String>,
}

/// An address object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `interface/name`.
    pub object: String,
    /// Where it came from.
    pub kind: AddressKind,
    /// The address and its prefix length; `None` while it is not known.
    pub address: Option<(IpAddr, u8)>,
    /// How it is.
    pub state: AddressState,
}

impl Address {
    /// Is it there and up (`IFF_UP`), be it that it is probed for yet or has no carrier? illumos takes one down that another host has.
    pub fn is_up(&self) -> bool {
        self.address.is_some() && !matches!(self.state, AddressState::Down | AddressState::Duplicate)
    }
}

/// Where an address comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Given by the administrator: address and prefix length.
    Static(IpAddr, u8),
    /// The link-local address made of the link's address.
    Addrconf,
    /// Given by a DHCP server, for a time.
    Dhcp,
}

/// How an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// In use.
    Ok,
    /// Nobody has given it yet.
    Down,
    /// It is not known yet whether somebody else has it.
    Tentative,
    /// Somebody else has it.
    Duplicate,
    /// The link is down, or has no address of its own yet.
    Inaccessible,
}

/// A row of the tables of ARP and ND.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface.
    pub interface: String,
    /// Whose.
    pub address: IpAddr,
    /// Where; `None` while it is asked for.
    pub link: Option<LinkAddress>,
    /// What kind of row.
    pub state: NeighbourState,
}

/// What kind of row of the tables of ARP and ND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// The interface's own address.
    Local,
    /// A group's mapping.
    Group,
    /// Learnt, and fresh.
    Reachable,
    /// Learnt a while ago.
    Stale,
    /// In use again, and about to be asked for.
    Delay,
    /// Asked for at its own place.
    Probe,
    /// Being asked for.
    Incomplete,
}

/// Where echoes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingSpec {
    /// To whom.
    pub to: IpAddr,
    /// By which interface; the one whose subnet it is in if not said.
    pub interface: Option<String>,
    /// ICMP identifier.
    pub ident: u16,
}

/// The answer to an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoAnswer {
    /// Who answered.
    pub from: IpAddr,
    /// Its sequence number.
    pub sequence: u16,
    /// Bytes behind the ICMP header.
    pub size: usize,
    /// From the request to the answer.
    pub after: Duration,
}
