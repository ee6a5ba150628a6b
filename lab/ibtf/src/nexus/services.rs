//! Which nodes there are to be: the three lists of `ib.conf`, the configuration file of the IB nexus.

use fakekernel::genunix::{PropertyValue, parse_beside_nodes};

/// What illumos's `ib.conf` says as it comes: nodes for the port driver, and none per P_Key.
pub const ILLUMOS_CONF: &str = "name=\"ib\" class=\"root\";\n\
     port-svc-list=\"ipib\";\n\
     vppa-svc-list=\"\";\n\
     hca-svc-list=\"\";\n";

/// The same once an administrator has added the service of `ibd` (`cfgadm -o comm=vppa,service=ibd -x add_service ib`).
pub const CONF_WITH_IBD: &str = "name=\"ib\" class=\"root\";\n\
     port-svc-list=\"ipib\";\n\
     vppa-svc-list=\"ibd\";\n\
     hca-svc-list=\"\";\n";

/// The service that makes no node per P_Key whatever the file says: its partitions are made by dladm.
const BY_DLADM: &str = "ipib";

/// What a node below an HCA is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One for each port, whatever its state.
    Port,
    /// One for each P_Key of a port that is ACTIVE ("virtual physical point of attachment").
    PKey,
    /// One for the HCA.
    Hca,
}

impl Kind {
    /// All lists, in the order in which they are read.
    const LISTS: [(Kind, &'static str); 3] =
        [(Kind::Port, "port-svc-list"), (Kind::PKey, "vppa-svc-list"), (Kind::Hca, "hca-svc-list")];
}

/// The services of the nexus, by kind and in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Services(Vec<(Kind, String)>);

impl Services {
    /// Reads a configuration file. A service whose name is not 2 to 4 characters long, or that was named before, is left out, as
    /// the nexus does it without a word.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut found: Vec<(Kind, String)> = Vec::new();
        let properties = parse_beside_nodes(text)?;
        for (kind, list) in Kind::LISTS {
            let Some((_, value)) = properties.iter().find(|(name, _)| name == list) else { continue };
            let names = match value {
                PropertyValue::String(name) => std::slice::from_ref(name),
                PropertyValue::Strings(names) => names,
                _ => return Err(format!("{list} is no list of names")),
            };
            for name in names {
                if (2..=4).contains(&name.len()) && !found.iter().any(|(_, known)| known == name) {
                    found.push((kind, name.clone()));
                }
            }
        }
        Ok(Self(found))
    }

    /// The services that make nodes of a kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let wanted =
            move |(known, name): &&(Kind, String)| *known == kind && (kind != Kind::PKey || name != BY_DLADM);
        self.0.iter().filter(wanted).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{CONF_WITH_IBD, ILLUMOS_CONF, Kind, Services};

    fn of(text: &str, kind: Kind) -> Vec<String> {
        Services::parse(text).unwrap().of(kind).map(str::to_owned).collect()
    }

    #[test]
    fn illumos_makes_nodes_of_ports_and_with_ibd_of_pkeys_too() {
        assert_eq!(of(ILLUMOS_CONF, Kind::Port), ["ipib"]);
        assert!(of(ILLUMOS_CONF, Kind::PKey).is_empty() && of(ILLUMOS_CONF, Kind::Hca).is_empty());
        assert_eq!(of(CONF_WITH_IBD, Kind::Port), ["ipib"]);
        assert_eq!(of(CONF_WITH_IBD, Kind::PKey), ["ibd"]);
    }

    #[test]
    fn ipib_makes_no_nodes_of_pkeys_whatever_the_file_says() {
        assert!(of("vppa-svc-list=\"ipib\";\n", Kind::PKey).is_empty());
        assert_eq!(of("vppa-svc-list=\"ipib\", \"rds\";\n", Kind::PKey), ["rds"]);
    }

    #[test]
    fn names_are_two_to_four_letters_and_belong_to_one_list() {
        let text = "port-svc-list=\"ipib\", \"x\", \"toolong\";\nvppa-svc-list=\"ibd\", \"ibd\";\nhca-svc-list=\"ibd\", \"nfs1\";";
        assert_eq!(of(text, Kind::Port), ["ipib"]);
        assert_eq!(of(text, Kind::PKey), ["ibd"]);
        assert_eq!(of(text, Kind::Hca), ["nfs1"]);
        assert!(Services::parse("port-svc-list=1;").is_err());
    }
}
