//! Names of places in the kernel, as a person reads them.

use rustc_demangle::demangle;

/// `module:function+offset` with the function's name as it stands in the source.
pub fn readable(frame: &str) -> String {
    let Some((module, place)) = frame.split_once(':') else { return frame.to_owned() };
    let (function, offset) = place.rsplit_once('+').unwrap_or((place, "0"));
    format!("{module}:{:#}+{offset}", demangle(function))
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
}
