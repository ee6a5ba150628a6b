//! Names of places in the kernel, as a person reads them.

use rustc_demangle::demangle;

/// `module:function+offset` with the function's name as it stands in the source.
pub fn readable(frame: &str) -> String {
    let Some((module, place)) = frame.split_once(':') else { return frame.to_owned() };
    let (function, offset) = place.rsplit_once('+').unwrap_or((place, "0"));
    format!("{module}:{:#}+{offset}", demangle(function))
}

/// A line with the names of the source in place of the mangled ones.
pub fn demangled(line: &str) -> String {
    let word = |word: &str| {
        let (module, function) = word.split_at(word.find('`').map_or(0, |at| at + 1));
        if function.starts_with("_R") { format!("{module}{:#}", demangle(function)) } else { word.to_owned() }
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_functions_have_the_names_of_the_source_and_others_their_own() {
        assert_eq!(readable("ibp:_RNvNtCs1_3ibd4ring5close+1c"), "ibp:ibd::ring::close+1c");
        assert_eq!(readable("mac:mac_close+41"), "mac:mac_close+41");
        assert_eq!(readable("nonsense"), "nonsense");
    }

    #[test]
    fn a_line_of_gdb_is_read_with_the_names_of_the_source() {
        let line = "#1  0xfffffffff7 in _RNvNtCs1_3ibd4ring5close ()";
        assert_eq!(demangled(line), "#1  0xfffffffff7 in ibd::ring::close ()");
        assert_eq!(
            demangled("kmem_alloc < ibp`_RNvNtCs1_3ibd4ring5close"),
            "kmem_alloc < ibp`ibd::ring::close"
        );
    }
}
