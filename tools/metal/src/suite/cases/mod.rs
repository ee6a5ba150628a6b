//! The cases, in groups; each is a function that asks the agent and asserts.

pub mod adapter;
pub mod added;
pub mod answers;
pub mod connections;
pub mod contract;
pub mod dump;
pub mod ip;
pub mod life;
pub mod link;
mod memory;
pub mod patience;
pub mod random;
pub mod trouble;
