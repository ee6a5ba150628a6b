//! As much of dmake's language as it takes to know what a module's makefile names and how its objects are compiled: macros,
//! appending, macros of a target (`target := NAME = value`), substitution references, includes, rules with their recipes.
//! Macros from commands (`:sh`) are left out, because nothing that is asked here depends on them.

mod rules;
mod scope;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::inside;
pub use rules::{Recipe, Rules};
pub use scope::Scope;
use text::{assignment, split_at_top_level, split_words};

/// How deep macros may refer to each other, and files include each other, before it is a circle.
const MAX_DEPTH: usize = 64;

/// How many files a makefile may include, one another among them. A module's includes a dozen.
const MAX_FILES: usize = 1024;

/// A makefile and all that it includes.
#[derive(Debug, Default)]
pub struct Makefile {
    macros: BTreeMap<String, String>,
    fixed: BTreeSet<String>,
    rules: Vec<Rule>,
    conditionals: Vec<Conditional>,
    files: usize,
}

/// Targets, their first prerequisite, and the recipe's lines, all as written.
#[derive(Debug)]
struct Rule {
    targets: Vec<String>,
    source: String,
    recipe: Vec<String>,
}

/// `targets := NAME = value`: the macro has another value while these are made.
#[derive(Debug)]
struct Conditional {
    targets: String,
    name: String,
    append: bool,
    value: String,
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
        self.files += 1;
        if self.files > MAX_FILES {
            bail!("{}: more than {MAX_FILES} files are included", path.display());
        }
        let bytes = inside::read(path).with_context(|| format!("{} is included", path.display()))?;
        let text = String::from_utf8_lossy(&bytes).replace("\\\n", " ");
        let mut in_rule = false;
        for line in text.lines() {
            if let Some(command) = line.strip_prefix('\t').filter(|_| in_rule) {
                if let Some(rule) = self.rules.last_mut() {
                    rule.recipe.push(command.trim().to_string());
                }
                continue;
            }
            let line = self.uncommented(line);
            // A comment or an empty line between a rule and its recipe ends nothing.
            in_rule &= line.trim().is_empty();
            if let Some(file) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
                let file = dir.join(self.expand(file.trim())?);
                self.include(&file, dir, depth + 1).with_context(|| format!("from {}", path.display()))?;
            } else {
                in_rule |= self.statement(&line)?;
            }
        }
        Ok(())
    }

    /// Takes in a line that is no include; true if it begins a rule.
    fn statement(&mut self, line: &str) -> Result<bool> {
        if let Some((name, append, value)) = assignment(line) {
            let name = self.expand(name)?;
            self.assign(name.trim(), append, value.trim());
            return Ok(false);
        }
        let Some((targets, rest)) = split_at_top_level(line, ':') else { return Ok(false) };
        let Some(conditional) = rest.strip_prefix('=') else {
            let first = split_words(rest).into_iter().next().unwrap_or_default();
            self.rules.push(Rule { targets: split_words(targets), source: first, recipe: Vec::new() });
            return Ok(true);
        };
        if let Some((name, append, value)) = assignment(conditional) {
            let (name, value) = (name.trim().to_string(), value.trim().to_string());
            self.conditionals.push(Conditional { targets: targets.into(), name, append, value });
        }
        Ok(false)
    }

    /// Macros in front of a line may stand for `#`: that is how gates write conditions.
    fn uncommented(&self, line: &str) -> String {
        let (mut front, mut rest) = (String::new(), line);
        while let Some((name, after)) = rest.strip_prefix("$(").and_then(|rest| rest.split_once(')')) {
            if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || name.contains(['$', ':']) {
                break;
            }
            front += &self
                .macros
                .get(name)
                .map(|value| self.expand(value).unwrap_or_default())
                .unwrap_or_default();
            rest = after;
        }
        let line = front + rest;
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

    /// What macros are worth while `target` is made.
    ///
    /// # Errors
    ///
    /// Macros refer to each other in a circle.
    pub fn at(&self, target: &str) -> Result<Scope<'_>> {
        let mut scope = Scope::new(&self.macros);
        for Conditional { targets, name, append, value } in &self.conditionals {
            let targets = self.expand(targets)?;
            if self.fixed.contains(name)
                || !targets.split_whitespace().any(|word| text::matches(word, target))
            {
                continue;
            }
            scope.assign(name, *append, value);
        }
        Ok(scope)
    }

    /// The rules, ready to be asked how a target is made.
    ///
    /// # Errors
    ///
    /// Macros refer to each other in a circle.
    pub fn rules(&self) -> Result<Rules<'_>> {
        Rules::new(self)
    }

    /// The value of a macro, with all it refers to.
    ///
    /// # Errors
    ///
    /// It is not defined, or macros refer to each other in a circle.
    pub fn value(&self, name: &str) -> Result<String> {
        Scope::new(&self.macros).value(name)
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
        Scope::new(&self.macros).expand(text)
    }

    /// The file from which the first pattern rule that fits makes `target`.
    ///
    /// # Errors
    ///
    /// No rule fits whose source is there; paths are relative to `dir`.
    pub fn source_of(&self, target: &str, dir: &Path) -> Result<PathBuf> {
        match self.rules()?.by_pattern(target, dir, &Path::is_file) {
            Some(recipe) => Ok(recipe.source),
            None => bail!("no rule makes {target} from a file that is there"),
        }
    }

    /// Whether a rule names `target` itself.
    pub fn makes(&self, target: &str) -> bool {
        let names = self.rules.iter().flat_map(|rule| &rule.targets);
        names.into_iter().any(|name| self.expand(name).is_ok_and(|name| name == target))
    }
}
