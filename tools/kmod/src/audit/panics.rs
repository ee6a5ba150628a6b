//! Which code can still end in a Rust panic, which is a kernel panic: what the list allows, and no other.
//!
//! The compiler leaves a check wherever it cannot see that an index lies inside, or that a divisor is not zero. A reader has to see it
//! instead, so the list says where to read: the type of a method, or the module of a function. A function itself would not do, as the
//! compiler inlines one into another. The list can only become shorter: an entry that is not needed any more is a finding, too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::elf::STT_FUNC;

use super::{Finding, Rule};
use crate::elf::{Elf, Symbol};

/// Beginnings of the names of functions that do nothing but panic.
const PANICKING: [&str; 4] =
    ["core::panicking::", "core::slice::index::", "core::option::", "core::result::"];

/// Octets of the field of a call.
const FIELD: u64 = 4;

/// The list: a line for each place in each module, `MODULE PLACE`.
pub const LIST: &str = "tools/kmod/panics.txt";

/// Where modules may panic.
#[derive(Clone, Debug, Default)]
pub struct Allowed(BTreeSet<(String, String)>);

impl Allowed {
    /// Reads the list in the workspace at `root`.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(LIST);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(' '));
        Self(pairs.map(|(module, place)| (module.to_owned(), place.to_owned())).collect())
    }

    /// What is found in a module and not allowed, and what is allowed and not found.
    pub fn compare(&self, module: &str, found: &BTreeSet<String>) -> Vec<Finding> {
        let allowed: BTreeSet<&String> =
            self.0.iter().filter(|(of, _)| of == module).map(|(_, place)| place).collect();
        let new = found.iter().filter(|place| !allowed.contains(place));
        let new = new.map(|place| format!("{place} can panic, and {LIST} does not say so"));
        let gone = allowed.iter().filter(|place| !found.contains(**place));
        let gone = gone.map(|place| format!("{place} cannot panic any more: take it out of {LIST}"));
        new.chain(gone).map(|what| Finding::new(Rule::Panics, what)).collect()
    }
}

/// Where an object has functions that refer to one that panics.
///
/// # Errors
///
/// It is no object.
pub fn found(image: &[u8]) -> Result<BTreeSet<String>> {
    let elf = Elf::parse(image)?;
    let functions: Vec<&Symbol> = elf.symbols.iter().filter(|symbol| symbol.kind == STT_FUNC.0).collect();
    let at = |section: usize, offset: u64| {
        let is_here = |symbol: &&&Symbol| {
            usize::from(symbol.section) == section
                && (symbol.value..symbol.value + symbol.size).contains(&offset)
        };
        functions.iter().find(is_here).map(|function| super::readable(&function.name))
    };
    let panics = |name: &String| PANICKING.iter().any(|part| name.starts_with(part));
    let mut found = BTreeSet::new();
    for relocation in &elf.relocations {
        let Some(symbol) = elf.symbols.get(relocation.symbol) else { continue };
        // A call's field is relative to its end; a reference to a section counts from the beginning of that.
        let target = symbol.value.wrapping_add_signed(relocation.addend).wrapping_add(FIELD);
        let is_panic = at(usize::from(symbol.section), target).filter(panics).is_some();
        let here = at(relocation.section, relocation.offset).unwrap_or_else(|| "code of no function".into());
        if is_panic && !panics(&here) {
            found.insert(place(&here));
        }
    }
    Ok(found)
}

/// The type or module that a function is of, without type arguments. The name may be a short one ([`crate::names`]).
fn place(name: &str) -> String {
    let bare = without_arguments(name).replace('.', "::");
    let is_name = |part: &&str| part.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let parts: Vec<&str> = bare.split("::").filter(is_name).collect();
    match parts.split_last() {
        Some((_, [])) | None => name.to_owned(),
        Some((_, of)) => of.join("::"),
    }
}

fn without_arguments(name: &str) -> String {
    let (head, rest) = match name.strip_prefix('<') {
        Some(rest) => (rest.split(['<', '>', ' ']).next().unwrap_or_default(), rest),
        None => ("", name),
    };
    let mut depth = i32::from(!head.is_empty());
    let mut out = head.to_owned();
    for letter in rest.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_type_or_a_module() {
        for (name, expected) in [
            ("<ipoib::paths::Paths<P,H,S,T,G>>::submit", "ipoib::paths::Paths"),
            ("ipoib.paths.Paths.ask.1", "ipoib::paths::Paths"),
            ("ibd::ring::Ring<T>::push", "ibd::ring::Ring"),
            ("<a::B as c::D<E>>::f::{closure#2}", "a::B"),
            ("gldv3::ioctl::call::<ibd::Info>", "gldv3::ioctl"),
            ("kmod_attach", "kmod_attach"),
        ] {
            assert_eq!(place(name), expected, "{name}");
        }
    }

    #[test]
    fn a_place_that_is_new_and_one_that_is_gone_are_findings() {
        let allowed = Allowed::parse("# Why.\nibd a::b\nibd c::d\nibp e::f\n");
        let found = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(allowed.compare("ibd", &found(&["a::b", "c::d"])), []);
        let what = |names: &[&str]| -> Vec<String> {
            allowed.compare("ibd", &found(names)).into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(what(&["a::b", "c::d", "x::y"]), [format!("x::y can panic, and {LIST} does not say so")]);
        assert_eq!(what(&["a::b"]), [format!("c::d cannot panic any more: take it out of {LIST}")]);
    }
}
