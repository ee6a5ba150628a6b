//! Which files of a crate use which others, and the circles in that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;

use anyhow::{Context, Result};

use crate::source::{Path, Source};

/// The files of a crate, by their place below `src`, and which others each uses.
pub struct Graph {
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// How many names stand for names before it is given up.
const ALIASES: usize = 16;
/// Methods that types of other crates have too, so that a call says nothing.
const ELSEWHERE_TOO: [&str; 1] = ["resume"];

struct Crate {
    /// Which file a module is, those that are whole files.
    files: BTreeMap<Path, String>,
    sources: BTreeMap<String, Source>,
}

impl Graph {
    /// Reads every file below a crate's `src`.
    pub fn of(src: &std::path::Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(src, &[], &mut files)?;
        Self::of_files(files)
    }

    /// Of files given by their place below `src` and their text.
    pub fn of_texts(texts: &[(&str, &str)]) -> Result<Self> {
        let text =
            |(place, text): &(&str, &str)| (module_of(place), ((*place).to_owned(), (*text).to_owned()));
        Self::of_files(texts.iter().map(text).collect())
    }

    fn of_files(texts: BTreeMap<Path, (String, String)>) -> Result<Self> {
        let mut all = Crate { files: BTreeMap::new(), sources: BTreeMap::new() };
        for (module, (place, text)) in texts {
            let source = Source::read(&module, &text).with_context(|| place.clone())?;
            all.sources.insert(place.clone(), source);
            all.files.insert(module, place);
        }
        let added = all.added_methods();
        let uses =
            all.sources.iter().map(|(place, source)| (place.clone(), all.used_by(place, source, &added)));
        Ok(Self { uses: uses.collect() })
    }

    /// A shortest circle through files of more than one module, for each knot of files that has one; `module` says where a file
    /// belongs.
    pub fn circles(&self, module: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        let mut left: BTreeSet<&String> = self.uses.keys().collect();
        let mut circles = Vec::new();
        while let Some(file) = left.pop_first() {
            let onwards = self.reached_from(file);
            let knot: BTreeSet<&String> =
                onwards.into_iter().filter(|other| self.reached_from(other).contains(file)).collect();
            left.retain(|other| !knot.contains(other));
            let across = |from: &&String, to: &&String| module(from) != module(to);
            let steps = knot.iter().flat_map(|from| self.uses[*from].iter().map(move |to| (*from, to)));
            let crossing = steps.filter(|(from, to)| knot.contains(to) && across(from, to));
            let back =
                crossing.filter_map(|(from, to)| Some([vec![from.clone()], self.way(to, from)?].concat()));
            circles.extend(back.min_by_key(Vec::len));
        }
        circles
    }

    /// The files that use one another, directly or not: each group of more than one, the largest first.
    pub fn knots(&self) -> Vec<BTreeSet<String>> {
        let mut left: BTreeSet<&String> = self.uses.keys().collect();
        let mut knots = Vec::new();
        while let Some(file) = left.pop_first() {
            let knot: BTreeSet<&String> = self
                .reached_from(file)
                .into_iter()
                .filter(|other| self.reached_from(other).contains(file))
                .collect();
            left.retain(|other| !knot.contains(other));
            if knot.len() > 1 {
                knots.push(knot.into_iter().cloned().collect());
            }
        }
        knots.sort_by_key(|knot: &BTreeSet<String>| core::cmp::Reverse(knot.len()));
        knots
    }

    /// The files that `file` uses, others between or not.
    fn reached_from<'a>(&'a self, file: &'a String) -> BTreeSet<&'a String> {
        let mut found = BTreeSet::new();
        let mut next = vec![file];
        while let Some(file) = next.pop() {
            next.extend(self.uses[file].iter().filter(|other| found.insert(*other)));
        }
        found
    }

