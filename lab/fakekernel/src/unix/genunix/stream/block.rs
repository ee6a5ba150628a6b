//! Fields of live message and data blocks.
//!
//! A value of these types names a block the heap knows to be live; the block lies in the host's arena, which stays mapped as
//! long as the host lives. Another thread of the module may write the same field: that is the module's race, and reads
//! here are plain copies.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};

use illumos_sys_hdrs::{cred_t, datab, datab__bindgen_ty_1 as struioun, dblk_t, frtn_t, mblk_t, msgb};

/// A live message block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mb(*mut mblk_t);

/// A live data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Db(*mut dblk_t);

macro_rules! fields {
    ($handle:ident of $record:ident: $($get:ident $set:ident $field:ident $type:ty;)*) => {
        #[allow(dead_code, reason = "accessors come in pairs")]
        impl $handle {$(
            pub(super) fn $get(self) -> $type {
                let field = self.0.wrapping_byte_add(offset_of!($record, $field)).cast::<$type>();
                // SAFETY: the block is live and mapped (see the module's text) and the field has this type.
                unsafe { field.read() }
            }

            pub(super) fn $set(self, value: $type) {
                let field = self.0.wrapping_byte_add(offset_of!($record, $field)).cast::<$type>();
                // SAFETY: as for the read; no reference to the block exists.
                unsafe { field.write(value) }
            }
        )*}
    };
}

fields! { Mb of msgb:
    next set_next b_next *mut mblk_t;
    prev set_prev b_prev *mut mblk_t;
    cont set_cont b_cont *mut mblk_t;
    rptr set_rptr b_rptr *mut u8;
    wptr set_wptr b_wptr *mut u8;
    datap set_datap b_datap *mut dblk_t;
    band set_band b_band u8;
    tag set_tag b_tag u8;
    flag set_flag b_flag u16;
}

fields! { Db of datab:
    frtn set_frtn db_frtnp *mut frtn_t;
    base set_base db_base *mut u8;
    lim set_lim db_lim *mut u8;
    kind set_kind db_type u8;
    flags set_flags db_flags u8;
    struioflag set_struioflag db_struioflag u8;
    cpid set_cpid db_cpid i32;
    mblk set_mblk db_mblk *mut mblk_t;
    cache set_cache db_cache *mut c_void;
    free set_free db_free Option<unsafe extern "C" fn(*mut msgb, *mut datab)>;
    lastfree set_lastfree db_lastfree Option<unsafe extern "C" fn(*mut msgb, *mut datab)>;
    fthdr set_fthdr db_fthdr *mut illumos_sys_hdrs::fthdr;
    cksum_start set_cksum_start db_cksumstart isize;
    cksum_end set_cksum_end db_cksumend isize;
    cksum_stuff set_cksum_stuff db_cksumstuff isize;
    struioun set_struioun db_struioun struioun;
    cred set_cred db_credp *mut cred_t;
}

impl Mb {
    /// Takes the caller's word: the heap holds a live message block there.
    pub(super) fn new(raw: *mut mblk_t) -> Self {
        Self(raw)
    }

    pub(super) fn raw(self) -> *mut mblk_t {
        self.0
    }

    pub(super) fn addr(self) -> usize {
        self.0.addr()
    }

    /// The data block, which is live as long as this block is.
    pub(super) fn data(self) -> Db {
        Db(self.datap())
    }

    /// Bytes between the pointers; 0 when they are crossed.
    pub(super) fn len(self) -> usize {
        self.wptr().addr().saturating_sub(self.rptr().addr())
    }
}

impl Db {
    /// Takes the caller's word: the heap holds a live data block there.
    pub(super) fn new(raw: *mut dblk_t) -> Self {
        Self(raw)
    }

    pub(super) fn raw(self) -> *mut dblk_t {
        self.0
    }

    pub(super) fn addr(self) -> usize {
        self.0.addr()
    }

    /// The word of reference count, type, flags and struio flag, which C code reads and changes as one.
    fn word(self) -> &'static AtomicU32 {
        let word = self.0.wrapping_byte_add(offset_of!(datab, db_ref)).cast::<u32>();
        // SAFETY: bytes 24 to 27 of a live data block, 4-aligned, accessed atomically where they may change under one's
        // hands; the arena stays mapped while the host lives, and the reference does not leave this module's functions.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// One reference, type `M_DATA`, no flags.
    pub(super) fn reset_word(self) {
        self.word().store(1, Ordering::Release);
    }

    /// What only the kernel itself may look at.
    pub(super) fn hide_private(self) {
        self.set_cache(std::ptr::null_mut());
        self.set_free(None);
        self.set_lastfree(None);
        self.set_fthdr(std::ptr::null_mut());
    }

    /// How many message blocks share this.
    pub(super) fn references(self) -> u8 {
        self.word().load(Ordering::Acquire) as u8
    }

    /// One reference more; false at the limit.
    pub(super) fn share(self) -> bool {
        let more = |word: u32| (word & 0xff < 0xff).then_some(word + 1);
        self.word().fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// One reference less; whether it was the last, or `None` if there was none. The last one stays at 1 while the free
    /// routine runs, as on illumos.
    pub(super) fn release(self) -> Option<bool> {
        let less = |word: u32| match word & 0xff {
            0 => None,
            1 => Some(word),
            _ => Some(word - 1),
        };
        let seen = self.word().fetch_update(Ordering::AcqRel, Ordering::Acquire, less).ok()?;
        Some(seen & 0xff == 1)
    }

    /// `DB_CKSUMFLAGS`.
    pub(super) fn cksum_flags(self) -> u16 {
        (self.cksum_word() >> 32) as u16
    }

    /// `DB_LSOMSS`.
    pub(super) fn mss(self) -> u16 {
        (self.cksum_word() >> 48) as u16
    }

    /// `DB_CKSUM32`.
    pub(super) fn cksum_value(self) -> u32 {
        self.cksum_word() as u32
    }

    pub(super) fn set_cksum(self, value: u32, flags: u16, mss: u16) {
        let word = u64::from(value) | u64::from(flags) << 32 | u64::from(mss) << 48;
        self.set_struioun(struioun { enforce_alignment: word });
    }

    fn cksum_word(self) -> u64 {
        // SAFETY: every bit pattern is a u64, and the union is read as the eight bytes it is.
        unsafe { self.struioun().enforce_alignment }
    }
}
