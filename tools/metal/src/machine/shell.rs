//! A person at the agent's line.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Result;

use super::{Options, Session};

/// What the agent understands. The words are the agent's own (`tools/metal/agent/src/commands`); a test compares the two.
pub const HELP: &[(&str, &str)] = &[
    ("hello", "is anybody there?"),
    ("say TEXT", "a line on the console"),
    ("sleep MS", "wait"),
    ("suspend", "would the machine suspend to memory?"),
    ("suspend-devices", "suspend and resume every device, and nothing else"),
    ("load PATH", "load a module, as drv/ibp"),
    ("unload NAME", "unload a module"),
    ("lay-over FROM DIRECTORY", "lay a directory over another one"),
    ("read-conf", "read the drivers' .conf files anew"),
    ("modules", "the modules: name=number:address+size"),
    ("list DIRECTORY", "names in a directory; /devices/ADAPTER attaches what is below"),
    ("nodes /ADAPTER", "what is known of each node below a device"),
    ("open PATH", "open a device; close FD closes it"),
    ("close FD", "close a descriptor"),
    ("sockets", "tell the kernel which module a kind of socket is"),
    ("dls-serve", "be dlmgmtd; such a process does nothing else: router spawn dls, dls dls-serve"),
    ("dls-start", "let dls open the door of dlmgmtd"),
    ("dls-names on|off", "tell dls the names of partitions, or that there are none"),
    (
        "part-create LINK PORT-LINK INSTANCE PKEY [FORCE]",
        "make partition LINK, from 64: its device is /dev/net/partLINK",
    ),
    ("part-delete LINK PORT-LINK INSTANCE PKEY", "delete it"),
    ("part-info LINK", "what the driver says about a partition"),
    ("port-info INSTANCE [SIZE]", "how many P_Keys a port's table has; told so, which"),
    ("prop-get LINK NAME", "a property: mtu, speed, state, duplex, linkmode, _private, #NUMBER"),
    ("prop-default LINK NAME", "its default"),
    ("prop-possible LINK NAME", "its possible values, ranges"),
    ("prop-set LINK NAME VALUE", "set it"),
    ("prop-zone LINK ZONE", "give a link to a zone; 0 is the global one"),
    ("adapter PATH CODE [NUMBER...]", "an event of an adapter for tests"),
    ("dl-bind FD SAP", "bind a stream; dl-unbind FD"),
    ("dl-unbind FD", "unbind it"),
    ("dl-address FD [current|factory|destination]", "an address of the link's"),
    ("dl-set-address FD ADDRESS", "give the link another address"),
    ("dl-passive FD", "do not count as a user of the link's address"),
    ("dl-ioctl FD", "an ioctl that no driver has"),
    ("dl-notes FD MS [COUNT]", "what the stream tells until it tells nothing for so long"),
    ("dl-info FD", "largest packet, media, state, broadcast address"),
    ("dl-raw FD", "packets with their headers"),
    ("dl-promisc FD phys|sap|multi on|off", "promiscuous mode"),
    ("dl-group FD ADDRESS on|off", "join or leave a group"),
    ("dl-notify FD [MASK]", "be told what happens to the link"),
    ("dl-send FD ADDRESS SAP SIZE SEED [COUNT]", "send packets"),
    ("dl-receive FD MS", "the next packet or note"),
    ("dl-count FD MS", "count packets until none comes for so long"),
    ("kstats [MODULE]", "names of statistics"),
    ("kstat MODULE INSTANCE NAME", "a statistic's numbers"),
    ("kstat-form MODULE INSTANCE NAME", "its class, names and types"),
    ("memory", "what kmem caches and vmem arenas hold"),
    ("plumb INTERFACE DEVICE [6]", "IP over a link"),
    ("unplumb INTERFACE [6]", "undo it"),
    ("address INTERFACE A.B.C.D ONES", "an IPv4 address, and up"),
    ("up INTERFACE [6]", "set it up; down INTERFACE [6]"),
    ("down INTERFACE [6]", "set it down"),
    ("interface INTERFACE [6]", "flags, MTU, index, IPv6 address"),
    ("ping4 ADDRESS FROM TO STEP EACH MS", "echoes of all these sizes"),
    ("ping6 ADDRESS INDEX FROM TO STEP EACH MS", "the same over IPv6"),
    ("reach4 ADDRESS SIZE MS", "echoes until one is answered; when that was"),
    ("reach6 ADDRESS INDEX SIZE MS", "the same over IPv6"),
    ("ping-paced ADDRESS SIZE COUNT GAP-MS", "an echo every so often; what was lost"),
    ("tcp-listen PORT", "wait for a connection; tcp-receive FD takes it"),
    ("tcp-receive FD", "take a connection and all that comes"),
    ("tcp-send ADDRESS PORT OCTETS CHUNK SEED", "send a stream"),
    ("udp-open 4|6 PORT", "a socket for datagrams"),
    ("udp-member FD GROUP INTERFACE on|off", "join or leave; the interface is an address or an index"),
    ("udp-send FD GROUP PORT INTERFACE SIZE SEED", "a datagram to a group"),
    ("udp-receive FD MS SIZE SEED [COUNT]", "count datagrams until none comes for so long"),
    ("zone-create NAME ROOT", "a zone with an exclusive IP stack"),
    ("zone-link ZONE LINK on|off", "a link belongs to a zone"),
    ("zone-shutdown ZONE", "end what runs in it"),
    ("zone-destroy ZONE", "remove it"),
    ("enter ZONE", "the process is in the zone from now on: router spawn za, za enter 1"),
    ("node PATH DEVICE-PATH", "a node of the same device"),
];

