//! What dls asks the data-link management daemon (`sys/dls_mgmt.h`), and the answers of ours.
//!
//! Ids below [`FIRST_PARTITION`] are given to devices as they come; a higher one is a partition that a case makes, and its name
//! follows from it (`part11`), so that this process and the one that makes partitions need not talk.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The path that dls opens.
pub const DOOR: &str = "/etc/svc/volatile/dladm/dlmgmt_door";
/// Its directory.
pub const DIRECTORY: &str = "/etc/svc/volatile/dladm";

/// While this file is there, no partition has a name.
pub const NAMELESS: &str = "/etc/svc/volatile/dladm/nameless";

/// The lowest id of a partition made by hand.
pub const FIRST_PARTITION: u32 = 64;

/// Octets of a link's name (`MAXLINKNAMELEN`).
pub const NAME: usize = 32;

const ENOENT: u32 = 2;
const EINVAL: u32 = 22;
const CLASS_PHYS: u32 = 1;
const CLASS_PART: u32 = 0x100;
const MEDIA_IB: u32 = 0x1a;
const ACTIVE: u32 = 1;

/// `dlmgmt_create_retval_t` and the others that tell a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Link {
    /// 0 or an errno.
    pub error: u32,
    /// The link's id.
    pub id: u32,
    flags: u32,
    class: u32,
    media: u32,
    padding: u32,
}

/// `dlmgmt_getname_retval_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Name {
    /// 0 or an errno.
    pub error: u32,
    /// The link's name.
    pub name: [u8; NAME],
    class: u32,
    media: u32,
    flags: u32,
}

/// `dlmgmt_retval_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Verdict {
    /// 0 or an errno.
    pub error: u32,
}

/// `dlmgmt_getattr_retval_t`, which always says that there is no such attribute.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Attribute {
    error: u32,
    kind: u32,
    size: u32,
    padding: u32,
    value: [u8; 1024],
}

const _: () = assert!(size_of::<Link>() == 24 && size_of::<Name>() == 48 && size_of::<Attribute>() == 1040);

/// An answer, as long as dls wants it.
#[expect(clippy::large_enum_variant, reason = "there is one of it, on a stack")]
pub enum Reply {
    /// To CREATE, UPDATE, GETLINKID and GETNEXT.
    Link(Link),
    /// To GETNAME.
    Name(Name),
    /// To DESTROY, LINKPROP_INIT and SETZONEID.
    Verdict(Verdict),
    /// To GETATTR.
    Attribute(Attribute),
}

impl Reply {
    /// Its octets.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Link(reply) => reply.as_bytes(),
            Self::Name(reply) => reply.as_bytes(),
            Self::Verdict(reply) => reply.as_bytes(),
            Self::Attribute(reply) => reply.as_bytes(),
        }
    }
}

/// The devices that have got an id: number `n` has id `n + 1`.
pub struct Links {
    /// Whether the partitions have names.
    pub named: bool,
    devices: [Option<Device>; FIRST_PARTITION as usize - 1],
}

#[derive(Clone, Copy)]
struct Device {
    name: [u8; NAME],
    class: u32,
    media: u32,
    active: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self { named: true, devices: [None; FIRST_PARTITION as usize - 1] }
    }
}

