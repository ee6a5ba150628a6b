//! The way into an illumos gate: put the modules' sources into its build and take them out again, check what they name
//! and what they assume of its headers, and make packages of what is built without one.

#![forbid(unsafe_code)]

pub mod abi;
pub mod apply;
pub mod check;
pub mod edit;
pub mod gate;
mod git;
pub mod inside;
mod known;
pub mod make;
pub mod manifest;
pub mod modules;
pub mod overlay;
pub mod package;
pub mod pages;
pub mod plan;
pub mod record;
