//! Numbers and layouts of the system calls themselves (`sys/syscall.h` and the headers named below).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct pollfd` (`sys/poll.h`).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Poll {
    /// The descriptor.
    pub fd: i32,
    /// What is waited for.
    pub events: u16,
    /// What is there.
    pub found: u16,
}

/// `POLLIN | POLLPRI | POLLRDNORM`: something can be read, of whatever priority.
pub const READABLE: u16 = 0x43;
/// `POLLHUP`: the other end is gone.
pub const HUNG_UP: u16 = 0x10;

/// `struct termios` (`sys/termios.h`).
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Termios {
    /// Nothing is done to what comes.
    pub input: u32,
    /// Nor to what goes.
    pub output: u32,
    /// Speed and framing.
    pub control: u32,
    /// No echo, no lines.
    pub local: u32,
    /// Special characters.
    pub characters: [u8; 19],
    padding: u8,
}

impl Termios {
    /// 115,200 bit/s, eight bits, a receiver, no modem lines: every octet passes as it is.
    ///
    /// The speed has number 18 (`B115200`), of which the field holds four bits; `CBAUDEXT` is the fifth. QEMU hands a few octets to
    /// the kernel only after four times what an octet takes, so the speed counts there, too.
    pub fn raw() -> Self {
        const SPEED: u32 = 2 | 0x20_0000;
        Self { control: SPEED | 0x30 | 0x80 | 0x800, ..Self::default() }
    }
}

/// `struct modinfo` (`sys/modctl.h`) up to the description of its linkage.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ModuleInfo {
    /// What is asked: `MI_INFO_ONE`, or'ed with `MI_INFO_ALL`.
    pub info: u32,
    /// Loaded, installed.
    pub state: u32,
    /// Its number.
    pub id: u32,
    /// The number of the next one.
    pub next: u32,
    /// Where its text begins.
    pub base: u64,
    /// Octets of it.
    pub size: u64,
    /// As the module says.
    pub revision: u32,
    /// How often it was loaded.
    pub loads: u32,
    /// Its name.
    pub name: [u8; 32],
    linkage: [u8; 360],
}

/// `struct kstat` (`sys/kstat.h`) without its locks.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Kstat {
    created: u64,
    next: u64,
    /// Its number.
    pub id: u32,
    /// Who made it.
    pub module: [u8; 31],
    reserved: u8,
    /// The instance of who made it.
    pub instance: u32,
    /// Its name.
    pub name: [u8; 31],
    /// `KSTAT_TYPE_NAMED` is 1.
    pub kind: u8,
    /// Its class.
    pub class: [u8; 31],
    flags: u8,
    /// Where the data goes; used by the call alone.
    pub(crate) data: u64,
    /// How many entries it has.
    pub entries: u32,
    padding: u32,
    /// Octets of data.
    pub size: u64,
    /// When it was read, nanoseconds since the machine started.
    pub read_at: u64,
    locks: [u8; 32],
}

/// `kstat_named_t`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Named {
    /// What it is.
    pub name: [u8; 31],
    /// What kind of value it has.
    pub kind: u8,
    /// Its value, or where a string is.
    pub value: u64,
    rest: u64,
}

impl Named {
    /// What kind of value it has (`KSTAT_DATA_*`).
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            0 => "char",
            1 => "int32",
            2 => "uint32",
            3 => "int64",
            4 => "uint64",
            9 => "string",
            _ => "other",
        }
    }

    /// The value of a number of any width.
    pub fn number(&self) -> Option<i128> {
        let low = self.value as u32;
        match self.kind {
            1 => Some(i128::from(low.cast_signed())),
            2 => Some(i128::from(low)),
            3 => Some(i128::from(self.value.cast_signed())),
            4 => Some(i128::from(self.value)),
            _ => None,
        }
    }
}

const _: () = {
    assert!(size_of::<Termios>() == 36 && size_of::<ModuleInfo>() == 432);
    assert!(size_of::<Kstat>() == 184 && size_of::<Named>() == 48);
};
