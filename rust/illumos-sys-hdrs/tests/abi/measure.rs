//! What the compiler says about the crate's records and constants.

use std::mem::MaybeUninit;

/// A record as laid out by rustc; sizes and offsets in bytes.
pub struct Record {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: Vec<Field>,
    pub bit_fields: Vec<BitField>,
}

pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
}

/// The bits that writing all ones through the accessor sets, counted from the start of the record.
pub struct BitField {
    pub name: &'static str,
    pub ones: Vec<usize>,
}

/// A constant's bit pattern, sign-extended or wrapped to 64 bits.
pub struct Constant {
    pub name: &'static str,
    pub value: i64,
}

/// The size of the field that the projection reaches, without touching memory.
pub fn field_size<R, F>(_projection: impl Fn(*const R) -> *const F) -> usize {
    size_of::<F>()
}

/// The indices of the bits that `set` turns on in a record of zeros.
pub fn ones_after<R>(set: impl FnOnce(&mut R)) -> Vec<usize> {
    let mut record = MaybeUninit::<R>::zeroed();
    // SAFETY: every record with bit fields consists of integers, pointers and newtypes over integers; all may be zero.
    set(unsafe { record.assume_init_mut() });
    // SAFETY: the record was zeroed as a whole and only its bit-field storage was written since.
    let bytes = unsafe { std::slice::from_raw_parts(record.as_ptr().cast::<u8>(), size_of::<R>()) };
    (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1).collect()
}

macro_rules! record {
    ($record:ident { $($field:ident),* } bits { $($bits:ident $set:ident $ty:ty),* }) => {
        Record {
            name: stringify!($record),
            size: size_of::<$record>(),
            align: align_of::<$record>(),
            fields: vec![$(Field {
                name: stringify!($field),
                offset: std::mem::offset_of!($record, $field),
                // SAFETY: the projection is never called; it only carries the field's type.
                size: field_size(|r: *const $record| unsafe { &raw const (*r).$field }),
            }),*],
            bit_fields: vec![$(BitField {
                name: stringify!($bits),
                ones: ones_after(|r: &mut $record| r.$set(!(0 as $ty))),
            }),*],
        }
    };
}

macro_rules! constant {
    ($name:ident $(. $inner:tt)?) => {
        Constant { name: stringify!($name), value: $name $(. $inner)? as i64 }
    };
}

pub(crate) use {constant, record};
