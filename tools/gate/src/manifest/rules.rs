//! What each action has to say and may say.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::{Action, Manifest};

/// Actions, the keys they cannot do without, and those they may have; facets, variants and `pkg.*` go anywhere.
const ACTIONS: [(&str, &[&str], &[&str]); 12] = [
    ("set", &["name", "value"], &[]),
    (
        "file",
        &["path"],
        &[
            "mode",
            "owner",
            "group",
            "preserve",
            "overlay",
            "original_name",
            "revert-tag",
            "sysattr",
            "timestamp",
            "mountpoint",
            "dehydrate",
        ],
    ),
    ("dir", &["path"], &["mode", "owner", "group", "revert-tag"]),
    (
        "link",
        &["path", "target"],
        &["mediator", "mediator-version", "mediator-priority", "mediator-implementation"],
    ),
    ("hardlink", &["path", "target"], &["mediator", "mediator-version", "mediator-priority"]),
    ("driver", &["name"], &["alias", "class", "perms", "clone_perms", "policy", "privs", "devlink"]),
    ("depend", &["type", "fmri"], &["predicate", "root-image"]),
    ("license", &["license"], &["must-accept", "must-display"]),
    ("legacy", &["pkg"], &["arch", "category", "desc", "hotline", "name", "vendor", "version"]),
    ("group", &["groupname"], &["gid"]),
    (
        "user",
        &["username", "group"],
        &[
            "uid",
            "gcos-field",
            "home-dir",
            "login-shell",
            "password",
            "group-list",
            "ftpuser",
            "lastchg",
            "min",
            "max",
            "warn",
            "inactive",
            "expire",
            "flag",
        ],
    ),
    ("signature", &["algorithm"], &["value", "version", "chain"]),
];

const ANYWHERE: [&str; 6] =
    ["restart_fmri", "refresh_fmri", "disable_fmri", "suspend_fmri", "reboot-needed", "release-note"];

const DEPENDENCIES: [&str; 9] = [
    "require",
    "optional",
    "exclude",
    "incorporate",
    "require-any",
    "conditional",
    "group",
    "origin",
    "parent",
];

const PRESERVED: [&str; 6] = ["true", "renameold", "renamenew", "legacy", "abandon", "install-only"];

/// Keys that may repeat.
const LISTS: [&str; 8] = ["alias", "class", "perms", "clone_perms", "policy", "privs", "value", "fmri"];

/// Everything that is wrong with one manifest.
pub fn check(manifest: &Manifest) -> Vec<String> {
    let mut findings = Vec::new();
    for action in &manifest.actions {
        let about = |what: String| format!("line {}: {}: {what}", action.line, action.name);
        findings.extend(alone(action).into_iter().map(about));
    }
    findings.extend(paths(&manifest.actions));
    findings.extend(fmri(manifest));
    findings
}

/// What is wrong with one action.
fn alone(action: &Action) -> Vec<String> {
    let Some((_, needed, allowed)) = ACTIONS.iter().find(|(name, ..)| *name == action.name) else {
        return vec!["no such action".into()];
    };
    let mut wrong: Vec<String> = needed
        .iter()
        .filter(|key| action.value(key).is_none())
        .map(|key| format!("{key}= is missing"))
        .collect();
    let mut seen = BTreeSet::new();
    for (key, value) in &action.attributes {
        let known = needed.contains(&key.as_str()) || allowed.contains(&key.as_str());
        let free = ANYWHERE.contains(&key.as_str())
            || ["facet.", "variant.", "pkg.", "info.", "org.opensolaris."]
                .iter()
                .any(|prefix| key.starts_with(prefix));
        if !known && !free {
            wrong.push(format!("{key}= is not one of its keys"));
        }
        if !seen.insert(key) && !LISTS.contains(&key.as_str()) && !free {
            wrong.push(format!("{key}= is there twice"));
        }
        if value.matches("$(").count() > value.matches(')').count() {
            wrong.push(format!("{key}={value}: a macro is not closed"));
        }
        wrong.extend(value_of(action, key, value));
    }
    let payloads = usize::from(["file", "license", "signature"].contains(&action.name.as_str()));
    if action.payload.len() > payloads {
        wrong.push(format!("`{}` is no key=value", action.payload[payloads]));
    }
    wrong
}

/// What is wrong with a value.
fn value_of(action: &Action, key: &str, value: &str) -> Option<String> {
    let bad = match (action.name.as_str(), key) {
        (_, "path") => {
            value.starts_with('/')
                || value.ends_with('/')
                || value.split('/').any(|part| part.is_empty() || part == "." || part == "..")
        }
        (_, "mode") => {
            !(3..=4).contains(&value.len()) || !value.bytes().all(|digit| (b'0'..=b'7').contains(&digit))
        }
        ("depend", "type") => !DEPENDENCIES.contains(&value) && value != "__TBD",
        ("file", "preserve") => !PRESERVED.contains(&value),
        ("driver", "perms") => !permissions(value, 4),
        ("driver", "clone_perms") => !permissions(value, 4),
        (_, "reboot-needed") => !["true", "false"].contains(&value),
        _ => false,
    };
    bad.then(|| format!("{key}={value} is not what it may be"))
}