impl Links {
    /// Answers a question of dls.
    pub fn answer(&mut self, question: &[u8]) -> Reply {
        let word = |at: usize| {
            let octets = question.get(at..at + 4).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u32::from_ne_bytes)
        };
        let text = |at: usize| super::text(question.get(at..).unwrap_or_default());
        match word(0) {
            1 => Reply::Link(self.create(text(32), word(4), word(8))),
            2 => {
                Reply::Attribute(Attribute { error: ENOENT, kind: 0, size: 0, padding: 0, value: [0; 1024] })
            }
            3 => Reply::Verdict(self.destroy(word(4))),
            4 => Reply::Name(self.name_of(word(4))),
            5 => Reply::Link(self.by_name(text(4))),
            6 => Reply::Link(Link { error: ENOENT, ..Link::default() }),
            7 => Reply::Link(self.by_name(text(16))),
            8 | 9 => Reply::Verdict(Verdict::default()),
            _ => Reply::Verdict(Verdict { error: EINVAL }),
        }
    }

    /// The same device keeps its id when it comes again, as with the daemon of illumos. `ibp2` gets 3 if that is free, so that
    /// ids do not depend on the order of attaching.
    fn create(&mut self, name: &str, class: u32, media: u32) -> Link {
        let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let own =
            digits.parse::<usize>().ok().filter(|&number| matches!(self.devices.get(number), Some(None)));
        let name = super::name(name);
        let known = |device: &Option<Device>| device.is_some_and(|device| device.name == name);
        let place = self.devices.iter().position(known).or(own);
        let Some(index) = place.or_else(|| self.devices.iter().position(Option::is_none)) else {
            return Link { error: ENOENT, ..Link::default() };
        };
        self.devices[index] = Some(Device { name, class, media, active: true });
        self.link(index)
    }

    fn destroy(&mut self, id: u32) -> Verdict {
        let device = (id as usize).checked_sub(1).and_then(|index| self.devices.get_mut(index));
        if let Some(Some(device)) = device {
            device.active = false;
        }
        Verdict::default()
    }

    fn link(&self, index: usize) -> Link {
        let Some(device) = self.devices[index] else { return Link { error: ENOENT, ..Link::default() } };
        let flags = if device.active { ACTIVE } else { 0 };
        Link { error: 0, id: index as u32 + 1, flags, class: device.class, media: device.media, padding: 0 }
    }

    fn by_name(&self, name: &str) -> Link {
        if let Some(id) = partition_of(name) {
            return Link { error: 0, id, flags: ACTIVE, class: CLASS_PART, media: MEDIA_IB, padding: 0 };
        }
        let name = super::name(name);
        let known =
            |device: &Option<Device>| device.is_some_and(|device| device.name == name && device.active);
        match self.devices.iter().position(known) {
            Some(index) => self.link(index),
            None => Link { error: ENOENT, ..Link::default() },
        }
    }

    fn name_of(&self, id: u32) -> Name {
        if id >= FIRST_PARTITION && self.named {
            let mut text = crate::answer::Text::<NAME>::default();
            // Ten digits fit.
            let _ = core::fmt::Write::write_fmt(&mut text, format_args!("part{id}"));
            return Name {
                name: super::name(text.text()),
                class: CLASS_PART,
                media: MEDIA_IB,
                flags: ACTIVE,
                ..Name::default()
            };
        }
        let device =
            (id as usize).checked_sub(1).and_then(|index| self.devices.get(index).copied().flatten());
        match device.filter(|device| device.active) {
            Some(Device { name, class, media, .. }) => Name { error: 0, name, class, media, flags: ACTIVE },
            None => Name { error: ENOENT, class: CLASS_PHYS, ..Name::default() },
        }
    }
}

fn partition_of(name: &str) -> Option<u32> {
    let id = name.strip_prefix("part")?.parse().ok()?;
    (id >= FIRST_PARTITION).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(command: u32, words: &[u32], at: usize, name: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [&[command], words].concat().iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(at, 0);
        bytes.extend_from_slice(&super::super::name::<NAME>(name));
        bytes
    }

    fn link(reply: Reply) -> Link {
        match reply {
            Reply::Link(link) => link,
            _ => panic!("another answer"),
        }
    }

    #[test]
    fn a_device_keeps_its_id_when_it_comes_again() {
        let mut links = Links::default();
        let create = |links: &mut Links, name| link(links.answer(&question(1, &[1, 0x1a], 32, name))).id;
        assert_eq!((create(&mut links, "ibp1"), create(&mut links, "ibp0")), (2, 1));
        assert_eq!((create(&mut links, "ibd1"), create(&mut links, "other")), (3, 4));
        assert!(matches!(links.answer(&question(3, &[1], 16, "")), Reply::Verdict(Verdict { error: 0 })));
        assert_eq!(link(links.answer(&question(5, &[], 4, "ibp0"))).error, ENOENT);
        assert_eq!(create(&mut links, "ibp0"), 1);
        assert_eq!(link(links.answer(&question(5, &[], 4, "ibp0"))).id, 1);
    }

    #[test]
    fn a_partition_has_the_name_of_its_id_and_the_other_way_round() {
        let mut links = Links::default();
        let Reply::Name(name) = links.answer(&question(4, &[101], 8, "")) else { panic!("another answer") };
        assert_eq!((name.error, super::super::text(&name.name)), (0, "part101"));
        let found = link(links.answer(&question(5, &[], 4, "part101")));
        assert_eq!((found.error, found.id, found.class), (0, 101, CLASS_PART));
        assert_eq!(link(links.answer(&question(5, &[], 4, "part7"))).error, ENOENT);
        links.named = false;
        let Reply::Name(name) = links.answer(&question(4, &[101], 8, "")) else { panic!("another answer") };
        assert_eq!(name.error, ENOENT);
    }

    #[test]
    fn a_question_that_is_cut_or_unknown_is_answered_with_an_error() {
        let mut links = Links::default();
        for cut in [&[][..], &[1, 0], &99_u32.to_ne_bytes()] {
            assert!(matches!(links.answer(cut), Reply::Verdict(Verdict { error: EINVAL })));
        }
        let Reply::Name(name) = links.answer(&4_u32.to_ne_bytes()) else { panic!("another answer") };
        assert_eq!(name.error, ENOENT);
    }
}
