//! The DTrace probes of the driver, as lines for a person (docs/probes.md).

use fakekernel::{Machine, ProbeArgument, ProbeHit};

/// Each probe with its arguments.
pub const PROBES: [(&str, &[&str]); 16] = [
    ("ibd-cm-accepted", &["link", "gid_low"]),
    ("ibd-cm-closed", &["link", "gid_low", "opened_by"]),
    ("ibd-cm-open", &["link", "gid_low"]),
    ("ibd-cm-open-failed", &["link", "gid_low", "why"]),
    ("ibd-cm-opened", &["link", "gid_low"]),
    ("ibd-cm-refused", &["link", "gid_low", "why"]),
    ("ibd-link-state", &["link", "state"]),
    ("ibd-qp-broken", &["link", "why"]),
    ("ibd-qp-down", &["link"]),
    ("ibd-qp-up", &["link", "qpn"]),
    ("ibd-rx-drop", &["link", "reason"]),
    ("ibd-sa-answer", &["link", "what", "gid_low", "status"]),
    ("ibd-sa-ask", &["link", "what", "gid_high", "gid_low"]),
    ("ibd-tx-drop", &["link", "reason", "packets"]),
    ("ibd-tx-full", &["link", "ring"]),
    ("ibd-tx-resume", &["link", "ring"]),
];

/// What fired, in order; the last line says how many hits were not kept.
pub fn lines(machine: &Machine) -> Vec<String> {
    let (hits, lost) = machine.probe_hits();
    let lost = (lost > 0).then(|| format!("{lost} more probes fired"));
    hits.iter().map(line).chain(lost).collect()
}

fn line(hit: &ProbeHit) -> String {
    let known = PROBES.iter().find(|(name, _)| *name == hit.name);
    // Of a probe that is not in the table nobody knows how many arguments it has.
    let names = known.map_or(&["arg0", "arg1", "arg2", "arg3"][..], |(_, names)| names);
    let arguments: Vec<String> =
        names.iter().zip(&hit.arguments).map(|(name, value)| shown(name, value)).collect();
    let ProbeHit { at, host, module, name, .. } = hit;
    format!("{at} {host} {module} {name} {}", arguments.join(" "))
}

fn shown(name: &str, value: &ProbeArgument) -> String {
    match value {
        ProbeArgument::Text(text) => format!("{name}={text:?}"),
        ProbeArgument::Number(number) if name.starts_with("gid") => format!("{name}={number:016x}"),
        ProbeArgument::Number(number) => format!("{name}={number}"),
    }
}