    /// A shortest way from one file to another, both included.
    fn way(&self, from: &String, to: &String) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from]);
        let mut ways = VecDeque::from([vec![from.clone()]]);
        while let Some(way) = ways.pop_front() {
            let last = way.last()?;
            if last == to {
                return Some(way);
            }
            for next in self.uses.get(last)?.iter().filter(|next| seen.insert(*next)) {
                ways.push_back([&way[..], std::slice::from_ref(next)].concat());
            }
        }
        None
    }
}

impl Crate {
    fn used_by(&self, place: &str, source: &Source, added: &BTreeMap<&str, &str>) -> BTreeSet<String> {
        let paths = source.paths.iter().chain(source.stars.iter().map(|(_, path)| path));
        let named = paths.filter_map(|path| self.file_of(path));
        let called = source.calls.iter().filter_map(|name| added.get(name.as_str()).copied());
        named.chain(called).filter(|other| *other != place).map(str::to_owned).collect()
    }

    /// The file that defines what a path names: the innermost module on its way, with names that stand for others followed. `None` when
    /// one of those is another crate's.
    fn file_of(&self, path: &[String]) -> Option<&str> {
        let mut path = path.to_vec();
        for _ in 0..ALIASES {
            let Some((module, alias, rest)) = self.alias_on(&path) else { break };
            if alias.starts_with(module)
                && !alias[module.len()..].first().is_some_and(|name| self.knows(module, name))
            {
                return None;
            }
            path = [alias, rest].concat();
        }
        (0..=path.len()).rev().find_map(|end| self.files.get(&path[..end])).map(String::as_str)
    }

    /// The first name on the way that stands for another path: its module, that path, and what comes behind the name.
    fn alias_on<'a>(&'a self, path: &'a [String]) -> Option<(&'a [String], &'a [String], &'a [String])> {
        (0..path.len()).find_map(|end| {
            let (module, rest) = path.split_at(end);
            let (name, rest) = rest.split_first()?;
            if self.files.contains_key(&path[..=end]) {
                return None;
            }
            let key = (module.to_vec(), name.clone());
            let alias = self.sources.values().find_map(|source| source.names.get(&key))?;
            (*alias != path[..=end]).then_some((module, &alias[..], rest))
        })
    }

    /// Whether a module has something of that name that is of this crate.
    fn knows(&self, module: &[String], name: &str) -> bool {
        let child = [module, &[name.to_owned()]].concat();
        let key = (module.to_vec(), name.to_owned());
        let mut sources = self.sources.values();
        self.files.contains_key(&child)
            || sources.any(|source| source.inside.contains(&child) || source.names.contains_key(&key))
    }

    /// Methods that a file adds to a type of another, when no function of the crate has the same name: whoever calls one uses
    /// that file.
    fn added_methods(&self) -> BTreeMap<&str, &str> {
        let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.sources.values().flat_map(|source| &source.functions) {
            *defined.entry(name).or_default() += 1;
        }
        let mut added = BTreeMap::new();
        for (place, source) in &self.sources {
            for methods in &source.methods {
                let of = self.file_of(&[&methods.module[..], std::slice::from_ref(&methods.of)].concat());
                if of.is_some_and(|of| of != place) {
                    let names = methods.names.iter().filter(|name| defined.get(name.as_str()) == Some(&1));
                    let names = names.filter(|name| !ELSEWHERE_TOO.contains(&name.as_str()));
                    added.extend(names.map(|name| (name.as_str(), place.as_str())));
                }
            }
        }
        added
    }
}

fn collect(
    directory: &std::path::Path,
    above: &[String],
    files: &mut BTreeMap<Path, (String, String)>,
) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = [above, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            collect(&path, &place, files)?;
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let place = place.join("/");
            files.insert(module_of(&place), (place, text));
        }
    }
    Ok(())
}

/// `a/b.rs` and `a/b/mod.rs` are both `a::b`; `lib.rs` and `main.rs` are the root.
fn module_of(place: &str) -> Path {
    let mut path: Path = place.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod") || matches!(place, "lib.rs" | "main.rs") {
        path.pop();
    }
    path
}
