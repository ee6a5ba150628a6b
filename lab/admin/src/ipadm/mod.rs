//! `ipadm(8)`: interfaces and addresses.

mod boot;
mod conf;
mod create_addr;
mod create_if;
mod delete_addr;
mod delete_if;
mod ipmp;
mod show_addr;
mod show_if;
mod shown;

pub use boot::{boot, first_configuration};
pub(crate) use conf::{FILE, read_back};

use fakekernel::Errno;

use crate::getopt::{Line, Options, Wrong};
use crate::session::{Exit, Failure, Outcome, Session};

struct Subcommand {
    names: &'static [&'static str],
    main: fn(&mut Session<'_>, &[String], &str) -> Outcome,
    usage: &'static str,
}

const SUBCOMMANDS: [Subcommand; 10] = [
    Subcommand {
        names: &["create-if", "create-ip"],
        main: create_if::main,
        usage: "\tcreate-if\t[-t] <interface>\n",
    },
    Subcommand {
        names: &["delete-if", "delete-ip"],
        main: delete_if::main,
        usage: "\tdelete-if\t<interface>\n",
    },
    Subcommand {
        names: &["create-ipmp"],
        main: ipmp::create,
        usage: "\tcreate-ipmp\t[-t] [-i <interface>[,<interface>]...] <ipmp-interface>\n",
    },
    Subcommand { names: &["delete-ipmp"], main: ipmp::delete, usage: "\tdelete-ipmp\t<ipmp-interface>\n" },
    Subcommand {
        names: &["add-ipmp"],
        main: ipmp::add,
        usage: "\tadd-ipmp\t[-t] -i <interface>[,<interface>]... <ipmp-interface>\n",
    },
    Subcommand {
        names: &["remove-ipmp"],
        main: ipmp::remove,
        usage: "\tremove-ipmp\t[-t] -i <interface>[,<interface>]... <ipmp-interface>\n",
    },
    Subcommand {
        names: &["show-if"],
        main: show_if::main,
        usage: "\tshow-if\t\t[[-p] -o <field>,...] [<interface>]\n\n",
    },
    Subcommand {
        names: &["create-addr"],
        main: create_addr::main,
        usage: "\tcreate-addr\t[-t] -T static [-d] \\\n\t\t\t-a [local|remote=]addr[/prefixlen] <addrobj>\n\tcreate-addr\t[-t] -T dhcp [-w <seconds> | forever] <addrobj>\n\tcreate-addr\t[-t] -T addrconf [-i interface-id] \\\n\t\t\t[-p {stateful|stateless}={yes|no}] <addrobj>\n",
    },
    Subcommand { names: &["delete-addr"], main: delete_addr::main, usage: "\tdelete-addr\t[-r] <addrobj>\n" },
    Subcommand {
        names: &["show-addr"],
        main: show_addr::main,
        usage: "\tshow-addr\t[[-p] -o <field>,...] [<addrobj>]\n",
    },
];

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let Some((name, rest)) = arguments.split_first() else {
        let result = show_addr::main(session, &[], "");
        return session.end(result);
    };
    let Some(subcommand) = SUBCOMMANDS.iter().find(|known| known.names.contains(&name.as_str())) else {
        session.err(format!("ipadm: unknown subcommand '{name}'\n"));
        return session.end(Err(usage()));
    };
    let result = (subcommand.main)(session, rest, subcommand.usage);
    session.end(result)
}

/// All there is, and exit 1.
fn usage() -> Failure {
    let lines: String = SUBCOMMANDS.iter().map(|subcommand| subcommand.usage).collect();
    Failure { text: format!("usage:  ipadm <subcommand> <args> ...\n{lines}"), exit: Exit::FAILURE }
}

fn die(text: impl AsRef<str>) -> Failure {
    Failure::line(format!("ipadm: {}", text.as_ref()))
}

/// Options and operands, or what `ipadm` says of the first wrong one.
fn parse(options: &Options, arguments: &[String], usage: &str) -> Result<Line, Failure> {
    let (parsed, operands) = options.parse(arguments);
    let parsed: Result<Vec<_>, Wrong> = parsed.into_iter().collect();
    let wrong = |wrong| {
        let said = match wrong {
            Wrong::NoValue(letter) => format!("option '-{letter}' requires a value"),
            Wrong::Unknown(Some(letter)) => format!("unrecognized option '-{letter}'"),
            Wrong::Unknown(None) => "unrecognized option".to_owned(),
        };
        Failure { text: format!("ipadm: {said}\nusage: {usage}"), exit: Exit::FAILURE }
    };
    Ok((parsed.map_err(wrong)?, operands))
}

const INVALID: &str = "Invalid argument provided";
const NO_INTERFACE: &str = "Interface does not exist";
const NOT_FOUND: &str = "Object not found";
const FAILED: &str = "Operation failed";
/// What opening a link ends in, whatever its driver said.
const NO_LINK: &str = "Could not open DLPI link";

/// The words of libipadm.
fn text(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => "Permission denied",
        Errno::EINVAL => INVALID,
        Errno::EEXIST => "Address object already exists",
        Errno::ENXIO => NO_INTERFACE,
        Errno::ENOENT => NOT_FOUND,
        Errno::EBUSY => "Interface already in use",
        Errno::ENOTSUP => "Operation not supported",
        _ => FAILED,
    }
}
