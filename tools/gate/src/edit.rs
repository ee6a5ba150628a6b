//! Fragments: lines of ours in a file of the gate, between two markers, at an anchor.
//!
//! A fragment file begins with `#@ after TEXT` or `#@ before TEXT`: the one line of the gate's file that begins with TEXT
//! (a run of blanks counts as one). The rest is what goes there.

use anyhow::{Context, Result, bail};

const BEGIN: &str = "# BEGIN ipoib (make install-gate put this here; make uninstall-gate takes it out)";
const END: &str = "# END ipoib";

/// A fragment.
#[derive(Debug)]
pub struct Fragment<'a> {
    before: bool,
    anchor: &'a str,
    body: &'a str,
}

impl<'a> Fragment<'a> {
    /// Reads a fragment file.
    ///
    /// # Errors
    ///
    /// It does not begin with its anchor.
    pub fn parse(text: &'a str) -> Result<Fragment<'a>> {
        let (first, body) = text.split_once('\n').context("a fragment without a body")?;
        let place = first
            .strip_prefix("#@ ")
            .context("a fragment begins with `#@ after TEXT` or `#@ before TEXT`")?;
        match place.split_once(' ') {
            Some(("after", anchor)) => Ok(Fragment { before: false, anchor, body }),
            Some(("before", anchor)) => Ok(Fragment { before: true, anchor, body }),
            _ => bail!("`{place}` is neither `after TEXT` nor `before TEXT`"),
        }
    }

    /// The file with the fragment in it.
    ///
    /// # Errors
    ///
    /// The anchor is not there exactly once, or the file has a marker or a line of the fragment already.
    pub fn insert(&self, text: &str) -> Result<String> {
        if text.contains(BEGIN) || text.contains(END) {
            bail!("has lines of ours that no record tells of; take them out first");
        }
        for definition in self.body.lines().filter_map(|line| line.split_once("+=")) {
            let (name, values) = (definition.0.trim(), definition.1.trim());
            if let Some(line) = text.lines().find(|line| defines(line, name, values)) {
                bail!("has `{}` already, which is what we would add", line.trim());
            }
        }
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let at: Vec<usize> =
            (0..lines.len()).filter(|at| squeezed(lines[*at]).starts_with(&squeezed(self.anchor))).collect();
        let [at] = at[..] else {
            bail!("has {} lines that begin with `{}`, and one is needed", at.len(), self.anchor);
        };
        let at = if self.before { at } else { end_of_statement(&lines, at) };
        let (head, tail) = (lines[..at].concat(), lines[at..].concat());
        let blank = if self.before { "\n" } else { "" };
        Ok(format!("{head}{BEGIN}\n{}{END}\n{blank}{tail}", self.body))
    }

    /// The file without the fragment.
    ///
    /// # Errors
    ///
    /// It is not there as [`Self::insert`] put it.
    pub fn remove(&self, text: &str) -> Result<String> {
        let blank = if self.before { "\n" } else { "" };
        let block = format!("{BEGIN}\n{}{END}\n{blank}", self.body);
        match text.matches(&block).count() {
            1 => Ok(text.replacen(&block, "", 1)),
            _ => bail!("the lines between `{BEGIN}` and `{END}` are not what was put there"),
        }
    }
}

/// Whether `line` gives the macro `name` a value that has all the words of `values`.
fn defines(line: &str, name: &str, values: &str) -> bool {
    line.split_once('=').is_some_and(|(left, right)| {
        left.trim_end_matches('+').trim() == name
            && values.split_whitespace().all(|value| right.split_whitespace().any(|word| word == value))
    })
}

/// The number of the line after the statement that begins at line `at`: a backslash continues it, a tab too.
fn end_of_statement(lines: &[&str], mut at: usize) -> usize {
    while lines[at].trim_end().ends_with('\\') && at + 1 < lines.len() {
        at += 1;
    }
    at + 1
}

/// Every run of blanks as one.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
