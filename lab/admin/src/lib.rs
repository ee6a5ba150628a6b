//! illumos's administration commands: their arguments, their calls, their words.
//!
//! A command reads its arguments as the original does, asks a [`System`] by the calls that the original makes (an ioctl on the
//! dld control node, a link property, a kstat, a file below `/etc`), and prints what the original prints, errors and exit code
//! included. It knows nothing of the lab but that trait. One file per command; `dladm` and `ipadm` have one per subcommand.
//!
//! A line of a host's file that no command would write is found:
//!
//! ```
//! let file = "p8001.ibp0\tclass=int,16;\nnothing\n";
//! assert_eq!(admin::unsound_lines("etc/dladm/datalink.conf", file), [2]);
//! ```

#![forbid(unsafe_code)]

mod arp;
mod cfgadm;
mod conf;
mod date;
mod dladm;
mod getopt;
mod ifconfig;
mod ipadm;
mod ipmpstat;
mod kstat;
mod netstat;
mod ofmt;
mod part_ioctl;
mod pattern;
mod ping;
mod services;
mod session;
mod snoop;
mod status;
mod system;
mod unsound;
mod zoneadm;
mod zonecfg;
mod zones;

pub use ipadm::{boot as boot_interfaces, first_configuration};
pub use services::IB_CONF;
pub use session::{Exit, Session, Terminal};
pub use snoop::{describe as describe_frame, read as read_capture};
pub use system::{
    Address, AddressKind, AddressState, Capture, Class, EchoAnswer, FileError, Frame, Group, GroupAddress,
    GroupMember, Interface, Kstat, Neighbour, NeighbourState, PingSpec, Pinger, Port, System, Zone,
};

pub use dladm::{boot_links, boot_partitions};
pub use unsound::{FILES, is_zone, unsound_lines};
pub use zoneadm::boot_all as boot_zones;
pub use zones::{FILES_OF as FILES_OF_ZONES, directory as zone_directory};

/// A command's name and what it does with its arguments, the command's own name not among them.
type Command = (&'static str, fn(&mut Session<'_>, &[String]) -> Exit);

/// Every command there is.
const COMMANDS: [Command; 13] = [
    ("arp", arp::main),
    ("cfgadm", cfgadm::main),
    ("devfsadm", services::devfsadm),
    ("dladm", dladm::main),
    ("ifconfig", ifconfig::main),
    ("ipadm", ipadm::main),
    ("ipmpstat", ipmpstat::main),
    ("kstat", kstat::main),
    ("netstat", netstat::main),
    ("ping", ping::main),
    ("snoop", snoop::main),
    ("zoneadm", zoneadm::main),
    ("zonecfg", zonecfg::main),
];

/// The names of the commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// Reads a text as each of the files that a host keeps for good; what is no line of one is passed over.
///
/// # Panics
///
/// When a line is written otherwise than it was read.
pub fn read_host_files(text: &str) {
    for line in conf::parse(text) {
        let again = conf::parse(&line.text());
        assert_eq!(again, [line], "a line is read back as written");
    }
    ipadm::read_back(text);
    zones::read_back(text);
}

/// Runs a command to its end; `None` when there is none of that name.
pub fn run(session: &mut Session<'_>, name: &str, arguments: &[String]) -> Option<Exit> {
    let (_, main) = COMMANDS.iter().find(|(known, _)| *known == name)?;
    Some(main(session, arguments))
}
