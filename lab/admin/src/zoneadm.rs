//! `zoneadm(8)`: lists zones, starts and ends them.

use fakekernel::Errno;

use crate::getopt::{Options, Wrong};
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::{System, Zone};
use crate::zones::{self, Config, State};

const USAGE: &str =
    "usage:\tzoneadm help | [-z zone] list [-cipv] | -z zone boot|halt|install|uninstall [-F]\n";

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn usage() -> Failure {
    Failure { text: USAGE.to_owned(), exit: Exit::USAGE }
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let (name, rest) = match arguments {
        [flag, name, rest @ ..] if flag == "-z" => (Some(name), rest),
        rest => (None, rest),
    };
    let (verb, rest) = rest.split_first().ok_or_else(usage)?;
    match (name, verb.as_str()) {
        (_, "list") => list(session, name, rest),
        (None, "help") => {
            session.out(USAGE);
            Ok(())
        }
        (Some(name), verb) => change(session.system, name, verb).map_err(|why| complaint(name, &why)),
        (None, _) => Err(usage()),
    }
}

fn complaint(name: &str, why: &str) -> Failure {
    Failure::line(format!("zoneadm: zone '{name}': {why}"))
}

/// A zone as `list` shows it.
struct Row {
    id: Option<i32>,
    name: String,
    status: &'static str,
    path: String,
}

/// The zones that run, then those that do not.
fn rows(system: &dyn System) -> Vec<Row> {
    let path = |name: &str| Config::read(system, name).map_or_else(|| format!("/zones/{name}"), |c| c.path);
    let running = system.zones();
    let mut rows: Vec<Row> = running
        .iter()
        .map(|Zone { id, name }| Row {
            id: Some(*id),
            name: name.clone(),
            status: "running",
            // Whoever is in a zone sees it as all there is.
            path: if *id == system.zone().id { "/".to_owned() } else { path(name) },
        })
        .collect();
    if system.zone().is_global() {
        let rest = zones::list(system);
        let rest = rest.iter().filter(|(name, _)| !running.iter().any(|zone| zone.name == *name));
        rows.extend(rest.map(|(name, state)| Row {
            id: None,
            name: name.clone(),
            status: state.text(),
            path: path(name),
        }));
    }
    rows
}

fn list(session: &mut Session<'_>, only: Option<&String>, arguments: &[String]) -> Outcome {
    let options = Options { short: "cipv", long: &[], operands_end: true };
    let (parsed, operands) = options.parse(arguments);
    let parsed: Vec<(char, String)> =
        parsed.into_iter().collect::<Result<_, Wrong>>().map_err(|_| usage())?;
    if !operands.is_empty() {
        return Err(usage());
    }
    let has = |wanted: char| parsed.iter().any(|(letter, _)| *letter == wanted);
    let mut rows = rows(session.system);
    match only {
        Some(name) => {
            rows.retain(|row| row.name == *name);
            if rows.is_empty() {
                return Err(Failure::line(format!("zoneadm: {name}: No such zone configured")));
            }
        }
        None => rows
            .retain(|row| row.id.is_some() || has('c') || has('i') && row.status == State::Installed.text()),
    }
    if has('v') && !has('p') {
        session.out(line(["ID", "NAME", "STATUS", "PATH", "BRAND", "IP"]));
    }
    for Row { id, name, status, path } in rows {
        let id = id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let ip = if name == "global" { "shared" } else { "excl" };
        session.out(match (has('p'), has('v')) {
            (true, _) => format!("{id}:{name}:{status}:{path}::ipkg:{ip}\n"),
            (false, true) => line([&id, &name, status, &path, "ipkg", ip]),
            (false, false) => format!("{name}\n"),
        });
    }
    Ok(())
}

fn line([id, name, status, path, brand, ip]: [&str; 6]) -> String {
    format!("{id:>4} {name:<16} {status:<10} {path:<30} {brand:<8} {ip:<6}\n")
}

fn change(system: &dyn System, name: &str, verb: &str) -> Result<(), String> {
    if !system.zone().is_global() {
        return Err(format!("{verb} can only be done from the global zone"));
    }
    if !system.privileged() {
        return Err("Permission denied".to_owned());
    }
    let state = zones::list(system).into_iter().find(|(known, _)| known == name).map(|(_, state)| state);
    let state = state.ok_or("No such zone configured")?;
    let runs = system.zones().iter().any(|zone| zone.name == name);
    let set = |state| zones::set_state(system, name, Some(state)).map_err(|error| error.0);
    match (verb, state, runs) {
        ("install", State::Configured, _) => set(State::Installed),
        ("install", State::Installed, _) => Err("must be configured before install.".to_owned()),
        ("uninstall", State::Installed, false) => {
            // What is in it must not come back with the next zone of that name.
            system.remove_file(&zones::directory(name)).map_err(|error| error.0)?;
            set(State::Configured)
        }
        ("uninstall", ..) => Err("must be installed before uninstall.".to_owned()),
        ("boot", State::Installed, false) => boot(system, name),
        ("boot", State::Installed, true) => Err("zone is already booted".to_owned()),
        ("boot", State::Configured, _) => Err("must be installed before boot.".to_owned()),
        ("halt", _, true) => system.halt_zone(name).map_err(|errno| words(errno).to_owned()),
        ("halt", _, false) => Err("zone is not running".to_owned()),
        _ => Err(format!("{verb}: the lab has no such subcommand")),
    }
}

fn boot(system: &dyn System, name: &str) -> Result<(), String> {
    let config = Config::read(system, name).ok_or("No such zone configured")?;
    system
        .boot_zone(name, &config.links)
        .map_err(|errno| format!("failed to add network device: {}", words(errno)))
}

fn words(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT => "No such file or directory",
        Errno::EBUSY => "Device busy",
        Errno::EPERM => "Permission denied",
        _ => "Invalid argument",
    }
}

/// Starts the zones that start with the host. What could not be done, in words.
pub fn boot_all(system: &dyn System) -> Vec<String> {
    let installed = zones::list(system).into_iter().filter(|(_, state)| *state == State::Installed);
    let wanted =
        installed.filter(|(name, _)| Config::read(system, name).is_some_and(|config| config.autoboot));
    wanted.filter_map(|(name, _)| boot(system, &name).err().map(|why| format!("{name}: {why}"))).collect()
}
