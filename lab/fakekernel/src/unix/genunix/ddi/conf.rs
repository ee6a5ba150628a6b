//! `driver.conf(5)`: the global properties of a driver's configuration file.

use super::property::Value;

/// The properties that a configuration file gives all nodes of its driver: `NAME = VALUE;` with an integer, a string in quotes, a
/// list of strings or no value at all, and comments from `#` to the end of the line.
///
/// # Errors
///
/// What is something else, node specifications (`name = ...`) among it.
pub fn parse(text: &str) -> Result<Vec<(String, Value)>, String> {
    entries(text)?.iter().map(|entry| property(entry)).collect()
}

/// The same of a file that also specifies nodes: those are left out.
///
/// # Errors
///
/// What is neither.
pub fn parse_beside_nodes(text: &str) -> Result<Vec<(String, Value)>, String> {
    let is_node = |entry: &&String| entry.split('=').next().is_some_and(|first| first.trim() == "name");
    entries(text)?.iter().filter(|entry| !is_node(entry)).map(|entry| property(entry)).collect()
}

/// What stands before each semicolon.
fn entries(text: &str) -> Result<Vec<String>, String> {
    let plain: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let plain = plain.join("\n");
    let mut entries: Vec<String> = plain.split(';').map(|entry| entry.trim().to_owned()).collect();
    match entries.pop().filter(|rest| !rest.is_empty()) {
        Some(rest) => Err(format!("`{rest}` does not end with a semicolon")),
        None => Ok(entries),
    }
}

fn property(entry: &str) -> Result<(String, Value), String> {
    let (name, value) = match entry.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (entry, None),
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "_-#".contains(c);
    if name.is_empty() || name == "name" || !name.chars().all(known) {
        return Err(format!("`{entry}` is no global property"));
    }
    let value = read(value).ok_or_else(|| format!("`{entry}`: neither an integer nor a string"))?;
    Ok((name.to_owned(), value))
}

fn read(value: Option<&str>) -> Option<Value> {
    let Some(text) = value else { return Some(Value::Boolean) };
    if text.starts_with('"') {
        let string = |text: &str| Some(text.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned());
        let mut strings: Vec<String> = text.split(',').map(string).collect::<Option<_>>()?;
        return Some(if strings.len() == 1 {
            Value::String(strings.remove(0))
        } else {
            Value::Strings(strings)
        });
    }
    let number = match text.strip_prefix("0x") {
        Some(hex) => i32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number.map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_strings_and_switches_are_read() {
        let text = "# what it is\nrx=1;\n  mask = 0x10; # why\nmode=\"ud\";\nfast;\n";
        let expected = [
            ("rx".to_owned(), Value::from(1)),
            ("mask".to_owned(), Value::from(16)),
            ("mode".to_owned(), Value::from("ud")),
            ("fast".to_owned(), Value::Boolean),
        ];
        assert_eq!(parse(text), Ok(expected.to_vec()));
        assert_eq!(parse("# nothing\n"), Ok(Vec::new()));
        let list = Value::Strings(vec!["nfs".to_owned(), "ibd".to_owned()]);
        let text = "name=\"ib\" class=\"root\";\nlist=\"nfs\", \"ibd\";";
        assert_eq!(parse_beside_nodes(text), Ok(vec![("list".to_owned(), list)]));
    }

    #[test]
    fn what_is_no_property_is_named() {
        for (text, said) in [
            ("rx=1", "semicolon"),
            ("rx=one;", "neither"),
            ("name=\"ibd\";", "no global property"),
            ("=1;", "no global property"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }
}
