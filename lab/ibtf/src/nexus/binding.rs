//! Which driver a node is for: the names it is compatible with, looked up among the aliases that packages have brought.

use std::collections::BTreeMap;

/// The manifest of the package that has `ibd`.
pub const IBD_PACKAGE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/manifests/driver-network-ibd.p5m"));
/// The manifest of the package that has `ibp`.
pub const IBP_PACKAGE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/manifests/driver-network-ibp-rust.p5m"
));

/// `/etc/driver_aliases`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aliases(BTreeMap<String, String>);

impl Aliases {
    /// Installs a package: what the driver actions of its manifest say. An alias that another driver has stays that one's, as
    /// `add_drv` leaves it.
    pub(super) fn install(&mut self, manifest: &str) {
        for (driver, alias) in driver_actions(manifest) {
            self.0.entry(alias).or_insert(driver);
        }
    }

    /// The drivers that have one.
    pub(super) fn drivers(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(String::as_str)
    }

    /// The driver for a node that is compatible with these names, the best first.
    pub(super) fn driver_of<'a>(&'a self, compatible: &[String]) -> Option<&'a str> {
        self.binding_of(compatible).and_then(|name| self.0.get(name)).map(String::as_str)
    }

    /// The name that decides (`devi_binding_name`).
    pub(super) fn binding_of<'a>(&self, compatible: &'a [String]) -> Option<&'a str> {
        compatible.iter().find(|name| self.0.contains_key(*name)).map(String::as_str)
    }
}

/// Driver and alias of each alias in a manifest's driver actions.
fn driver_actions(manifest: &str) -> Vec<(String, String)> {
    let whole = manifest.replace("\\\n", " ");
    let actions = whole.lines().filter_map(|line| line.strip_prefix("driver "));
    actions
        .flat_map(|action| {
            let value = |name: &'static str| {
                action.split_whitespace().filter_map(move |word| word.strip_prefix(name))
            };
            let driver = value("name=").next().unwrap_or_default().to_owned();
            value("alias=").map(move |alias| (driver.clone(), alias.to_owned())).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Aliases, IBD_PACKAGE, IBP_PACKAGE};

    fn names(service: &str) -> Vec<String> {
        vec![format!("ib.V0002c9P000014a9v0001.{service}"), format!("ib.{service}")]
    }

    #[test]
    fn the_packages_bind_nodes_of_ports_to_ibp_and_those_of_pkeys_to_ibd() {
        let mut aliases = Aliases::default();
        aliases.install(IBP_PACKAGE);
        assert_eq!(
            (aliases.driver_of(&names("ipib")), aliases.driver_of(&names("ibd"))),
            (Some("ibp"), None)
        );
        aliases.install(IBD_PACKAGE);
        assert_eq!(
            (aliases.driver_of(&names("ipib")), aliases.driver_of(&names("ibd"))),
            (Some("ibp"), Some("ibd"))
        );
    }

    #[test]
    fn an_alias_belongs_to_the_driver_that_had_it_first_and_the_best_name_decides() {
        let mut aliases = Aliases::default();
        aliases.install("driver name=one alias=ib.x \\\n    alias=ib.y perms=\"* 0666 root sys\"\n");
        aliases.install("driver name=two alias=ib.x alias=ib.V1.x\n");
        let driver = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            aliases.driver_of(&names).map(str::to_owned)
        };
        assert_eq!(driver(&["ib.x"]).as_deref(), Some("one"));
        assert_eq!(driver(&["ib.V1.x", "ib.x"]).as_deref(), Some("two"));
        assert_eq!(driver(&["ib.z", "ib.y"]).as_deref(), Some("one"));
        assert_eq!(driver(&["ib.z"]), None);
    }
}
