//! The documents say what the code is.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use conformance::probe::workspace_root;

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
    let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    if let Some(tuple) = line.strip_prefix("struct ") {
        let (name, rest) = tuple.split_once(['<', '('])?;
        return rest.contains("(Mutex<").then_some(name).or(rest.starts_with("Mutex<").then_some(name));
    }
    let (name, kind) = line.split_once(": ")?;
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let kind = kind.strip_prefix("KArc<").unwrap_or(kind);
    let lock = kind.starts_with("Mutex<") || kind.starts_with("Monitor<");
    (plain && lock && line.ends_with(',')).then_some(name)
}

#[test]
fn the_locking_page_has_every_lock() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/locking.md")).expect("the page");
    let mut files = Vec::new();
    for part in ["kernel", "gldv3", "ibtf", "ibd", "mac_ib"] {
        sources(&root.join("rust").join(part).join("src"), &mut files);
    }
    let mut found = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for name in code.lines().filter_map(lock_in) {
            found += 1;
            let place = file.file_name().expect("a file").to_string_lossy().into_owned();
            let rows = page.lines().filter(|line| line.starts_with('|') && line.contains(&place));
            let told = rows.into_iter().any(|row| row.contains(&format!("`{name}`")));
            // A clone of a link's lock in another part of it has the same name.
            assert!(told || page.contains(&format!("`{name}` |")), "{}: `{name}`", file.display());
        }
    }
    assert!(found >= 15, "{found} locks found: the search looks at the wrong lines");
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
        .skip_while(|line| *line != ".Sh FIELDS")
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

#[test]
fn every_test_that_the_page_of_weaknesses_names_exists() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/weaknesses.md")).expect("the page");
    let mut files = Vec::new();
    for part in ["rust", "lab", "tests"] {
        sources(&root.join(part), &mut files);
    }
    let code: String = files.iter().map(|file| fs::read_to_string(file).expect("readable")).collect();
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |")).collect();
    let numbered = rows.iter().filter(|row| {
        row.chars().nth(2).is_some_and(|c| "DABCE".contains(c))
            && row.chars().nth(3).is_some_and(|c| c.is_ascii_digit())
    });
    assert_eq!(numbered.clone().count(), 69, "one row for each weakness");
    let closed = numbered.clone().filter(|row| row.ends_with("| closed |")).count();
    let readme = fs::read_to_string(root.join("README.md")).expect("the page");
    assert!(readme.contains(&format!("C driver {closed} are closed")), "{closed} are closed");
    for row in numbered {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, _, _, shown, state, _] = cells[..] else { panic!("{row}: five cells") };
        let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        for test in &tests {
            assert!(code.contains(&format!("fn {test}(")), "{row}: no such test");
        }
        assert!(state != "closed" || !tests.is_empty(), "{row}: closed, by which test?");
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
            let known = [format!("fn {test}("), format!("(\"{test}\", {test})")];
            assert!(known.iter().any(|known| code.contains(known)), "{test}: no such test");
        }
    }
}

#[test]
fn rings_are_off_as_shipped() {
    for driver in ["ibd", "ibp"] {
        let file = workspace_root().join(format!("usr/src/uts/common/io/ib/clients/ibd/{driver}.conf"));
        let text = fs::read_to_string(&file).expect("the configuration file");
        let properties = fakekernel::genunix::parse_conf(&text).expect("global properties");
        let off = ["ibd_rx_rings", "ibd_tx_rings"].map(|name| (name.to_owned(), 0.into()));
        assert_eq!(properties, off, "{driver}");
    }
}
