//! What a host keeps of its zones: the list of them, and a file for each.

use crate::system::{FileError, System};

/// Where the list of zones is, and a file of each, from the root of a host.
pub const FILES_OF: &str = "etc/zones";
pub(crate) const INDEX: &str = "etc/zones/index";

/// A zone as it is configured. It has an IP instance of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) name: String,
    pub(crate) path: String,
    /// It starts with the host.
    pub(crate) autoboot: bool,
    /// Its links.
    pub(crate) links: Vec<String>,
}

/// How far a zone that does not run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Configured,
    Installed,
}

impl State {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Installed => "installed",
        }
    }
}

/// `zonename(7)`: letters, digits and such, not `global`, nothing that the system keeps for itself.
pub(crate) fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() < 64
        && name.chars().all(inside)
        && name != "global"
        && !name.starts_with("SYS")
}

/// Whether a text can stand in an attribute of an XML element as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.contains(['"', '<', '>', '&']) && !text.contains(char::is_control)
}

/// The text of an attribute of an XML element; see [`is_plain`].
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let start = element.find(&format!(" {name}=\""))? + name.len() + 3;
    let rest = &element[start..];
    rest.find('"').map(|end| &rest[..end])
}

/// Where a host keeps the files of a zone, its root among them.
pub fn directory(name: &str) -> String {
    format!("zones/{name}")
}

impl Config {
    fn file(name: &str) -> String {
        format!("etc/zones/{name}.xml")
    }

    /// Takes a zone out of the list, and its file away.
    pub(crate) fn remove(system: &dyn System, name: &str) -> Result<(), FileError> {
        set_state(system, name, None)?;
        system.remove_file(&Self::file(name))
    }

    pub(crate) fn text(&self) -> String {
        let Self { name, path, autoboot, links } = self;
        let networks: String =
            links.iter().map(|link| format!("  <network physical=\"{link}\"/>\n")).collect();
        format!(
            "<zone name=\"{name}\" zonepath=\"{path}\" autoboot=\"{autoboot}\" brand=\"ipkg\" \
             ip-type=\"exclusive\">\n{networks}</zone>\n"
        )
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let zone = text.lines().find(|line| line.starts_with("<zone "))?;
        let networks = text.lines().filter(|line| line.trim_start().starts_with("<network "));
        let links: Option<Vec<String>> =
            networks.map(|line| attribute(line, "physical").map(str::to_owned)).collect();
        Some(Self {
            name: attribute(zone, "name").filter(|name| is_name(name))?.to_owned(),
            path: attribute(zone, "zonepath")?.to_owned(),
            autoboot: attribute(zone, "autoboot") == Some("true"),
            links: links?,
        })
    }

    pub(crate) fn read(system: &dyn System, name: &str) -> Option<Self> {
        Self::parse(&system.read_file(&Self::file(name))?)
    }

    /// Writes it down, and the zone into the list if it is new.
    pub(crate) fn write(&self, system: &dyn System) -> Result<(), FileError> {
        system.change_file(&Self::file(&self.name), &mut |_| self.text())?;
        if list(system).iter().any(|(name, _)| *name == self.name) {
            return Ok(());
        }
        set_state(system, &self.name, Some(State::Configured))
    }
}

/// Every configured zone, in the order they came.
pub(crate) fn list(system: &dyn System) -> Vec<(String, State)> {
    let text = system.read_file(INDEX).unwrap_or_default();
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(String, State)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| is_name(name))?;
    let state = match fields.next()? {
        "configured" => State::Configured,
        "installed" => State::Installed,
        _ => return None,
    };
    Some((name.to_owned(), state))
}

/// Whether a line of the list is one; illumos's own has the global zone in it.
pub(crate) fn is_line(line: &str) -> bool {
    parse_line(line).is_some() || line.starts_with("global:")
}

/// Changes a zone's line in the list; `None` takes it out.
pub(crate) fn set_state(system: &dyn System, name: &str, state: Option<State>) -> Result<(), FileError> {
    system.change_file(INDEX, &mut |text| {
        let other = |line: &&str| parse_line(line).is_none_or(|(known, _)| known != name);
        let mut lines: String = text.lines().filter(other).map(|line| format!("{line}\n")).collect();
        if let Some(state) = state {
            lines += &format!("{name}:{}:/zones/{name}:\n", state.text());
        }
        lines
    })
}

/// Reads a text as a zone and what it would be written as.
pub(crate) fn read_back(text: &str) {
    if let Some(config) = Config::parse(text) {
        assert_eq!(Config::parse(&config.text()), Some(config), "a zone is read back as written");
    }
    text.lines().for_each(|line| drop(parse_line(line)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_read_back_as_written() {
        for links in [&[][..], &["p8001.ibp0"], &["p8001.ibp0", "ib1"]] {
            let links = links.iter().map(|link| (*link).to_owned()).collect();
            read_back(
                &Config { name: "web".into(), path: "/zones/web".into(), autoboot: true, links }.text(),
            );
        }
        assert_eq!(Config::parse("<zone name=\"global\" zonepath=\"/\">"), None);
    }

    #[test]
    fn names_of_zones() {
        assert!(["web", "a-b.c_1"].iter().all(|name| is_name(name)));
        assert!(["global", "", "-a", "SYSx", "a/b", "a b"].iter().all(|name| !is_name(name)));
    }
}
