//! The documents say what the code is.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use conformance::probe::{shipped, workspace_root};
use object::{Object as _, ObjectSymbol as _};

#[path = "link/c_driver/rows.rs"]
#[allow(dead_code, reason = "the tests that need the C objects read the rest")]
mod c_driver;

/// Every Rust file below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of the workspace") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The name of the field or tuple struct that a line declares a lock in: no argument, no borrow, no signature.
fn lock_in(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = ["pub(crate) ", "pub(super) ", "pub "]
        .iter()
        .find_map(|seen| line.strip_prefix(seen))
        .unwrap_or(line);
    if let Some(tuple) = line.strip_prefix("struct ") {
        let (name, field) = tuple.split_once('(')?;
        return is_lock(field).then(|| name.split('<').next().unwrap_or(name));
    }
    let (name, kind) = line.split_once(": ")?;
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    (plain && is_lock(kind) && line.ends_with(',')).then_some(name)
}

fn is_lock(kind: &str) -> bool {
    let kind = kind.strip_prefix("KArc<").unwrap_or(kind);
    kind.starts_with("Mutex<") || kind.starts_with("Monitor<")
}

#[test]
fn the_locking_page_has_every_lock() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/locking.md")).expect("the page");
    let mut files = Vec::new();
    for part in ["kernel", "gldv3", "ibtf", "ibtf-provider", "ibd", "mac_ib", "swhca"] {
        sources(&root.join("rust").join(part).join("src"), &mut files);
    }
    // A row begins with the file and the lock.
    let told: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" |").next()?.strip_suffix('`')?.split_once("` `"))
        .map(|(file, lock)| (file.rsplit('/').next().unwrap_or(file), lock))
        .collect();
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("readable");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let place = file.file_name().expect("a file").to_string_lossy().into_owned();
        found.extend(code.lines().filter_map(lock_in).map(|name| (place.clone(), name.to_owned())));
    }
    assert!(found.len() >= 15, "{} locks found: the search looks at the wrong lines", found.len());
    for (file, lock) in &found {
        // A clone of a link's lock in another part of it has the same name.
        assert!(
            told.iter().any(|(_, name)| name == lock),
            "no row of docs/locking.md is about `{file}` `{lock}`"
        );
    }
    for (file, lock) in told {
        let known = |(place, name): &(String, String)| place == file && name == lock;
        assert!(found.iter().any(known), "docs/locking.md has a row about `{file}` `{lock}`, which is none");
    }
}

/// The probes that the objects call, as DTrace shows them.
fn probes_of(module: &str) -> BTreeSet<String> {
    let image = fs::read(shipped("drv", module)).expect("readable");
    let file = object::File::parse(&*image).expect("an object");
    let symbols = file.symbols().filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    symbols.filter_map(|name| Some(name.strip_prefix("__dtrace_probe_")?.replace("__", "-"))).collect()
}

#[test]
fn the_page_of_probes_has_those_of_the_objects_with_their_arguments_and_no_others() {
    let page = fs::read_to_string(workspace_root().join("docs/probes.md")).expect("the page");
    let told: BTreeMap<String, Vec<String>> = page
        .lines()
        .filter(|line| line.starts_with("| `ibd-"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let words =
                |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            (words(cells[1]).remove(0), words(cells[2]))
        })
        .collect();
    let names: BTreeSet<String> = told.keys().cloned().collect();
    for module in ["ibd", "ibp"] {
        assert_eq!(probes_of(module), names, "{module}");
    }
    let lab: BTreeMap<String, Vec<String>> = ibdlab::probes::PROBES
        .iter()
        .map(|(name, arguments)| ((*name).to_owned(), arguments.iter().map(|a| (*a).to_owned()).collect()))
        .collect();
    assert_eq!(lab, told);
    for (name, arguments) in &told {
        // `probe!(ibd, tx__drop, link, reason.as_ptr(), packets)`
        let source = fs::read_to_string(workspace_root().join("rust/ibd/src/probes.rs")).expect("the probes");
        let call = format!("probe!({}, link", name.replacen('-', ", ", 1).replace('-', "__"));
        let line = source.lines().find(|line| line.trim_start().starts_with(&call)).expect(name);
        assert_eq!(line.matches(", ").count() - 1, arguments.len(), "{line}");
    }
}

