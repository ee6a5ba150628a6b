//! As much of dmake's language as it takes to know what a module's makefile names: macros, appending, substitution
//! references, includes, rules by name. Conditional macros (`target := NAME = value`) and macros from commands (`:sh`) are
//! left out, because nothing that is asked here depends on them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How deep macros may refer to each other before it is a circle.
const MAX_DEPTH: usize = 64;

/// A makefile and all that it includes.
#[derive(Debug, Default)]
pub struct Makefile {
    macros: BTreeMap<String, String>,
    fixed: BTreeSet<String>,
    /// Targets with their first prerequisites, as written, in order.
    rules: Vec<(String, String)>,
}

impl Makefile {
    /// Reads `path` with the macros `given`, which no assignment changes.
    ///
    /// # Errors
    ///
    /// A file is missing (the error says which include), or includes go in a circle.
    pub fn read(path: &Path, given: &[(&str, &str)]) -> Result<Makefile> {
        let mut makefile = Makefile::default();
        for (name, value) in given {
            makefile.macros.insert((*name).into(), (*value).into());
            makefile.fixed.insert((*name).into());
        }
        let dir = path.parent().context("a makefile has a directory")?;
        makefile.include(path, dir, 0)?;
        Ok(makefile)
    }

    fn include(&mut self, path: &Path, dir: &Path, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            bail!("{}: includes go in a circle", path.display());
        }
        let bytes = fs::read(path).with_context(|| format!("{} is included", path.display()))?;
        let text = String::from_utf8_lossy(&bytes).replace("\\\n", " ");
        for line in text.lines().filter(|line| !line.starts_with('\t')) {
            let line = self.uncommented(line);
            if let Some(file) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
                let file = dir.join(self.expand(file.trim())?);
                self.include(&file, dir, depth + 1).with_context(|| format!("from {}", path.display()))?;
            } else if let Some((name, append, value)) = assignment(&line) {
                let name = self.expand(name)?;
                self.assign(name.trim(), append, value.trim());
            } else if let Some((targets, rest)) =
                line.split_once(':').filter(|(_, rest)| !rest.starts_with('='))
            {
                let first = rest.split_whitespace().next().unwrap_or_default();
                let targets = split_words(targets);
                self.rules.extend(targets.into_iter().map(|target| (target, first.to_string())));
            }
        }
        Ok(())
    }

    /// A macro in front of a line may stand for `#`: that is how gates write conditions.
    fn uncommented(&self, line: &str) -> String {
        let line = match line.strip_prefix("$(").and_then(|rest| rest.split_once(')')) {
            Some((name, rest)) if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                match self.macros.get(name).map(|value| self.expand(value).unwrap_or_default()) {
                    Some(value) => format!("{value}{rest}"),
                    None => rest.to_string(),
                }
            }
            _ => line.to_string(),
        };
        line.split('#').next().unwrap_or_default().to_string()
    }

    fn assign(&mut self, name: &str, append: bool, value: &str) {
        if self.fixed.contains(name) || name.is_empty() {
            return;
        }
        let slot = self.macros.entry(name.to_string()).or_default();
        match append && !slot.is_empty() {
            true => slot.extend([" ", value]),
            false => *slot = value.to_string(),
        }
    }

    /// The value of a macro, with all it refers to.
    ///
    /// # Errors
    ///
    /// It is not defined, or macros refer to each other in a circle.
    pub fn value(&self, name: &str) -> Result<String> {
        if !self.macros.contains_key(name) {
            bail!("$({name}) is not defined");
        }
        self.expand(&format!("$({name})"))
    }

    /// The words of a macro's value.
    ///
    /// # Errors
    ///
    /// As [`Self::value`].
    pub fn words(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.value(name)?.split_whitespace().map(String::from).collect())
    }

    /// Whether a macro is assigned to anywhere.
    pub fn defines(&self, name: &str) -> bool {
        self.macros.contains_key(name)
    }

    /// `text` with every `$(NAME)` and `$(NAME:a=b)` replaced; a macro that is not defined is empty, as in make.
    ///
    /// # Errors
    ///
    /// Macros refer to each other in a circle, or a parenthesis is missing.
    pub fn expand(&self, text: &str) -> Result<String> {
        self.expand_at(text, 0)
    }

    fn expand_at(&self, text: &str, depth: usize) -> Result<String> {
        if depth > MAX_DEPTH {
            bail!("macros refer to each other in a circle: {text}");
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(inside) = rest.strip_prefix('(') {
                let end = closing(inside).with_context(|| format!("a `)` is missing: {text}"))?;
                out.push_str(&self.reference(&inside[..end], depth)?);
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
    fn reference(&self, inside: &str, depth: usize) -> Result<String> {
        let (name, substitution) = match top_level_colon(inside) {
            Some(at) => (&inside[..at], Some(&inside[at + 1..])),
            None => (inside, None),
        };
        let name = self.expand_at(name, depth + 1)?;
        let value = self.macros.get(name.trim()).map(String::as_str).unwrap_or_default();
        let value = self.expand_at(value, depth + 1)?;
        let Some((from, to)) = substitution.and_then(|s| s.split_once('=')) else { return Ok(value) };
        let (from, to) = (self.expand_at(from, depth + 1)?, self.expand_at(to, depth + 1)?);
        let words: Vec<String> = value.split_whitespace().map(|word| substituted(word, &from, &to)).collect();
        Ok(words.join(" "))
    }

    /// The file from which the first pattern rule that fits makes `target`.
    ///
    /// # Errors
    ///
    /// No rule fits whose source is there; paths are relative to `dir`.
    pub fn source_of(&self, target: &str, dir: &Path) -> Result<PathBuf> {
        for (pattern, source) in &self.rules {
            let Some((prefix, suffix)) = pattern.split_once('%') else { continue };
            let (prefix, suffix) = (self.expand(prefix)?, self.expand(suffix)?);
            let stem =
                target.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_suffix(suffix.as_str()));
            let Some(stem) = stem.filter(|_| source.contains('%')) else { continue };
            let source = dir.join(self.expand(&source.replace('%', stem))?);
            if source.is_file() {
                return Ok(source);
            }
        }
        bail!("no rule makes {target} from a file that is there")
    }

    /// Whether a rule names `target` itself.
    pub fn makes(&self, target: &str) -> bool {
        self.rules.iter().any(|(name, _)| self.expand(name).is_ok_and(|name| name == target))
    }
}

/// `NAME = value` or `NAME += value`; not `target := NAME = value`, not `NAME:sh = command`.
fn assignment(line: &str) -> Option<(&str, bool, &str)> {
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
fn split_at_top_level(text: &str, separator: char) -> Option<(&str, &str)> {
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
fn split_words(text: &str) -> Vec<String> {
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
fn closing(text: &str) -> Option<usize> {
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

fn top_level_colon(text: &str) -> Option<usize> {
    split_at_top_level(text, ':').map(|(name, _)| name.len())
}

/// `a%b=c%d`, or a suffix for a suffix.
fn substituted(word: &str, from: &str, to: &str) -> String {
    let Some((prefix, suffix)) = from.split_once('%') else {
        return word.strip_suffix(from).map_or_else(|| word.to_string(), |stem| format!("{stem}{to}"));
    };
    match word.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) {
        Some(stem) => to.replace('%', stem),
        None => word.to_string(),
    }
}
