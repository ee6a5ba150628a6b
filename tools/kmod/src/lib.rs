//! From cargo output to an audited illumos kernel module.
//!
//! A module is one relocatable ELF object: the Rust crate with everything it needs of `core` and `alloc`, joined with a
//! small C shim that carries the module linkage. [`build`] makes it the way krtld wants it; [`audit`] proves that the
//! result is what krtld and the kernel's execution environment allow. Probe objects of the conformance tests are built
//! with the same flags and the same link step ([`shim`], [`link`]).

#![forbid(unsafe_code)]

pub mod audit;
pub mod build;
pub mod coverage;
pub mod elf;
mod gotfix;
pub mod link;
pub mod manifest;
mod names;
mod rust_object;
pub mod shim;
mod tool;
