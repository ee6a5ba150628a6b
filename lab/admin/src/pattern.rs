//! The patterns of `kstat(8)`: those of the shell (`gmatch(3GEN)`), and extended regular expressions between slashes.

use std::iter::Peekable;
use std::str::Bytes;

use regex::bytes::{Regex, RegexBuilder};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(
    /// None for one of the shell's that nothing is like, as a bracket that does not end.
    Option<Regex>,
);

impl Pattern {
    /// # Errors
    ///
    /// What is wrong with a regular expression, in a line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let regular = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let Some(expression) = regular.map_or_else(|| of_shell(text), |regular| Some(regular.to_owned()))
        else {
            return Ok(Self(None));
        };
        let built = RegexBuilder::new(&expression).unicode(false).dot_matches_new_line(true).build();
        built.map(|regex| Self(Some(regex))).map_err(|error| {
            let words = error.to_string();
            words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })
    }

    pub(crate) fn is_like(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text.as_bytes()))
    }
}

/// The regular expression that says the same.
fn of_shell(pattern: &str) -> Option<String> {
    let mut bytes = pattern.bytes().peekable();
    let mut expression = "^".to_owned();
    while let Some(byte) = bytes.next() {
        expression += &match byte {
            b'*' => ".*".to_owned(),
            b'?' => ".".to_owned(),
            b'[' => bracket(&mut bytes)?,
            b'\\' => literal(bytes.next()?),
            byte => literal(byte),
        };
    }
    Some(expression + "$")
}

/// Bytes and ranges of them up to the bracket's end, which cannot be the first of them; all others behind a `!`.
fn bracket(bytes: &mut Peekable<Bytes<'_>>) -> Option<String> {
    let mut class = if bytes.next_if_eq(&b'!').is_some() { "[^" } else { "[" }.to_owned();
    let mut last = None;
    let mut byte = bytes.next()?;
    loop {
        let first = last.filter(|_| byte == b'-' && bytes.peek() != Some(&b']'));
        if first.is_some() {
            byte = bytes.next()?;
        }
        if byte == b'\\' {
            byte = bytes.next()?;
        }
        // The end of a range that has no bytes is in the class all the same.
        class += &match first {
            Some(first) if first < byte => format!("{}-{}", literal(first), literal(byte)),
            Some(_) | None => literal(byte),
        };
        last = Some(byte);
        byte = bytes.next()?;
        if byte == b']' {
            return Some(class + "]");
        }
    }
}

fn literal(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn like(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).expect("a pattern").is_like(text)
    }

    #[test]
    fn a_pattern_of_many_stars_is_answered_at_once() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("ibp", "ibp"),
            ("i*p?000", "ibp1000"),
            ("*.ibp0", "p8001.ibp0.ibp0"),
            ("link_*a*", "link_state"),
            ("**?**", "x"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "x"), ("?", ""), ("ibp", "ibp0"), ("*0", "ibp1"), ("i?p*1", "ibbp1"), ("p.ibp0", "px.ibp0")]
        {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
        assert!(!like(&("*a".repeat(60) + "b"), &"a".repeat(120)));
    }

    #[test]
    fn brackets_name_bytes_and_ranges_and_may_exclude_them() {
        for (pattern, text) in [
            ("[p]FFFF*", "pFFFF.ibp0"),
            ("ibp[0-3]", "ibp2"),
            ("ibp[!0-3x]", "ibp4"),
            ("[]x]", "]"),
            ("[x-]", "-"),
            ("[-x]", "-"),
            ("[a\\-c]", "-"),
            ("\\*", "*"),
            ("[a-c-e]", "d"),
            ("[z-a]", "a"),
            ("[^a]", "^"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("[p]", "x"),
            ("ibp[!0-3]", "ibp2"),
            ("[a\\-c]", "b"),
            ("[z-a]", "m"),
            ("[ab", "a"),
            ("[", "["),
            ("\\", "\\"),
            ("\\*", "x"),
        ] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn between_slashes_stands_a_regular_expression() {
        for (pattern, text) in
            [("/^pFFFF/", "pFFFF.ibp0"), ("/ib(p|d)[0-9]+$/", "ibd10"), ("//", "x"), ("/tx|rx/", "rx_drop")]
        {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        assert!(!like("/^FFFF/", "pFFFF.ibp0"));
        assert!(like("/", "/"), "one slash is itself");
        assert_eq!(Pattern::parse("/(/").expect_err("it has no end"), "unclosed group");
    }
}
