//! How a target is made: the rule that names it, or else the first pattern that fits and whose source is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Makefile;

/// A makefile's rules with their names expanded, once for all that is asked.
#[derive(Debug)]
pub struct Rules<'a> {
    named: BTreeMap<String, (String, &'a [String])>,
    patterns: Vec<Pattern<'a>>,
}

#[derive(Debug)]
struct Pattern<'a> {
    prefix: String,
    suffix: String,
    source: String,
    recipe: &'a [String],
}

/// How one target is made.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// The first prerequisite.
    pub source: PathBuf,
    /// The commands, as written.
    pub lines: &'a [String],
}

impl<'a> Rules<'a> {
    pub(super) fn new(makefile: &'a Makefile) -> Result<Rules<'a>> {
        let mut rules = Rules { named: BTreeMap::new(), patterns: Vec::new() };
        for rule in &makefile.rules {
            let source = makefile.expand(&rule.source)?;
            for target in &rule.targets {
                let target = makefile.expand(target)?;
                if let Some((prefix, suffix)) = target.split_once('%').filter(|_| source.contains('%')) {
                    let (prefix, suffix, source) = (prefix.into(), suffix.into(), source.clone());
                    rules.patterns.push(Pattern { prefix, suffix, source, recipe: &rule.recipe });
                } else if !rule.recipe.is_empty() && !source.is_empty() {
                    for name in target.split_whitespace() {
                        rules.named.entry(name.into()).or_insert((source.clone(), &rule.recipe));
                    }
                }
            }
        }
        Ok(rules)
    }

    /// How `target` is made. Sources are relative to `dir`; `there` says whether a file is.
    pub fn recipe(&self, target: &str, dir: &Path, there: &dyn Fn(&Path) -> bool) -> Option<Recipe<'a>> {
        let named = self.named.get(target).map(|(source, lines)| Recipe { source: dir.join(source), lines });
        named.filter(|recipe| there(&recipe.source)).or_else(|| self.by_pattern(target, dir, there))
    }

    /// As [`Self::recipe`], by a rule with `%` alone.
    pub fn by_pattern(&self, target: &str, dir: &Path, there: &dyn Fn(&Path) -> bool) -> Option<Recipe<'a>> {
        self.patterns.iter().find_map(|pattern| {
            let stem = target.strip_prefix(pattern.prefix.as_str())?.strip_suffix(pattern.suffix.as_str())?;
            let source = dir.join(pattern.source.replace('%', stem));
            there(&source).then_some(Recipe { source, lines: pattern.recipe })
        })
    }
}