/// How long a person waits.
const QUIET: Duration = Duration::from_secs(120);

/// Boots and does what a person types.
///
/// # Errors
///
/// The machine could not be booted, or came into trouble.
pub fn run(options: &Options) -> Result<bool> {
    let (mut session, mut debugger) = options.boot()?.apart();
    println!("The kernel runs; its console is kept in {}.", session.console().file().display());
    println!("PROCESS WORD ARGUMENT..., the process 0 is there; help lists the words, quit ends.");
    let prompt = std::io::stdin().is_terminal();
    loop {
        if prompt {
            print!("metal> ");
            std::io::stdout().flush()?;
        }
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            break;
        }
        match line.trim() {
            "" => {}
            "quit" | "exit" => break,
            "help" => help(),
            "where" => {
                debugger.learn(&mut session)?;
                println!("{}", debugger.stacks()?);
            }
            "links" => {
                debugger.learn(&mut session)?;
                println!("{}", debugger.links()?.join("\n"));
            }
            "console" => println!("{}", session.console().tail(30)),
            line => one(&mut session, line)?,
        }
    }
    session.end();
    Ok(true)
}

fn help() {
    println!("{:<52} the last lines of the console", "console");
    println!("{:<52} the stack of each processor", "where");
    println!("{:<52} the driver's links and what they count", "links");
    println!("{:<52} a further process; router end NAME ends it", "router spawn NAME");
    for (words, what) in HELP {
        println!("{words:<52} {what}");
    }
}

/// A word of the agent's without a process is for process 0.
fn one(session: &mut Session, line: &str) -> Result<()> {
    let first = line.split(' ').next().unwrap_or_default();
    let is_word = HELP.iter().any(|(words, _)| words.split(' ').next() == Some(first));
    let (process, words) =
        if is_word { ("0", line) } else { line.split_once(' ').unwrap_or((line, "hello")) };
    match session.ask(process, words, QUIET)? {
        Ok(fields) => println!("ok {}", fields.text),
        Err(refusal) => println!("refused: {refusal}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::HELP;

    #[test]
    fn the_help_has_every_word_of_the_agent_and_no_other() {
        let agent =
            [include_str!("../../agent/src/commands/mod.rs"), include_str!("../../agent/src/worker.rs")];
        let arm = |line: &str| Some(line.trim().strip_prefix('"')?.split_once("\" => ")?.0.to_owned());
        let mut words: BTreeSet<String> =
            agent.iter().flat_map(|text| text.lines().filter_map(arm)).collect();
        words.insert("dls-serve".into());
        let known: BTreeSet<String> =
            HELP.iter().filter_map(|(words, _)| Some(words.split(' ').next()?.to_owned())).collect();
        assert_eq!(known, words);
    }
}