/// The rows of the driver's table of properties: name, default, bounds and when, as the page has them.
fn properties_of_the_driver(source: &str) -> Vec<String> {
    let (_, table) = source.split_once("const ROWS: ").expect("the table");
    let constant = |name: &str| {
        let (_, value) = source.split_once(&format!("const {name}: u32 = ")).expect("a constant");
        value.split(';').next().unwrap_or_default()
    };
    let (table, _) = table.split_once("];").expect("its end");
    let rows: Vec<Vec<String>> = table
        .split("row(c")
        .skip(1)
        .map(|row| row.split(',').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let number = |cell: &str| cell.replace('_', "");
    let most = |cell: &str| match cell {
        "u32::MAX" => u32::MAX.to_string(),
        value if value.starts_with(|first: char| first.is_ascii_digit()) => number(value),
        name => number(constant(name)),
    };
    let when = |cell: &str| match cell.split("::").nth(1).and_then(|when| when.split(')').next()) {
        Some("Stopped") => "stopped",
        Some("Always") => "any time",
        Some("Coalescing") => "coalescing",
        other => panic!("{other:?}"),
    };
    rows.iter()
        .map(|row| {
            let (name, default, least) = (row[0].trim_matches('"'), number(&row[2]), number(&row[3]));
            format!("{name} Pq {default}; {least} to {}; {}", most(&row[4]), when(&row[5]))
        })
        .collect()
}

/// The public properties that the driver takes, as the page has them.
fn public_properties_of_the_driver(source: &str) -> Vec<String> {
    let (_, setter) = source.split_once("fn set_property(").expect("what sets one");
    let setter = setter.split("\n    }\n").next().unwrap_or_default();
    let taken = setter.split("PropertyId::").skip(1).filter_map(|arm| arm.split([' ', '(']).next());
    let mut rows: Vec<String> = taken
        .filter(|id| !["Private", "Other"].contains(id))
        .map(|id| match id {
            "LinkMode" => {
                assert!(source.contains("PropertyId::LinkMode => info.default_u32(DATAGRAM)"), "the default");
                "linkmode Pq ud; cm or ud; stopped".to_owned()
            }
            "Mtu" => "mtu Pq that of the broadcast group; 1280 to that; any time".to_owned(),
            other => panic!("how does the page have {other}?"),
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// The messages that a source logs, `...` for whatever is filled in.
fn messages_of(source: &str) -> Vec<String> {
    let calls = source.split("log!(").skip(1).filter(|call| call.starts_with(|c: char| c != '@'));
    let texts = calls.filter_map(|call| call.split('"').nth(1).map(str::to_owned));
    texts
        .map(|text| {
            let mut parts = text.split('{');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |told, part| told + "..." + part.split_once('}').expect("a place").1)
        })
        .collect()
}

/// Whether a text is one that a pattern with `...` in it stands for.
fn stands_for(pattern: &str, text: &str) -> bool {
    let mut rest = text;
    let mut parts = pattern.split("...");
    let Some(next) = rest.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    rest = next;
    for part in parts {
        match rest.rfind(part) {
            Some(_) if part.is_empty() => return true,
            Some(_) => match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            },
            None => return false,
        }
    }
    rest.is_empty()
}

/// The lines of a page from one heading to the next that begin with a macro.
fn items<'a>(page: &'a str, heading: &str, item: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| *line != format!(".Sh {heading}")).skip(1);
    lines.take_while(|line| !line.starts_with(".Sh ")).filter_map(|line| line.strip_prefix(item)).collect()
}

