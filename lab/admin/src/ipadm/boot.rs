//! What a machine does with the interfaces of its file when it boots.

use std::net::IpAddr;

use super::conf::{self, Line};
use crate::session::{Exit, Session};
use crate::system::System;

/// Plumbs the interfaces of the file and gives them their addresses. What could not be done, in words.
pub fn boot(system: &dyn System) -> Vec<String> {
    let lines = conf::lines(system);
    let mut troubles = conf::not_understood(system);
    for line in &lines {
        if let Line::Interface { name, ipv6: false } = line
            && let Err(errno) = system.plumb(name)
        {
            troubles.push(format!("{name}: {}: {errno}", super::NO_LINK));
        }
    }
    for line in &lines {
        let Line::Group { name, members } = line else { continue };
        if let Err(errno) = system.create_group(name) {
            troubles.push(format!("{name}: {errno}"));
            continue;
        }
        for member in members {
            if let Err(errno) = system.add_to_group(name, member) {
                troubles.push(format!("{name}: {member}: {errno}"));
            }
        }
    }
    for line in lines {
        if let Line::Address { interface, object, kind } = line
            && let Err(errno) = system.add_address(&interface, &object, kind)
        {
            troubles.push(format!("{object}: {errno}"));
        }
    }
    troubles
}

/// Configures a machine that has never been configured as its owner would: an interface on `link` with these addresses, and the
/// link-local one. Nothing to do on one that has been.
pub fn first_configuration(session: &mut Session<'_>, link: &str, addresses: &[(IpAddr, u8)]) -> Exit {
    if conf::is_there(session.system) || addresses.is_empty() {
        return Exit::OK;
    }
    let (mut v4, mut v6) = (0, 0);
    let mut commands = vec![format!("create-if {link}")];
    for (address, length) in addresses {
        let (family, number) = match address {
            IpAddr::V4(_) => ("v4", &mut v4),
            IpAddr::V6(_) => ("v6static", &mut v6),
        };
        *number += 1;
        let object = if *number == 1 { family.to_owned() } else { format!("{family}{number}") };
        commands.push(format!("create-addr -T static -a {address}/{length} {link}/{object}"));
    }
    commands.push(format!("create-addr -T addrconf {link}/v6"));
    for command in commands {
        let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let exit = super::main(session, &arguments);
        if exit != Exit::OK {
            return exit;
        }
    }
    Exit::OK
}