/// `MINOR MODE USER GROUP`.
fn permissions(value: &str, words: usize) -> bool {
    let found: Vec<&str> = value.split_whitespace().collect();
    found.len() == words
        && found[1].len() >= 3
        && found[1].bytes().all(|digit| (b'0'..=b'7').contains(&digit))
}

/// No path twice, and every file in a directory that this manifest or another has: checked for kernel paths, which
/// always come with theirs.
fn paths(actions: &[Action]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut seen: BTreeMap<(&str, &str, Vec<&String>), &Action> = BTreeMap::new();
    for action in
        actions.iter().filter(|action| ["file", "dir", "link", "hardlink"].contains(&action.name.as_str()))
    {
        let Some(path) = action.value("path") else { continue };
        let variants = action
            .attributes
            .iter()
            .filter(|(key, _)| key.starts_with("variant.") || key.starts_with("mediator"));
        let variants: Vec<&String> = variants.map(|(_, value)| value).collect();
        let same_dir = |other: &&Action| action.name == "dir" && action.attributes == other.attributes;
        if let Some(other) =
            seen.insert((path, &action.only, variants), action).filter(|other| !same_dir(other))
        {
            findings.push(format!("line {}: {path} is on line {} already", action.line, other.line));
        }
    }
    let dirs: BTreeSet<&str> = actions
        .iter()
        .filter(|action| action.name == "dir")
        .filter_map(|action| action.value("path"))
        .collect();
    for action in actions.iter().filter(|action| action.name == "file" && !dirs.is_empty()) {
        let parent = action.value("path").and_then(|path| path.rsplit_once('/')).map(|(parent, _)| parent);
        if let Some(parent) = parent.filter(|parent| parent.starts_with("kernel/") && !dirs.contains(parent))
        {
            findings.push(format!("line {}: no dir action for {parent}", action.line));
        }
    }
    findings
}

/// A package has one name; a file that others include has none.
fn fmri(manifest: &Manifest) -> Option<String> {
    let names: Vec<&Action> = manifest
        .actions
        .iter()
        .filter(|action| action.name == "set" && action.value("name") == Some("pkg.fmri"))
        .collect();
    match names[..] {
        [] => None,
        [name] => {
            let value = name.value("value").unwrap_or_default();
            let good = value.strip_prefix("pkg:/").and_then(|rest| rest.split_once('@'));
            let good = good.is_some_and(|(name, version)| !name.is_empty() && !version.is_empty());
            (!good).then(|| format!("line {}: {value} is not pkg:/NAME@VERSION", name.line))
        }
        [_, second, ..] => Some(format!("line {}: a second pkg.fmri", second.line)),
    }
}

/// The name of a package without version and publisher.
fn package(actions: &[Action]) -> Option<&str> {
    let name = actions.iter().find(|action| action.value("name") == Some("pkg.fmri"))?.value("value")?;
    Some(name.trim_start_matches("pkg:/").split('@').next().unwrap_or(name))
}

/// What is wrong between manifests: one driver alias or file in two packages that do not exclude each other.
pub fn together(packages: &[(String, Vec<Action>)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut claims: BTreeMap<String, Vec<&(String, Vec<Action>)>> = BTreeMap::new();
    for manifest in packages.iter().filter(|(_, actions)| package(actions).is_some()) {
        let mut own = BTreeSet::new();
        for action in &manifest.1 {
            let aliases = action.values("alias").map(|alias| format!("the alias {alias}"));
            let file =
                action.value("path").filter(|_| action.name == "file").map(|path| format!("the file {path}"));
            own.extend(aliases.chain(file).map(|claim| format!("{}{claim}", action.only)));
        }
        for claim in own {
            claims.entry(claim).or_default().push(manifest);
        }
    }
    for (claim, by) in claims {
        for (at, first) in by.iter().enumerate() {
            for second in &by[at + 1..] {
                let apart = exclude(&first.1, &second.1) || exclude(&second.1, &first.1);
                if !apart && arch(&first.1) == arch(&second.1) {
                    findings.push(format!("{}: {claim} is in {} too", first.0, second.0));
                }
            }
        }
    }
    findings
}

/// The machine a package is for.
fn arch(actions: &[Action]) -> &str {
    let set = actions.iter().find(|action| action.value("name") == Some("variant.arch"));
    match set.and_then(|action| action.value("value")) {
        // What the gate is built for; of the two that is the one we ask about.
        None | Some("$(ARCH)") => "i386",
        Some(arch) => arch,
    }
}

fn exclude(actions: &[Action], other: &[Action]) -> bool {
    let Some(name) = package(other) else { return false };
    let excluded = actions.iter().filter(|action| action.value("type") == Some("exclude"));
    excluded
        .flat_map(|action| action.values("fmri"))
        .any(|fmri| fmri.trim_start_matches("pkg:/").split('@').next() == Some(name))
}
