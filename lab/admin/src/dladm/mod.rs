//! `dladm(8)`: the subcommands that concern InfiniBand.

mod boot;
mod create_part;
mod delete_part;
mod known;
mod linkprop;
mod rename_link;
mod reset_linkprop;
mod set_linkprop;
mod show_ib;
mod show_link;
mod show_linkprop;
mod show_part;
mod show_phys;
mod up_part;

pub use boot::{boot_links, boot_partitions};

use crate::getopt::{Line, Options, Wrong};
use crate::session::{Exit, Failure, Outcome, Session};

struct Subcommand {
    name: &'static str,
    main: fn(&mut Session<'_>, &[String], &str) -> Outcome,
    /// As `dladm` alone shows it; empty for one that is not shown.
    usage: &'static str,
}

const SUBCOMMANDS: [Subcommand; 12] = [
    Subcommand {
        name: "rename-link",
        main: rename_link::main,
        usage: "    rename-link      <oldlink> <newlink>\n",
    },
    Subcommand {
        name: "show-link",
        main: show_link::main,
        usage: "    show-link        [-pP] [-o <field>,..] [-s [-i <interval>]] [<link>]\n",
    },
    Subcommand {
        name: "show-phys",
        main: show_phys::main,
        usage: "    show-phys        [-m | -H | -P] [[-p] [-o <field>[,...]] [<link>]\n",
    },
    Subcommand {
        name: "set-linkprop",
        main: set_linkprop::main,
        usage: "    set-linkprop     [-t] -p <prop>=<value>[,...] <name>\n",
    },
    Subcommand {
        name: "reset-linkprop",
        main: reset_linkprop::main,
        usage: "    reset-linkprop   [-t] [-p <prop>,...] <name>\n",
    },
    Subcommand {
        name: "show-linkprop",
        main: show_linkprop::main,
        usage: "    show-linkprop    [-cP] [-o <field>,...] [-p <prop>,...] <name>\n",
    },
    Subcommand {
        name: "create-part",
        main: create_part::main,
        usage: "    create-part      [-t] [-f] -l <link> [-P <pkey>]\n                     [-R <root-dir>] <part-link>\n",
    },
    Subcommand {
        name: "delete-part",
        main: delete_part::main,
        usage: "    delete-part      [-t] [-R <root-dir>] <part-link>\n",
    },
    Subcommand {
        name: "show-part",
        main: show_part::main,
        usage: "    show-part        [-pP] [-o <field>,...][-l <linkover>]\n                     [<part-link>]\n",
    },
    Subcommand {
        name: "show-ib",
        main: show_ib::main,
        usage: "    show-ib          [-p] [-o <field>,...] [<link>]\n\n",
    },
    Subcommand { name: "up-part", main: up_part::main, usage: "" },
    // What boot methods call for links that only an initialised machine has.
    Subcommand { name: "init-phys", main: |_, _, _| Ok(()), usage: "" },
];

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let Some((name, rest)) = arguments.split_first() else { return session.end(Err(usage())) };
    let Some(subcommand) = SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name) else {
        session.err(format!("dladm: unknown subcommand '{name}'\n"));
        return session.end(Err(usage()));
    };
    let result = (subcommand.main)(session, rest, subcommand.usage);
    session.end(result)
}

/// All there is, and exit 1.
fn usage() -> Failure {
    let lines: String = SUBCOMMANDS.iter().map(|subcommand| subcommand.usage).collect();
    Failure { text: format!("usage:  dladm <subcommand> <args> ...\n{lines}"), exit: Exit::FAILURE }
}

fn die(text: impl AsRef<str>) -> Failure {
    Failure::line(format!("dladm: {}", text.as_ref()))
}

/// `die_optdup`
fn twice(letter: char) -> Failure {
    die(format!("the option -{letter} cannot be specified more than once"))
}

/// What `dladm` says of a wrong option.
fn bad_option(wrong: Wrong, arguments: &[String], usage: &str) -> Failure {
    let said = match wrong {
        Wrong::NoValue(letter) => format!("option '-{letter}' requires a value"),
        Wrong::Unknown(Some(letter)) => format!("unrecognized option '-{letter}'"),
        Wrong::Unknown(None) => {
            let long = arguments.iter().find(|argument| argument.starts_with("--"));
            format!("unrecognized option '{}'", long.map_or("?", String::as_str))
        }
    };
    Failure { text: format!("dladm: {said}\nusage: {usage}"), exit: Exit::FAILURE }
}

/// Options and operands, or what `dladm` says of the first wrong one.
fn parse(options: &Options, arguments: &[String], usage: &str) -> Result<Line, Failure> {
    let (parsed, operands) = options.parse(arguments);
    let parsed: Result<Vec<_>, Wrong> = parsed.into_iter().collect();
    Ok((parsed.map_err(|wrong| bad_option(wrong, arguments, usage))?, operands))
}

/// The options that every `show` subcommand has.
#[derive(Default)]
struct Shown {
    parsable: bool,
    persistent: bool,
    fields: Option<String>,
}

impl Shown {
    /// `-p` wants `-o`.
    fn checked(self) -> Result<Self, Failure> {
        if self.parsable && self.fields.is_none() { Err(die("-p requires -o")) } else { Ok(self) }
    }
}
