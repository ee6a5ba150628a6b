//! What macros are worth: the makefile's own values, and those that hold for one target alone.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::MAX_DEPTH;
use super::text::{closing, split_at_top_level, substituted};

/// How many references to macros one expansion may come to; a gate's longest list has some thousands.
const MAX_REFERENCES: u32 = 1 << 18;

/// How long what one expansion comes to may be, in bytes.
const MAX_TEXT: usize = 16 << 20;

/// The macros of a makefile, some of them with other values.
#[derive(Debug)]
pub struct Scope<'a> {
    macros: &'a BTreeMap<String, String>,
    local: BTreeMap<String, String>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(macros: &'a BTreeMap<String, String>) -> Scope<'a> {
        Scope { macros, local: BTreeMap::new() }
    }

    /// Gives the macro `name` another value here, or appends to the one it has.
    pub fn assign(&mut self, name: &str, append: bool, value: &str) {
        let before = if append { self.raw(name) } else { None };
        let value = before.map_or_else(|| value.to_string(), |before| format!("{before} {value}"));
        self.local.insert(name.to_string(), value);
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.local.get(name).or_else(|| self.macros.get(name)).map(String::as_str)
    }

    /// The value of a macro, with all it refers to.
    ///
    /// # Errors
    ///
    /// It is not defined, or macros refer to each other in a circle.
    pub fn value(&self, name: &str) -> Result<String> {
        if self.raw(name).is_none() {
            bail!("$({name}) is not defined");
        }
        self.expand(&format!("$({name})"))
    }

    /// `text` with every `$(NAME)` and `$(NAME:a=b)` replaced; a macro that is not defined is empty, as in make.
    ///
    /// # Errors
    ///
    /// Macros refer to each other in a circle, or a parenthesis is missing.
    pub fn expand(&self, text: &str) -> Result<String> {
        self.expand_at(text, 0, &mut 0)
    }

    /// `references` are counted: macros that each name the next twice are few and come to more than a machine holds.
    fn expand_at(&self, text: &str, depth: usize, references: &mut u32) -> Result<String> {
        if depth > MAX_DEPTH {
            bail!("macros refer to each other in a circle: {}", beginning(text));
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            *references += 1;
            if *references > MAX_REFERENCES || out.len() > MAX_TEXT {
                bail!("macros refer to each other without an end that is near: {}", beginning(text));
            }
            if let Some(inside) = rest.strip_prefix('(') {
                let end = closing(inside).with_context(|| format!("a `)` is missing: {text}"))?;
                out.push_str(&self.reference(&inside[..end], depth, references)?);
                rest = &inside[end + 1..];
            } else {
                // `$@` and its like, and `$$`, belong to rules.
                let len = rest.chars().next().map_or(0, char::len_utf8);
                out.push('$');
                out.push_str(&rest[..len]);
                rest = &rest[len..];
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// What is between the parentheses: a name, or a name and a substitution.
    fn reference(&self, inside: &str, depth: usize, references: &mut u32) -> Result<String> {
        let (name, substitution) = match split_at_top_level(inside, ':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (inside, None),
        };
        let name = self.expand_at(name, depth + 1, references)?;
        let value = self.expand_at(self.raw(name.trim()).unwrap_or_default(), depth + 1, references)?;
        let Some((from, to)) = substitution.and_then(|s| s.split_once('=')) else { return Ok(value) };
        let (from, to) =
            (self.expand_at(from, depth + 1, references)?, self.expand_at(to, depth + 1, references)?);
        let words: Vec<String> = value.split_whitespace().map(|word| substituted(word, &from, &to)).collect();
        Ok(words.join(" "))
    }
}

/// So much of a text as a message has room for.
fn beginning(text: &str) -> String {
    text.chars().take(200).collect()
}
