//! The program; all of it is in the library, so that its pure parts are tested on the host.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
use metal_agent as _;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("metal-agent runs on an illumos kernel; the metal tool builds it for one");
    std::process::exit(2);
}
