//! Interfaces and addresses of IP (`net/if.h`, `netinet/in.h`, `sys/sockio.h`).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `AF_INET`.
pub const INET: u16 = 2;
/// `AF_INET6`.
pub const INET6: u16 = 26;

/// `IFF_UP`.
pub const UP: u64 = 0x1;
/// `IFF_BROADCAST`.
pub const BROADCAST: u64 = 0x2;
/// `IFF_IPV4`.
pub const IPV4: u64 = 0x0100_0000;
/// `IFF_IPV6`.
pub const IPV6: u64 = 0x0200_0000;

/// `struct lifreq`.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Interface {
    /// The interface.
    pub name: [u8; 32],
    /// The number of its physical point of attachment, or of leading ones in a netmask.
    pub ppa: u32,
    kind: u32,
    /// Flags, numbers or an address, depending on the ioctl.
    pub value: [u8; 336],
}

const _: () = assert!(size_of::<Interface>() == 376);

impl Interface {
    /// A question about the interface of that name.
    pub fn named(name: &str) -> Self {
        Self { name: super::name(name), ppa: 0, kind: 0, value: [0; 336] }
    }

    /// The value as a number of 32 bits, at `index`: MTU, index of the interface, ids of the links below IP and ARP.
    pub fn number(&self, index: usize) -> u32 {
        let octets = self.value.get(4 * index..4 * index + 4).and_then(|octets| octets.try_into().ok());
        octets.map_or(0, u32::from_ne_bytes)
    }

    /// Sets such a number.
    pub fn set_number(&mut self, index: usize, value: u32) {
        self.value[4 * index..4 * index + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// The value as flags.
    pub fn flags(&self) -> u64 {
        u64::from(self.number(0)) | u64::from(self.number(1)) << 32
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, flags: u64) {
        self.value[..8].copy_from_slice(&flags.to_ne_bytes());
    }

    /// Sets the value to an address.
    pub fn set_address(&mut self, address: &Address) {
        self.value[..32].copy_from_slice(address.as_bytes());
    }

    /// The value as an IPv6 address.
    pub fn ipv6(&self) -> [u8; 16] {
        self.value[8..24].try_into().unwrap_or_default()
    }
}

/// The letters of the flags that a case asks for.
pub const FLAGS: [(&str, u64); 6] = [
    ("up", UP),
    ("running", 0x40),
    ("broadcast", BROADCAST),
    ("multicast", 0x800),
    ("failed", 0x1000_0000),
    ("duplicate", 0x40_0000_0000),
];

/// `struct sockaddr_in` or `struct sockaddr_in6`; the first is shorter.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Address {
    family: u16,
    port: [u8; 2],
    rest: [u8; 28],
}

impl Address {
    /// An IPv4 address with a port.
    pub fn v4(address: [u8; 4], port: u16) -> Self {
        let mut new = Self { family: INET, port: port.to_be_bytes(), rest: [0; 28] };
        new.rest[..4].copy_from_slice(&address);
        new
    }

    /// An IPv6 address with a port; `scope` is the index of an interface, which a link-local address needs.
    pub fn v6(address: [u8; 16], port: u16, scope: u32) -> Self {
        let mut new = Self { family: INET6, port: port.to_be_bytes(), rest: [0; 28] };
        new.rest[4..20].copy_from_slice(&address);
        new.rest[20..24].copy_from_slice(&scope.to_ne_bytes());
        new
    }

    /// The netmask with so many ones.
    pub fn mask(ones: u32) -> Self {
        let mask = u32::MAX.checked_shl(32 - ones.min(32)).unwrap_or(0);
        Self::v4(mask.to_be_bytes(), 0)
    }

    /// As a socket takes it.
    pub fn bytes(&self) -> &[u8] {
        let length = if self.family == INET { 16 } else { 32 };
        &self.as_bytes()[..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_that_many_ones() {
        assert_eq!(Address::mask(24).bytes()[4..8], [255, 255, 255, 0]);
        assert_eq!(Address::mask(0).bytes()[4..8], [0; 4]);
        assert_eq!(Address::mask(32).bytes()[4..8], [255; 4]);
    }

    #[test]
    fn an_address_is_as_long_as_its_family_says() {
        assert_eq!(Address::v4([10, 0, 0, 1], 5001).bytes()[..8], [2, 0, 0x13, 0x89, 10, 0, 0, 1]);
        let six = Address::v6([9; 16], 1, 3);
        assert_eq!((six.bytes().len(), six.bytes()[8], six.bytes()[24]), (32, 9, 3));
    }

    #[test]
    fn flags_use_both_words() {
        let mut interface = Interface::named("ib0");
        interface.set_flags(IPV6 | 0x40_0000_0000);
        assert_eq!((interface.flags(), interface.number(1)), (0x40_0200_0000, 0x40));
    }
}