#[test]
fn the_page_of_ibd_has_every_property_statistic_and_message_and_no_other() {
    let root = workspace_root();
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("readable");
    let page = read("docs/man/ibd.4d");
    let settings = read("rust/ibd/src/link/settings.rs");
    let (_, fixed) = settings.split_once("const READ_ONLY: ").expect("what cannot be set");
    let fixed = fixed.split_once('[').and_then(|(_, rest)| rest.split_once("= [")).expect("a list").1;
    let fixed = fixed.split_once(']').expect("its end").0.split(',').map(|name| {
        let (_, rest) = settings.split_once(&format!("const {}: &CStr = c\"", name.trim())).expect("a name");
        rest.split_once('"').expect("its end").0.to_owned()
    });
    let public = public_properties_of_the_driver(&read("rust/ibd/src/link/properties.rs"));
    let private = properties_of_the_driver(&settings).into_iter().chain(fixed);
    let expected: Vec<String> = public.into_iter().chain(private).collect();
    assert!(expected.len() > 15);
    assert_eq!(items(&page, "PROPERTIES", ".It Sy "), expected);

    let published =
        ["counters/drops.rs", "counters/shown.rs", "link/statistics.rs", "link/incoming/counters.rs"];
    let published = published.map(|file| read(&format!("rust/ibd/src/{file}")));
    let names: BTreeSet<&str> = published.iter().flat_map(|file| names_in(file)).collect();
    assert!(names.len() > 80, "{names:?}");
    let (_, section) = page.split_once(".Sh STATISTICS\n").expect("the statistics");
    let section = section.split("\n.Sh ").next().unwrap_or_default();
    let told = |macros: &[&str]| -> BTreeSet<&str> {
        let lines =
            section.lines().filter_map(|line| macros.iter().find_map(|start| line.strip_prefix(start)));
        lines.flat_map(|line| line.split([' ', ','])).filter(|name| !name.is_empty()).collect()
    };
    let (listed, mentioned) = (told(&[".It Sy "]), told(&[".It Sy ", ".Sy "]));
    let missing: Vec<_> = names.difference(&mentioned).collect();
    assert!(missing.is_empty(), "docs/man/ibd.4d has no statistic {missing:?}");
    let unknown: Vec<_> = listed.difference(&names).collect();
    assert!(unknown.is_empty(), "docs/man/ibd.4d: nobody counts {unknown:?}");

    let mut files = Vec::new();
    sources(&root.join("rust/ibd/src"), &mut files);
    sources(&root.join("rust/ibtf/src"), &mut files);
    files.push(root.join("rust/kernel/src/module/entry.rs"));
    let logged: BTreeSet<String> =
        files.iter().flat_map(|file| messages_of(&fs::read_to_string(file).expect("readable"))).collect();
    assert!(logged.len() > 25, "{logged:?}");
    let told = items(&page, "DIAGNOSTICS", ".It ");
    for message in &logged {
        assert!(told.iter().any(|pattern| stands_for(pattern, message)), "docs/man/ibd.4d: {message}");
    }
    for pattern in &told {
        assert!(logged.iter().any(|message| stands_for(pattern, message)), "nobody says {pattern}");
    }
    let conf_page = read("docs/man/ibd.conf.5");
    let told = items(&conf_page, "PROPERTIES", ".It Sy ");
    for conf in ["ibd", "ibp"] {
        let conf = read(&format!("usr/src/uts/common/io/ib/clients/ibd/{conf}.conf"));
        let without_effect =
            |row: &String| row.starts_with("_ibd_rc_") && !row.starts_with("_ibd_rc_accept ");
        for row in properties_of_the_driver(&settings).iter().filter(|row| !without_effect(row)) {
            let (name, rest) = row.split_once(" Pq ").expect("a row");
            let default = rest.split(';').next().unwrap_or_default();
            let line = format!("# {}={default};", name.trim_start_matches('_'));
            assert!(conf.lines().any(|told| told.starts_with(&line)), "{line}");
        }
        let tunables = conf.lines().filter_map(|line| line.strip_prefix("# ibd_")?.split_once(';'));
        let tunables = tunables.filter_map(|(set, bounds)| {
            let (name, default) = set.split_once('=')?;
            Some(format!("ibd_{name} Pq {default}; {}", bounds.trim()))
        });
        let rings = ["ibd_rx_rings Pq 0; 0 or 1", "ibd_tx_rings Pq 0; 0 to 8"].map(str::to_owned);
        assert_eq!(told, tunables.chain(rings).collect::<Vec<_>>(), "ibd.conf(5)");
    }
}

