//! What the kernel's calls take and give: numbers and layouts of 64-bit illumos, from the headers that each item names.

pub mod devinfo;
pub mod dld;
pub mod dlmgmt;
pub mod dlpi;
pub mod ip;
pub mod system;

/// A name of `N` octets with zeros behind it; what is too long is cut so that one zero stays.
pub fn name<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let fits = text.len().min(N - 1);
    field[..fits].copy_from_slice(&text.as_bytes()[..fits]);
    field
}

/// The text of a field that ends at its first zero.
pub fn text(field: &[u8]) -> &str {
    let length = field.iter().position(|&octet| octet == 0).unwrap_or(field.len());
    core::str::from_utf8(&field[..length]).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_always_ends_with_a_zero() {
        assert_eq!(name::<4>("abcdef"), *b"abc\0");
        assert_eq!((text(&name::<8>("ibp0")), text(b"full")), ("ibp0", "full"));
    }
}
