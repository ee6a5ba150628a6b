//! Which scenario the files that hosts keep are of. They are kept by lab and host, so another scenario with the same names finds them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::place::Place;

/// Forgets the files of these hosts. The lab is not up.
///
/// # Errors
///
/// Files that cannot be removed.
pub fn forget(place: &Place, hosts: &[&str]) -> Result<()> {
    for host in hosts {
        let root = place.state(host);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
        }
    }
    Ok(())
}

/// What there is to say before these hosts come up with another scenario than the one that their files are of.
pub fn warning(place: &Place, scenario: &Path, hosts: &[&str]) -> Option<String> {
    let this = fs::canonicalize(scenario).ok()?;
    let of = |host: &str| {
        let kept = fs::read_to_string(place.scenario_of(host)).ok()?;
        (place.state(host).exists() && Path::new(&kept) != this).then_some(kept)
    };
    let kept: Vec<(&str, String)> = hosts.iter().filter_map(|host| Some((*host, of(host)?))).collect();
    let (_, scenario) = kept.first()?;
    let names: Vec<&str> = kept.iter().map(|(host, _)| *host).collect();
    Some(format!(
        "the files of {} are of {scenario}, links and addresses among them: `--fresh` forgets them",
        names.join(", ")
    ))
}

/// Remembers the scenario for the hosts that have no files yet. Nothing depends on it, so that a failure is passed over.
pub fn remember(place: &Place, scenario: &Path, hosts: &[&str]) {
    let Ok(scenario) = fs::canonicalize(scenario) else { return };
    for host in hosts.iter().filter(|host| !place.state(host).exists()) {
        let file = place.scenario_of(host);
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(file, scenario.as_os_str().as_encoded_bytes());
    }
}
