//! `ppriv -e`: a command with fewer privileges.

use anyhow::{Result, bail};

/// Says to the commands below that the process has a user's privileges only.
pub const VARIABLE: &str = "IBDLAB_PRIVILEGES";
/// Its value then.
const BASIC: &str = "basic";

/// The privileges that configure links and interfaces.
const CONFIGURE: [&str; 3] = ["sys_dl_config", "sys_net_config", "sys_ip_config"];

/// Has this process the privileges of root?
pub fn is_privileged() -> bool {
    std::env::var(VARIABLE).as_deref() != Ok(BASIC)
}

/// The command behind `ppriv -e [-s spec]`, and whether it keeps its privileges.
///
/// # Errors
///
/// Anything else that `ppriv` can do.
pub fn parse(arguments: &[String]) -> Result<(Vec<String>, bool)> {
    let mut privileged = is_privileged();
    let mut execute = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-e" => execute = true,
            "-s" => match rest.next() {
                Some(spec) => privileged &= keeps(spec)?,
                None => bail!("option requires an argument -- s"),
            },
            "-D" | "-N" | "-M" | "-X" => {}
            other if other.starts_with('-') => bail!("illegal option -- {}", &other[1..]),
            _ => {
                let command = std::iter::once(argument).chain(rest).cloned().collect();
                if !execute {
                    bail!("the lab has `ppriv -e` only");
                }
                return Ok((command, privileged));
            }
        }
    }
    bail!("usage: ppriv -e [-s privset-spec] command [arg]...")
}

/// What is left of root's privileges for configuring after `SETS[+-=]LIST`.
fn keeps(spec: &str) -> Result<bool> {
    let Some(at) = spec.find(['+', '-', '=']) else { bail!("bad privilege specification: {spec}") };
    let (sets, list) = (&spec[..at], &spec[at + 1..]);
    if sets.is_empty() || !sets.chars().all(|c| "AEILP".contains(c)) {
        bail!("bad privilege specification: {spec}");
    }
    // What a process may inherit is what the command begins with.
    let matters = sets.contains(['A', 'E', 'I', 'P']);
    let named = |name: &str| list.split(',').any(|one| one.trim_start_matches("PRIV_") == name);
    let configure = named("all") || named("zone") || CONFIGURE.iter().any(|name| named(name));
    Ok(match spec.as_bytes()[at] {
        b'-' => !(matters && configure),
        b'=' => !matters || configure,
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_the_privilege_to_configure_links_is_told_from_one_with_it() {
        let parsed = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            parse(&arguments).map(|(_, privileged)| privileged).ok()
        };
        for (line, expected) in [
            ("-e dladm show-link", Some(true)),
            ("-s A-sys_dl_config -e dladm show-link", Some(false)),
            ("-e -s A=basic dladm show-link", Some(false)),
            ("-e -s EIP-proc_fork dladm show-link", Some(true)),
            ("-e -s A=all dladm show-link", Some(true)),
            ("-e -s A-all,!x dladm", Some(false)),
            ("-e -s nonsense dladm", None),
            ("dladm show-link", None),
            ("-e", None),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }
}
