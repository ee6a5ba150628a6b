//! The illumos amd64 kernel interface as it is: what a MAC-type plugin and a GLDv3 driver over IBTF link against.
//!
//! Names, types and layouts are those of C. `include/` holds the headers, `src/bindings.rs` is bindgen's rendering of
//! them, and the tests compare both with the tables in `abi/`, which were read off the headers of an illumos gate
//! (April 2020, amd64) with a C compiler. Nothing here is safe to call and nothing is documented twice: section 9F of
//! the manual describes the DDI, the wrappers in `kernel`, `gldv3` and `ibtf` say what each call demands.
//!
//! Enumerations are newtypes over their integer, because C may hand out a value without a name.

#![no_std]

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc
)]
mod bindings;
mod macros;
mod members;

pub use bindings::*;
pub use macros::*;
