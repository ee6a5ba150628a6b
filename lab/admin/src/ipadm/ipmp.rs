//! `ipadm create-ipmp`, `delete-ipmp`, `add-ipmp`, `remove-ipmp`.

use fakekernel::Errno;

use super::conf::{self, Line};
use super::{FAILED, INVALID, NO_INTERFACE, die, parse, text, usage};
use crate::getopt::Options;
use crate::session::{Failure, Outcome, Session};
use crate::system::{Class, System};

const OPTIONS: Options =
    Options { short: "ti:", long: &[("temporary", 't'), ("interface", 'i')], operands_end: false };
const NO_OPTIONS: Options = Options { short: "", long: &[], operands_end: false };

/// What a command line asks for.
struct Asked {
    group: String,
    interfaces: Vec<String>,
    temporary: bool,
}

impl Asked {
    fn read(arguments: &[String], line: &str) -> Result<Self, Failure> {
        let (options, operands) = parse(&OPTIONS, arguments, line)?;
        let [group] = &operands[..] else { return Err(usage()) };
        let (mut interfaces, mut temporary) = (Vec::new(), false);
        for (letter, value) in options {
            match letter {
                't' => temporary = true,
                _ => interfaces.extend(value.split(',').map(str::to_owned)),
            }
        }
        Ok(Self { group: group.clone(), interfaces, temporary })
    }
}

pub(super) fn create(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let asked = Asked::read(arguments, line)?;
    let (system, name) = (session.system, &asked.group);
    let refused = |why: &str| die(format!("Could not create {name} : {why}"));
    if !is_name(name) {
        return Err(refused(INVALID));
    }
    system.create_group(name).map_err(|errno| match errno {
        Errno::EEXIST => refused("Interface already exists"),
        Errno::ENOTSUP => refused("Operation not supported"),
        errno => refused(text(errno)),
    })?;
    let undo = |why: &str| {
        // Nothing may be left of what could not be done.
        let _ = system.delete_group(name);
        refused(why)
    };
    if !asked.temporary {
        let new = Line::Group { name: name.clone(), members: Vec::new() };
        let entered = conf::change(system, |lines| lines.push(new.clone()));
        entered.map_err(|_| undo(FAILED))?;
    }
    add_all(system, &asked).inspect_err(|_| {
        let _ = conf::change(system, |lines| lines.retain(|line| line.interface() != name));
        let _ = system.delete_group(name);
    })
}

/// As `sys/net/if.h` has it: letters, digits and such, a letter first and a digit last.
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_digit())
        && name.len() < 32
        && name.chars().all(inside)
}

pub(super) fn delete(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (_, operands) = parse(&NO_OPTIONS, arguments, line)?;
    let [name] = &operands[..] else { return Err(usage()) };
    let system = session.system;
    let refused = |why: &str| die(format!("Could not delete {name}: {why}"));
    let kept = conf::lines(system)
        .iter()
        .any(|line| matches!(line, Line::Group { name: known, .. } if known == name));
    let active = || match system.delete_group(name) {
        Err(Errno::ENXIO) if kept && !is_there(system, name) => Ok(()),
        other => other.map_err(text),
    };
    conf::change_and(system, |lines| lines.retain(|line| line.interface() != name), active).map_err(refused)
}

fn is_there(system: &dyn System, name: &str) -> bool {
    system.interfaces().iter().any(|interface| interface.name == name)
}

pub(super) fn add(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let asked = Asked::read(arguments, line)?;
    if asked.interfaces.is_empty() {
        return Err(usage());
    }
    add_all(session.system, &asked)
}

/// All of them or none.
fn add_all(system: &dyn System, asked: &Asked) -> Outcome {
    let Asked { group, interfaces, temporary } = asked;
    let refused = |name: &str, why: &str| die(format!("Could not add {name} to {group}: {why}"));
    let undo = |count: usize| {
        for name in &interfaces[..count] {
            // It was put there a moment ago.
            let _ = system.remove_from_group(group, name);
        }
    };
    for (at, name) in interfaces.iter().enumerate() {
        if let Err(errno) = system.add_to_group(group, name) {
            undo(at);
            return Err(refused(name, text(errno)));
        }
    }
    if *temporary || interfaces.is_empty() {
        return Ok(());
    }
    let more = |members: &mut Vec<String>| members.extend(interfaces.iter().cloned());
    conf::change(system, |lines| change_members(lines, group, more)).map_err(|_| {
        undo(interfaces.len());
        refused(&interfaces[0], FAILED)
    })
}

pub(super) fn remove(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let asked = Asked::read(arguments, line)?;
    let Asked { group, interfaces, temporary } = &asked;
    if interfaces.is_empty() {
        return Err(usage());
    }
    let system = session.system;
    let refused = |name: &str, why: &str| die(format!("Could not remove {name} from {group}: {why}"));
    // None goes unless all can.
    let found = system.interfaces();
    let under = |name: &str| {
        let wanted = Class::Under { group: group.clone() };
        found.iter().any(|interface| interface.name == name && interface.class == wanted)
    };
    if let Some(stranger) = interfaces.iter().find(|name| !under(name)) {
        return Err(refused(stranger, if system.privileged() { NO_INTERFACE } else { text(Errno::EPERM) }));
    }
    let active =
        || interfaces.iter().try_for_each(|name| system.remove_from_group(group, name)).map_err(text);
    let left = |members: &mut Vec<String>| members.retain(|name| !interfaces.contains(name));
    let removed = if *temporary {
        active()
    } else {
        conf::change_and(system, |lines| change_members(lines, group, left), active)
    };
    removed.map_err(|why| refused(&interfaces[0], why))
}

/// Changes who is in a group for good, if the group itself is.
fn change_members(lines: &mut [Line], group: &str, change: impl Fn(&mut Vec<String>)) {
    for line in lines {
        match line {
            Line::Group { name, members } if name == group => change(members),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipmp_interface_has_a_name_that_ends_in_a_number() {
        assert!(["ipmp0", "a.b_c9"].iter().all(|name| is_name(name)));
        assert!(["ipmp", "0ipmp0", "", "ip mp0", "ipmp/0"].iter().all(|name| !is_name(name)));
    }
}
