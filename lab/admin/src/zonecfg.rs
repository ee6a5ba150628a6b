//! `zonecfg(8)`, as far as a zone with links of its own needs it.

use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::System;
use crate::zones::{self, Config};

const USAGE: &str = "usage:\tzonecfg -z <zone> create|delete|set|add|end|verify|commit|info ...\n";

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn die(text: impl AsRef<str>) -> Failure {
    Failure::line(format!("zonecfg: {}", text.as_ref()))
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    if !session.system.zone().is_global() {
        return Err(die("can only be run from the global zone."));
    }
    let [flag, name, words @ ..] = arguments else {
        return Err(Failure { text: USAGE.to_owned(), exit: Exit::USAGE });
    };
    if flag != "-z" || words.is_empty() {
        return Err(Failure { text: USAGE.to_owned(), exit: Exit::USAGE });
    }
    if !session.system.privileged() {
        return Err(die("Permission denied."));
    }
    if !zones::is_name(name) {
        return Err(die(format!("{name}: Invalid argument.")));
    }
    let line = words.join(" ");
    let mut change = Change::new(session.system, name);
    for command in line.split([';', '\n']).map(str::trim).filter(|command| !command.is_empty()) {
        let said = change.command(command).map_err(|why| Failure::line(format!("{name}: {why}")))?;
        session.out(said);
    }
    change.finish().map_err(|why| Failure::line(format!("{name}: {why}")))
}

/// A configuration while it is worked at.
struct Change<'a> {
    system: &'a dyn System,
    name: &'a str,
    config: Option<Config>,
    changed: bool,
    /// The link of a resource that is being added.
    adding: Option<Option<String>>,
}

impl<'a> Change<'a> {
    fn new(system: &'a dyn System, name: &'a str) -> Self {
        Self { system, name, config: Config::read(system, name), changed: false, adding: None }
    }

    fn command(&mut self, line: &str) -> Result<String, String> {
        let mut words = line.split_whitespace();
        let (verb, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<&str>>().join(" "));
        match verb {
            "create" if self.config.is_some() => return Err("Zone already exists.".to_owned()),
            "create" => {
                let (name, path) = (self.name.to_owned(), format!("/zones/{}", self.name));
                self.config = Some(Config { name, path, ..Config::default() });
                self.changed = true;
            }
            "delete" => return self.delete(),
            "set" => self.set(&rest)?,
            "add" if rest == "net" && self.adding.is_none() => {
                self.config()?;
                self.adding = Some(None);
            }
            "end" => self.end()?,
            "info" => return self.info(),
            "verify" | "commit" | "exit" => drop(self.config()?),
            _ => return Err(format!("{verb}: invalid subcommand or resource type")),
        }
        Ok(String::new())
    }

    fn config(&mut self) -> Result<&mut Config, String> {
        let why = "No such zone configured\nUse 'create' to begin configuring a new zone.";
        self.config.as_mut().ok_or_else(|| why.to_owned())
    }

    fn set(&mut self, assignment: &str) -> Result<(), String> {
        let (name, value) = assignment.split_once('=').ok_or("syntax error")?;
        let value = value.trim_matches('"');
        self.config()?;
        if value.is_empty() || !zones::is_plain(value) {
            return Err(format!("{name}: Invalid argument."));
        }
        match (name, &mut self.adding, &mut self.config) {
            ("physical", Some(link), _) => *link = Some(value.to_owned()),
            ("zonepath", None, _) if !value.starts_with('/') => {
                return Err(format!("{value} is not an absolute path."));
            }
            ("zonepath", None, Some(config)) => value.clone_into(&mut config.path),
            ("autoboot", None, Some(config)) => {
                config.autoboot = value.parse().map_err(|_| "autoboot: Invalid argument.")?;
            }
            ("ip-type", None, _) if value == "exclusive" => {}
            ("ip-type", None, _) => return Err("ip-type: the lab has exclusive zones only.".to_owned()),
            _ => return Err(format!("{name}: invalid property name")),
        }
        self.changed = true;
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let link = self.adding.take().ok_or("end: no resource is being added")?;
        let link = link.ok_or("physical cannot be empty.")?;
        let config = self.config()?;
        if config.links.contains(&link) {
            return Err(format!("A net resource with the physical '{link}' already exists."));
        }
        config.links.push(link);
        Ok(())
    }

    fn info(&mut self) -> Result<String, String> {
        let Config { name, path, autoboot, links } = self.config()?;
        let nets: String = links.iter().map(|link| format!("net:\n\tphysical: {link}\n")).collect();
        Ok(format!(
            "zonename: {name}\nzonepath: {path}\nbrand: ipkg\nautoboot: {autoboot}\nip-type: exclusive\n{nets}"
        ))
    }

    fn delete(&mut self) -> Result<String, String> {
        self.config()?;
        let installed = zones::list(self.system).contains(&(self.name.to_owned(), zones::State::Installed));
        if installed {
            return Err("Zone is installed; uninstall it first.".to_owned());
        }
        Config::remove(self.system, self.name).map_err(|error| error.0)?;
        (self.config, self.changed) = (None, false);
        Ok(String::new())
    }

    /// What was changed is written down.
    fn finish(self) -> Result<(), String> {
        if self.adding.is_some() {
            return Err("a resource is not complete: 'end' ends it".to_owned());
        }
        match self.config {
            Some(config) if self.changed => config.write(self.system).map_err(|error| error.0),
            Some(_) | None => Ok(()),
        }
    }
}
