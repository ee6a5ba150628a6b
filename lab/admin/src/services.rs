//! `cfgadm -x` on the attachment point `ib`, the services for which the IB nexus makes device nodes (`ib.conf`), and `devfsadm`, which
//! has it make them.

use std::cell::RefCell;

use crate::getopt::Options;
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::{System, change_both};

/// The configuration file of the IB nexus, below the host's root.
pub const IB_CONF: &str = "kernel/drv/ib.conf";

/// What `comm=` may say, the property it stands for, and its heading.
const LISTS: [(&str, &str, &str); 3] = [
    ("port", "port-svc-list", "Port communication services:"),
    ("vppa", "vppa-svc-list", "VPPA communication services:"),
    ("hca_svc", "hca-svc-list", "HCA_SVC communication services:"),
];

/// Runs a function with its `-o` options.
pub(crate) fn run(session: &mut Session<'_>, function: &str, options: &str) -> Outcome {
    if function == "list_services" {
        return list(session);
    }
    let value = |name: &str| {
        options.split(',').find_map(|option| option.trim().strip_prefix(name)?.strip_prefix('='))
    };
    let list = value("comm").and_then(|comm| LISTS.iter().find(|(known, ..)| *known == comm));
    let (Some((_, property, _)), Some(service)) = (list, value("service")) else {
        return Err(failed("invalid service option"));
    };
    if !(2..=4).contains(&service.len()) {
        return Err(failed("service len greater than 4 characters"));
    }
    let (edit, refused): (Edit, String) = match function {
        "add_service" => (add, format!("failed to add {service} service incore ")),
        "delete_service" => (delete, format!("failed to delete in core {service} entry ")),
        _ => return Err(failed("invalid operation")),
    };
    change(session.system, &|text| edit(text, property, service), &refused)
}

/// From the text of the file to the text with a service more or less in a list.
type Edit = fn(&str, &str, &str) -> Result<String, Failure>;

/// Tells the nexus, and then writes the file: both, or neither.
fn change(system: &dyn System, edit: &dyn Fn(&str) -> Result<String, Failure>, refused: &str) -> Outcome {
    let edited = RefCell::new(Ok(String::new()));
    let mut changed = |text: String| {
        *edited.borrow_mut() = edit(&text);
        edited.borrow().as_ref().cloned().unwrap_or(text)
    };
    let act = || {
        let text = edited.replace(Ok(String::new()))?;
        system.set_services(&text).map_err(|_| failed(refused))
    };
    change_both(system, IB_CONF, &mut changed, act, failed("failed to write the configuration file"))
}

fn failed(why: &str) -> Failure {
    Failure::line(format!("cfgadm: Hardware specific failure: {why}"))
}

fn list(session: &mut Session<'_>) -> Outcome {
    let text = session.system.read_file(IB_CONF).unwrap_or_default();
    for (_, property, heading) in LISTS {
        let services = services(&text, property);
        if services.is_empty() {
            continue;
        }
        session.out(format!("{heading}\n"));
        for service in services {
            session.out(format!("\t\t{service}\n"));
        }
        if property == "port-svc-list" {
            session.out("\n");
        }
    }
    Ok(())
}

/// Where a property's value is in the text: behind the equals sign, before the semicolon. Lines of comments do not count.
fn value(text: &str, property: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.trim_start().strip_prefix(property) {
            let begin = at + (line.len() - rest.len()) + rest.find('=')? + 1;
            return Some(begin..begin + text[begin..].find(';')?);
        }
        at += line.len();
    }
    None
}

fn services<'a>(text: &'a str, property: &str) -> Vec<&'a str> {
    let Some(range) = value(text, property) else { return Vec::new() };
    text[range].split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty()).collect()
}

/// The text with a service more, in front of its list.
fn add(text: &str, property: &str, service: &str) -> Result<String, Failure> {
    if LISTS.iter().any(|(_, property, _)| services(text, property).contains(&service)) {
        return Err(failed(&format!("service entry {service} exists ")));
    }
    let mut all = services(text, property);
    all.insert(0, service);
    replace(text, property, &all)
}

/// The text with a service less.
fn delete(text: &str, property: &str, service: &str) -> Result<String, Failure> {
    let mut all = services(text, property);
    let before = all.len();
    all.retain(|known| *known != service);
    if all.len() == before {
        return Err(failed(&format!("service entry {service} does not exist ")));
    }
    replace(text, property, &all)
}

fn replace(text: &str, property: &str, services: &[&str]) -> Result<String, Failure> {
    let range = value(text, property).ok_or_else(|| failed("the configuration file has no such list"))?;
    let quoted: Vec<String> = services.iter().map(|service| format!("\"{service}\"")).collect();
    let list = if quoted.is_empty() { "\"\"".to_owned() } else { quoted.join(", ") };
    Ok(format!("{}{list}{}", &text[..range.start], &text[range.end..]))
}

const DEVFSADM: Options = Options { short: "Cc:i:nr:svt:", long: &[], operands_end: true };

/// `devfsadm(8)`: device nodes that are to be there by now are made and get their drivers, whichever of its options say less.
pub(crate) fn devfsadm(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let (parsed, operands) = DEVFSADM.parse(arguments);
    let result = if parsed.iter().any(Result::is_err) || !operands.is_empty() {
        Err(Failure { text: "usage:  devfsadm [-v] [-C] [-i drivername]\n".to_owned(), exit: Exit::FAILURE })
    } else {
        session.system.walk_devices().map_err(|_| Failure::line("devfsadm: you must be root"))
    };
    session.end(result)
}

#[cfg(test)]
mod tests {
    use super::{add, delete, services};

    const CONF: &str = "# port-svc-list=\"no\";\nname=\"ib\" class=\"root\";\nport-svc-list=\"ipib\";\nvppa-svc-list=\"\";\n";

    #[test]
    fn a_service_is_added_in_front_and_taken_out_again() {
        let with = add(CONF, "vppa-svc-list", "ibd").unwrap();
        assert!(with.ends_with("port-svc-list=\"ipib\";\nvppa-svc-list=\"ibd\";\n"), "{with}");
        let two = add(&with, "port-svc-list", "rds").unwrap();
        assert_eq!(services(&two, "port-svc-list"), ["rds", "ipib"]);
        assert_eq!(delete(&two, "port-svc-list", "rds").unwrap(), with);
        assert_eq!(delete(&with, "vppa-svc-list", "ibd").unwrap(), CONF);
    }

    #[test]
    fn a_service_belongs_to_one_list_and_only_what_is_there_is_taken_out() {
        for (text, said) in [
            (add(CONF, "vppa-svc-list", "ipib"), "service entry ipib exists"),
            (delete(CONF, "vppa-svc-list", "ibd"), "does not exist"),
            (add(CONF, "hca-svc-list", "nfs"), "no such list"),
        ] {
            assert!(text.unwrap_err().text.contains(said), "{said}");
        }
    }
}
