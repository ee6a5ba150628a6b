//! `64MiB`, `100kB`, `1500`: sizes as people write them.

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        format!("{}B", size.0)
    }
}

impl TryFrom<String> for ByteSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
            .unwrap_or((&text, 1));
        digits
            .trim_end()
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(unit))
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no size, as `64MiB` or `100 MB` is"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let size = |text: &str| ByteSize::try_from(text.to_owned());
        assert_eq!(size("64MiB"), Ok(ByteSize(64 << 20)));
        assert_eq!(size("100 MB"), Ok(ByteSize(100_000_000)));
        assert_eq!(size("7"), Ok(ByteSize(7)));
        assert!(size("64 apples").is_err());
        assert!(size("99999999999GiB").is_err());
    }
}
