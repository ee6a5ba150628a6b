//! Foreign objects: illumos's own plugin `mac_ib` and driver `ibp`, as a C compiler made them, in the place of ours.
//!
//! `make test FOREIGN=DIR` runs these with the objects `DIR/mac_ib` and `DIR/ibp`. Nothing here knows how they were built; that the
//! loader and every rule of the lab take what is not ours is the point.

#![forbid(unsafe_code)]

#[path = "../gldv3_provider/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of providers")]
mod rig;

mod answers;
mod bare_kernel;
mod connected;
mod inputs;
mod matrix;
mod plugin;
mod traffic;

use std::path::PathBuf;

/// The object of a module, in the directory that `FOREIGN` names.
fn object(module: &str) -> PathBuf {
    let directory = std::env::var_os("FOREIGN").expect("FOREIGN names the directory of the objects");
    let path = PathBuf::from(directory).join(module);
    assert!(path.is_file(), "{}: no such object", path.display());
    path
}
