//! The subnet manager and administrator, asked with MADs.

#![forbid(unsafe_code)]

mod beyond;
mod joins;
mod life;
mod paths;
mod requests;
mod robustness;
mod table;
mod world;
