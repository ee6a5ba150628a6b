//! A snapshot of the device tree (`sys/devinfo_impl.h`): records that name one another by where they lie, and strings.

/// `DINFOCPYALL`: a node and all below, with minor nodes and properties.
pub const TAKE: u32 = 0xdf07;
/// `DINFOUSRLD`: the snapshot that was taken is copied out.
pub const COPY: u32 = 0xdf80;
/// The device, by its physical name.
pub const DEVICE: &str = "/devices/pseudo/devinfo@0:devinfo";

/// A snapshot, as it was copied out.
#[derive(Clone, Copy)]
pub struct Snapshot<'a>(&'a [u8]);

/// A record of it: where it lies.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    snapshot: Snapshot<'a>,
    at: usize,
}

impl<'a> Snapshot<'a> {
    /// The node that was asked for; none if there is nothing in it.
    pub fn top(bytes: &'a [u8]) -> Option<Part<'a>> {
        Part { snapshot: Self(bytes), at: 0 }.linked(32)
    }

    fn word(self, at: usize) -> u32 {
        let octets = self.0.get(at..at.saturating_add(4)).and_then(|octets| octets.try_into().ok());
        octets.map_or(0, u32::from_ne_bytes)
    }
}

impl<'a> Part<'a> {
    /// The record that a field at this offset names.
    fn linked(self, offset: usize) -> Option<Self> {
        let at = self.snapshot.word(self.at + offset) as usize;
        (at != 0).then_some(Self { snapshot: self.snapshot, at })
    }

    /// The string that a field names; empty if it names none.
    fn text(self, offset: usize) -> &'a str {
        let text = self.linked(offset).and_then(|part| part.snapshot.0.get(part.at..));
        text.map_or("", super::text)
    }

    fn each(first: Option<Self>, next: usize) -> impl Iterator<Item = Self> {
        core::iter::successors(first, move |part| part.linked(next)).take(1000)
    }

    /// Of a node: the nodes below it.
    pub fn children(self) -> impl Iterator<Item = Self> {
        Self::each(self.linked(8), 12)
    }

    /// Of a node: its name.
    pub fn name(self) -> &'a str {
        self.text(20)
    }

    /// Of a node: its address on the bus.
    pub fn address(self) -> &'a str {
        self.text(24)
    }

    /// Of a node: the name by which its driver was found.
    pub fn binding(self) -> &'a str {
        self.text(28)
    }

    /// Of a node: with what it is compatible, the best first.
    pub fn compatible(self) -> impl Iterator<Item = &'a str> {
        let length = self.snapshot.word(self.at + 80) as usize;
        let names =
            self.linked(32).and_then(|part| part.snapshot.0.get(part.at..part.at.saturating_add(length)));
        let names = names.unwrap_or_default().split(|octet| *octet == 0);
        names.filter(|name| !name.is_empty()).map(|name| core::str::from_utf8(name).unwrap_or_default())
    }

    /// Of a node: the driver's instance, if it has a driver.
    pub fn instance(self) -> i32 {
        self.snapshot.word(self.at + 88).cast_signed()
    }

    /// Of a node: its minor nodes, each a name and a type.
    pub fn minors(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        Self::each(self.linked(36), 4).map(|minor| (minor.text(8), minor.text(12)))
    }

    /// Of a node: its properties, each a name, a type, and octets of its value: those of its driver, and those that it came with.
    pub fn properties(self) -> impl Iterator<Item = (&'a str, &'static str, u32)> {
        let lists = [40, 44, 52].map(|offset| self.linked(offset));
        lists.into_iter().flat_map(|first| Self::each(first, 4)).map(|property| {
            let word = |offset: usize| property.snapshot.word(property.at + offset);
            (property.text(8), type_name(word(24)), word(28))
        })
    }
}

/// `DDI_PROP_TYPE_*`.
fn type_name(flags: u32) -> &'static str {
    match flags & 0x1f00 {
        0x100 => "int",
        0x200 => "string",
        0x400 => "byte",
        0x800 => "composite",
        0x1000 => "int64",
        _ => "any",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(Vec<u8>);

    impl Made {
        fn put(&mut self, at: usize, value: u32) {
            self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }

        fn string(&mut self, at: usize, text: &str) {
            self.0[at..at + text.len()].copy_from_slice(text.as_bytes());
        }
    }

    #[test]
    fn a_node_has_its_children_with_names_minors_and_properties() {
        let mut made = Made(vec![0; 2048]);
        // The adapter at 1200, its child at 1400, a minor at 1600, a property at 1700.
        for (at, value) in [
            (32, 1200),
            (1208, 1400),
            (1420, 1800),
            (1424, 1810),
            (1432, 1820),
            (1480, 12),
            (1488, 3),
            (1436, 1600),
            (1608, 1840),
            (1612, 1850),
            (1452, 1700),
            (1708, 1870),
            (1724, 0x1008),
            (1728, 8),
        ] {
            made.put(at, value);
        }
        for (at, text) in [(1800, "ibport"), (1810, "1,0,ipib"), (1820, "ib.a\0ib.bc"), (1840, "ibp3")] {
            made.string(at, text);
        }
        made.string(1850, "ddi_network");
        made.string(1870, "hca-guid");
        let top = Snapshot::top(&made.0).expect("the node that was asked for");
        let child = top.children().next().expect("a child");
        assert_eq!((child.name(), child.address(), child.instance()), ("ibport", "1,0,ipib", 3));
        assert_eq!(child.compatible().collect::<Vec<_>>(), ["ib.a", "ib.bc"]);
        assert_eq!(child.minors().collect::<Vec<_>>(), [("ibp3", "ddi_network")]);
        assert_eq!(child.properties().collect::<Vec<_>>(), [("hca-guid", "int64", 8)]);
    }

    #[test]
    fn a_snapshot_that_is_cut_or_goes_in_circles_ends() {
        assert!(Snapshot::top(&[]).is_none());
        let mut made = Made(vec![0; 64]);
        made.put(32, 40);
        made.put(48, 40);
        let top = Snapshot::top(&made.0).expect("a node");
        assert!(top.children().count() <= 1000);
        assert_eq!((top.name(), top.compatible().count()), ("", 0));
    }
}
