//! Names of functions that DTrace can hold.
//!
//! A probe has room for 127 letters of its function's name (`DTRACE_FUNCNAMELEN`, with the NUL) and cuts what is longer: such
//! functions look alike, and none can be enabled by name. Mangled names of generic functions are longer at times. Those get
//! the function's path as the source has it, without generic arguments and with dots, and a number: `kernel.vec.KVec.try_from_fn.3`.

use std::collections::BTreeMap;

use object::elf::{SHN_UNDEF, STT_FUNC};

use crate::elf::Elf;

/// The longest name of a function, in bytes.
pub const LONGEST: usize = 127;

/// So much of a path is kept, so that a number fits behind it.
const PATH: usize = 120;

/// Old and new names of the functions that have too long a one.
pub(crate) fn shorter(elf: &Elf) -> Vec<(String, String)> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let long = elf.symbols.iter().filter(|symbol| {
        symbol.kind == STT_FUNC.0 && symbol.section != SHN_UNDEF.0 && symbol.name.len() > LONGEST
    });
    long.map(|symbol| {
        let path = plain(&format!("{:#}", rustc_demangle::demangle(&symbol.name)));
        let number = numbers.entry(path.clone()).or_insert(0);
        *number += 1;
        (symbol.name.clone(), format!("{path}.{number}"))
    })
    .collect()
}

/// A demangled path without generic arguments, in letters, digits, underscores and dots. Of a method the type stands in front
/// of it, of a trait's the trait, too.
fn plain(path: &str) -> String {
    let mut name = String::new();
    let mut depth = 0_usize;
    // What is in the first pair of brackets, if it begins the path, is the type.
    let mut in_type = path.starts_with('<');
    let mut letters = path.replace("->", "").replace(" as ", "::");
    letters = letters.replace("::", ".");
    for letter in letters.chars() {
        match letter {
            '<' => depth += 1,
            '>' => {
                depth = depth.saturating_sub(1);
                in_type &= depth > 0;
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' if depth <= usize::from(in_type) => name.push(letter),
            '.' if depth <= usize::from(in_type) && !name.is_empty() && !name.ends_with('.') => {
                name.push('.');
            }
            _ => {}
        }
    }
    name.truncate(PATH);
    name.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_path_is_left_without_its_generic_arguments() {
        for (demangled, name) in [
            (
                "<kernel::vec::KVec<kernel::arc::KArc<u8>>>::try_from_fn::<Error, {closure#0}>",
                "kernel.vec.KVec.try_from_fn",
            ),
            ("core::ptr::drop_in_place::<kernel::vec::KVec<u8>>", "core.ptr.drop_in_place"),
            ("<ibd::link::Provider as gldv3::Provider>::start", "ibd.link.Provider.gldv3.Provider.start"),
            ("<ibd::link::Built>::new::<fn() -> u8>::{closure#1}", "ibd.link.Built.new.closure1"),
        ] {
            assert_eq!(plain(demangled), name);
        }
        assert_eq!(plain(&"long".repeat(100)).len(), super::PATH);
    }
}