/// The names that a file has for the kernel, but for those of its tests and the class.
fn names_in(file: &str) -> impl Iterator<Item = &str> {
    let code = file.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.contains("CLASS: &CStr"));
    let literals = lines.flat_map(|line| line.split("c\"").skip(1));
    literals.filter_map(|rest| rest.split('"').next()).filter(|name| !name.is_empty())
}

#[test]
fn the_page_of_swhca_has_every_property_ioctl_statistic_and_message_and_no_other() {
    let root = workspace_root();
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("readable");
    let page = read("docs/man/swhca.4d");
    let conf = read("usr/src/uts/common/io/ib/adapters/swhca/swhca.conf");
    let set = conf.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(";\t")?.0.split_once('='));
    let set: Vec<String> = set.map(|(name, default)| format!("{name} Pq {default}")).collect();
    let mut told = items(&page, "PROPERTIES", ".It Sy ");
    assert_eq!(told.len(), set.len());
    told.retain(|row| !set.iter().any(|set| set == row));
    assert_eq!(told, Vec::<&str>::new());

    let ioctls = read("rust/swhca-ioctl/src/lib.rs");
    let constants = |text: &str| -> Vec<String> {
        let names =
            text.lines().filter_map(|line| line.trim().strip_prefix("pub const ")?.split_once(": i32"));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(items(&page, "IOCTLS", ".It Dv "), constants(&ioctls));
    let names: Vec<&str> = ioctls.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(items(&page, "STATISTICS", ".It Sy "), names);

    let mut files = Vec::new();
    sources(&root.join("rust/swhca/src"), &mut files);
    let logged: BTreeSet<String> =
        files.iter().flat_map(|file| messages_of(&fs::read_to_string(file).expect("readable"))).collect();
    assert!(logged.len() > 8, "{logged:?}");
    let told = items(&page, "DIAGNOSTICS", ".It ");
    for message in &logged {
        assert!(told.iter().any(|pattern| stands_for(pattern, message)), "docs/man/swhca.4d: {message}");
    }
    for pattern in &told {
        assert!(logged.iter().any(|message| stands_for(pattern, message)), "nobody says {pattern}");
    }
}

/// What is between two quotes in a line of C, one string after the other.
fn strings_of_c(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

#[test]
fn the_page_of_ibdpath_has_every_field_and_every_diagnostic() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/man/ibdpath.8")).expect("the page");
    let source = fs::read_to_string(root.join("usr/src/cmd/ibdpath/ibdpath.c")).expect("the command");
    let (_, table) = source.split_once("fields[] = {").expect("the table of fields");
    let (table, _) = table.split_once("};").expect("its end");
    let fields: Vec<&str> = table.lines().flat_map(strings_of_c).collect();
    assert!(fields.len() > 10, "{fields:?}");
    let told: Vec<&str> = page
        .lines()
        .skip_while(|line| *line != ".Sh OUTPUT")
        .take_while(|line| *line != ".Sh EXIT STATUS")
        .filter_map(|line| line.strip_prefix(".It Cm "))
        .flat_map(|names| names.split(" , "))
        .collect();
    assert_eq!(told, fields);
    let (_, defaults) = source.split_once("default_fields[] =").expect("the default fields");
    let defaults = strings_of_c(defaults.split(';').next().expect("its end")).next().expect("a string");
    assert!(page.contains(&format!(".Cm {} .", defaults.replace(',', " , "))), "{defaults}");
    let (_, errors) = source.split_once("explain(int error)").expect("the messages");
    let (errors, _) = errors.split_once("default:").expect("their end");
    let messages = errors.split("return (").skip(1).map(|rest| {
        let call = rest.split(");").next().expect("its end");
        strings_of_c(call).collect::<String>()
    });
    for message in messages {
        assert!(page.lines().any(|line| line == format!(".It {message}")), "{message}");
    }
}

const ON_THE_C_DRIVER: &str = "## The same tests on the C driver\n";

