//! `driver.conf(5)`: the global properties of a driver's configuration file.

use super::property::Value;

/// The properties that a configuration file gives all nodes of its driver: `NAME = VALUE;` with an integer, a string in quotes, or
/// no value at all, and comments from `#` to the end of the line.
///
/// # Errors
///
/// What is something else, node specifications (`name = ...`) among it.
pub fn parse(text: &str) -> Result<Vec<(String, Value)>, String> {
    let plain: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let plain = plain.join("\n");
    let mut properties = Vec::new();
    let mut entries: Vec<&str> = plain.split(';').map(str::trim).collect();
    if let Some(rest) = entries.pop().filter(|rest| !rest.is_empty()) {
        return Err(format!("`{rest}` does not end with a semicolon"));
    }
    for entry in entries {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (entry, None),
        };
        let known = |c: char| c.is_ascii_alphanumeric() || "_-#".contains(c);
        if name.is_empty() || name == "name" || !name.chars().all(known) {
            return Err(format!("`{entry}` is no global property"));
        }
        let value = read(value).ok_or_else(|| format!("`{entry}`: neither an integer nor a string"))?;
        properties.push((name.to_owned(), value));
    }
    Ok(properties)
}

fn read(value: Option<&str>) -> Option<Value> {
    let Some(text) = value else { return Some(Value::Boolean) };
    if let Some(string) = text.strip_prefix('"') {
        return string.strip_suffix('"').map(Value::from);
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
