//! The pieces of a makefile's line.

/// `NAME = value` or `NAME += value`; not `target := NAME = value`, not `NAME:sh = command`.
pub(super) fn assignment(line: &str) -> Option<(&str, bool, &str)> {
    let (left, value) = split_at_top_level(line, '=')?;
    let (name, append) = match left.strip_suffix('+') {
        Some(name) => (name, true),
        None => (left, false),
    };
    let name = name.trim();
    let plain = !name.is_empty() && !name.ends_with(':') && split_words(name).len() == 1;
    (plain && split_at_top_level(name, ':').is_none()).then_some((name, append, value))
}

/// Splits at the first `separator` outside parentheses.
pub(super) fn split_at_top_level(text: &str, separator: char) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if c == separator && depth == 0 => return Some((&text[..at], &text[at + c.len_utf8()..])),
            _ => {}
        }
    }
    None
}

/// Blank-separated words; a reference with blanks in it is one.
pub(super) fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if c.is_whitespace() && depth == 0 {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Where the parenthesis that is open at the start closes.
pub(super) fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `a%b=c%d`, or a suffix for a suffix.
pub(super) fn substituted(word: &str, from: &str, to: &str) -> String {
    let Some((prefix, suffix)) = from.split_once('%') else {
        return word.strip_suffix(from).map_or_else(|| word.to_string(), |stem| format!("{stem}{to}"));
    };
    match word.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) {
        Some(stem) => to.replace('%', stem),
        None => word.to_string(),
    }
}

/// Whether `target` is `word`, which may be a pattern.
pub(super) fn matches(word: &str, target: &str) -> bool {
    match word.split_once('%') {
        Some((prefix, suffix)) => target
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= suffix.len() && rest.ends_with(suffix)),
        None => word == target,
    }
}