#[test]
fn the_page_of_weaknesses_tells_what_the_c_driver_does_in_the_tests_of_closed_rows() {
    let page = fs::read_to_string(workspace_root().join("docs/weaknesses.md")).expect("the page");
    let (before, rest) = page.split_once(ON_THE_C_DRIVER).expect("the section");
    let (section, _) = rest.split_once("\n## ").expect("one more section");
    let id = |row: &str| row.split('|').nth(1).expect("a cell").trim().to_owned();
    let closed: Vec<String> = before.lines().filter(|row| row.ends_with("| closed |")).map(id).collect();
    assert_eq!(c_driver::ROWS.iter().map(|row| row.id).collect::<Vec<_>>(), closed, "a row for each");
    let told: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let rows = c_driver::ROWS.iter().map(|row| format!("| {} | {} |", row.id, row.told));
    assert_eq!(told, rows.collect::<Vec<_>>(), "page and list say the same");
    let shown = told.iter().filter(|row| row.contains("| fails: ") || row.contains("| hangs")).count();
    let readme = fs::read_to_string(workspace_root().join("README.md")).expect("the page");
    assert!(readme.contains(&format!("own object fails in {shown} of them")), "{shown} are shown");
    for row in &c_driver::ROWS {
        let latent = matches!(row.outcome, c_driver::Outcome::Latent);
        assert_eq!(row.told.starts_with("latent: "), latent, "{}", row.id);
        let test = match row.outcome {
            c_driver::Outcome::Fails { test, .. } | c_driver::Outcome::Uncounted { test, .. } => test,
            c_driver::Outcome::Latent => continue,
        };
        let (_, test) = test.split_once("::").expect("module and test");
        let named = before.lines().find(|line| line.starts_with(&format!("| {} |", row.id)));
        assert!(named.is_some_and(|line| line.contains(&format!("`{test}`"))), "{}: {test}", row.id);
    }
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn each_of(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (names, after) = rest.split_once('}').expect("a closing brace");
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

#[test]
fn every_place_that_the_page_of_proofs_names_exists() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/proof.md")).expect("the page");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 20, "the page has lost its claims");
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, claim, shown, rung, _] = cells[..] else { panic!("{row}: three cells") };
        assert!(!claim.is_empty() && !shown.is_empty() && !rung.is_empty(), "{row}");
        let named =
            shown.split('`').skip(1).step_by(2).filter(|name| name.contains('/') && !name.contains(' '));
        for place in named.flat_map(each_of) {
            let found = ["", ".rs", "/main.rs"].iter().any(|end| root.join(format!("{place}{end}")).exists());
            assert!(found, "{place}: not there");
        }
    }
}

/// The functions of a source file that are tests: their attribute stands before them, with no more than comments and other
/// attributes between, or a smoke test is made of them.
fn tests_of(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("readable");
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(targets) = line.strip_prefix("smoke!(") {
            tests.extend(targets.trim_end_matches(");").split(' ').map(str::to_owned));
        } else if !(line.starts_with("#[") || line.starts_with("//")) {
            let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('));
            tests.extend(name.filter(|_| is_test).map(|(name, _)| name.to_owned()));
            is_test = false;
        }
    }
    tests
}

#[test]
fn every_test_that_the_page_of_weaknesses_names_exists() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/weaknesses.md")).expect("the page");
    let (first, rest) = page.split_once(ON_THE_C_DRIVER).expect("the section about the C driver");
    let (_, last) = rest.split_once("\n## ").expect("one more section");
    let page = format!("{first}{last}");
    let mut files = Vec::new();
    for part in ["rust", "lab", "tests"] {
        sources(&root.join(part), &mut files);
    }
    let known: BTreeSet<String> = files.iter().flat_map(|file| tests_of(file)).collect();
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |")).collect();
    let numbered = rows.iter().filter(|row| {
        row.chars().nth(2).is_some_and(|c| "DABCE".contains(c))
            && row.chars().nth(3).is_some_and(|c| c.is_ascii_digit())
    });
    assert_eq!(numbered.clone().count(), 69, "one row for each weakness");
    let closed = numbered.clone().filter(|row| row.ends_with("| closed |")).count();
    let readme = fs::read_to_string(root.join("README.md")).expect("the page");
    assert!(readme.contains(&format!("we closed {closed}, each with a test")), "{closed} are closed");
    let of_objects = tests_of_objects(root);
    for row in numbered {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, _, _, shown, state, _] = cells[..] else { panic!("{row}: five cells") };
        let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        for test in &tests {
            assert!(known.contains(*test), "{row}: no such test");
        }
        let shown = tests.iter().any(|test| of_objects.contains(*test));
        assert!(state != "closed" || shown, "{row}: closed, by which test through the object?");
        let known = ["closed", "machine", "partly: ", "open: "];
        assert!(known.iter().any(|known| state.starts_with(known)), "{row}: {state}");
    }
    let situations: Vec<_> = rows.iter().filter(|row| row.starts_with("| K")).collect();
    assert_eq!(situations.len(), 15, "one row for each situation");
    for row in situations {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, _, embedded, opensm, _] = cells[..] else { panic!("{row}: four cells") };
        let tests: Vec<&str> =
            [embedded, opensm].iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(
            embedded.starts_with('`') && (opensm.starts_with('`') || opensm.starts_with("no: ")),
            "{row}"
        );
        for test in &tests {
            assert!(known.contains(*test), "{test}: no such test");
        }
    }
}

/// The tests that run objects which ship.
fn tests_of_objects(root: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    ["tests/tests", "lab/ibdlab/tests"].into_iter().for_each(|part| sources(&root.join(part), &mut files));
    files.iter().flat_map(|file| tests_of(file)).collect()
}

/// Names between backquotes.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_rows_of_connected_mode_are_75_and_24_and_name_tests_that_exist() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/weaknesses.md")).expect("the page");
    let (_, section) = page.split_once("\n## Connected mode\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("one more section");
    let mut files = Vec::new();
    ["rust", "lab", "tests"].into_iter().for_each(|part| sources(&root.join(part), &mut files));
    let known: BTreeSet<String> = files.iter().flat_map(|file| tests_of(file)).collect();
    let rows = |prefix: &str| -> Vec<Vec<String>> {
        let is_numbered = |line: &&str| {
            let rest = line.strip_prefix(&format!("| {prefix}"));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let of = section.lines().filter(is_numbered);
        of.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
    };
    let (weaknesses, checks) = (rows("R"), rows("Check "));
    let numbers = |rows: &[Vec<String>], prefix: &str| -> Vec<Option<u32>> {
        rows.iter().map(|cells| cells[1].strip_prefix(prefix)?.parse().ok()).collect()
    };
    assert_eq!(numbers(&weaknesses, "R"), (1..=75).map(Some).collect::<Vec<_>>());
    assert_eq!(numbers(&checks, "Check "), (1..=24).map(Some).collect::<Vec<_>>());
    for cells in weaknesses.iter().map(|cells| &cells[4]).chain(checks.iter().map(|cells| &cells[3])) {
        for test in named(cells) {
            assert!(known.contains(test), "{test}: no such test");
        }
    }
    assert!(checks.iter().all(|cells| !named(&cells[3]).is_empty()), "each check has a test");
    for cells in &weaknesses {
        let (shown, state) = (named(&cells[4]), &cells[5]);
        let is_state = ["closed", "machine"].contains(&state.as_str());
        assert!(is_state || state.starts_with("partly: ") || state.starts_with("open: "), "{cells:?}");
        assert!(state.starts_with("open: ") || !shown.is_empty(), "{cells:?}: by which test?");
    }
    let of_objects = tests_of_objects(root);
    for cells in weaknesses.iter().filter(|cells| cells[5] == "closed") {
        let shown = named(&cells[4]).into_iter().any(|test| of_objects.contains(test));
        assert!(shown, "{cells:?}: closed, by which test through the object?");
    }
    let count =
        |wanted: &[&str]| weaknesses.iter().filter(|cells| wanted.contains(&cells[5].as_str())).count();
    let (gone, closed) = (count(&["closed", "machine"]), count(&["closed"]));
    assert!(section.contains(&format!("Of these {gone} are not here: {closed} rows")), "{gone} and {closed}");
    let readme = fs::read_to_string(root.join("README.md")).expect("the page");
    let told = format!("{gone} are gone: tests through the module show {closed}, ");
    assert!(readme.contains(&told), "{told}");
}

#[test]
fn the_page_of_words_has_every_rule() {
    let page = fs::read_to_string(workspace_root().join("docs/words.md")).expect("the page");
    let (_, table) = page.split_once("## The rules").expect("a section of rules");
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")).collect();
    let row = |rule: fakekernel::Rule| {
        format!("| {} | {} | {} |", rule.number(), rule.severity().letter(), rule.text())
    };
    assert_eq!(rows, fakekernel::Rule::ALL.map(row));
}

#[test]
fn as_shipped_rings_are_off_and_the_driver_is_asked_before_a_suspend() {
    for driver in ["ibd", "ibp"] {
        let file = workspace_root().join(format!("usr/src/uts/common/io/ib/clients/ibd/{driver}.conf"));
        let text = fs::read_to_string(&file).expect("the configuration file");
        let properties = fakekernel::genunix::parse_conf(&text).expect("global properties");
        let off = ["ibd_rx_rings", "ibd_tx_rings"].map(|name| (name.to_owned(), 0.into()));
        let asked = ("pm-hardware-state".to_owned(), "needs-suspend-resume".into());
        assert_eq!(properties, [&off[..], &[asked]].concat(), "{driver}");
    }
}

#[test]
fn every_test_and_case_that_the_page_of_swhca_names_is_there() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/swhca.md")).expect("the page");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let checks: Vec<&&str> = rows.iter().filter(|row| row.matches('|').count() == 4).collect();
    let mut files = Vec::new();
    for directory in ["rust/swhca/src", "rust/ibtf-provider/src", "tests/tests/swhca", "lab/ibdlab/tests"] {
        sources(&root.join(directory), &mut files);
    }
    let tests: String = files.iter().map(|file| fs::read_to_string(file).expect("readable")).collect();
    let cases = fs::read_to_string(root.join("tools/metal/src/suite/mod.rs")).expect("the cases of METAL");
    let mut named = 0;
    for row in &checks {
        for part in row.split("; ") {
            let of_metal = part.split("METAL: ").nth(1).unwrap_or_default();
            for name in
                of_metal.split('`').skip(1).step_by(2).filter(|name| !name.contains(['_', '.', '/', ' ']))
            {
                assert!(cases.contains(&format!("name: \"{name}\"")), "METAL has no case {name}");
                named += 1;
            }
        }
        for name in row.split('`').skip(1).step_by(2).filter(|name| name.contains('_') && !name.contains('/'))
        {
            let function = match name.strip_suffix("_...") {
                Some(beginning) => format!("fn {beginning}_"),
                None => format!("fn {name}("),
            };
            let beginning_missing =
                name.strip_prefix("..._").is_some_and(|rest| tests.contains(rest.trim_end_matches("_...")));
            assert!(
                beginning_missing || tests.contains(&function) || NOT_TESTS.contains(&name),
                "no test {name}"
            );
            named += 1;
        }
    }
    assert!(named > 40, "{named} names found: the search looks at the wrong lines");
}

/// Functions of the kernel's that the table speaks of.
const NOT_TESTS: [&str; 3] = ["free_cq", "ibc_attach", "modify_ports"];

/// Where a file is that the chapter on the driver names from a crate on.
fn of_a_crate(name: &str) -> Option<String> {
    let (package, path) = name.split_once('/')?;
    let sources = match package {
        "ibd" => "ibd/src/link",
        "ipoib" => "ipoib/src",
        "ibtf" => "ibtf/src",
        "kernel" => "kernel/src",
        _ => return None,
    };
    Some(format!("rust/{sources}/{path}"))
}

#[test]
fn every_file_that_the_chapter_on_the_driver_names_is_there() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/design.md")).expect("the page");
    let (_, chapter) = page.split_once("\n## The driver\n").expect("the chapter");
    let (chapter, _) = chapter.split_once("\n## ").expect("the next one");
    let quoted = chapter.split('`').skip(1).step_by(2);
    let files: Vec<String> =
        quoted.filter(|name| !name.contains(' ') && !name.contains("/x.")).filter_map(of_a_crate).collect();
    assert!(files.len() > 30, "{files:?}");
    for file in files {
        assert!(root.join(&file).exists(), "{file}");
    }
}
