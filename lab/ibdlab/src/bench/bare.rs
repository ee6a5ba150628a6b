//! The bare loop: a kernel module in C (`bare.c`) that does what any driver must to send a packet and nothing else. It is built when it is
//! needed, as the shims of the shipped modules are, and pays what they pay: `mac` calls it, and it calls the lab's kernel and adapter.

use std::path::Path;

use anyhow::{Context, Result};
use kmod::link::Link;
use kmod::shim::{Compile, include_dir};
use lab_gldv3::BareDriver;

use super::bed::{Bed, Subject};

/// The directory that `rust/` is in.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Builds the module and loads it beside the driver of a subject, for the same port. On a thread of the machine.
///
/// # Errors
///
/// gcc or binutils are missing, the headers are not where they were when this program was built, or the adapter refuses.
pub(super) fn load(bed: &Bed, subject: &Subject) -> Result<BareDriver> {
    let scratch = tempfile::tempdir()?;
    let source = scratch.path().join("bare.c");
    std::fs::write(&source, include_str!("bare.c")).with_context(|| source.display().to_string())?;
    let (object, module) = (source.with_extension("o"), scratch.path().join("bare"));
    let includes = [include_dir(Path::new(ROOT))];
    Compile { source: &source, object: &object, includes: &includes, defines: &[] }.run()?;
    Link { inputs: &[object], globals: None, scratch: scratch.path(), output: &module }.run()?;
    let (hca, port) = subject.port(bed)?;
    BareDriver::load(&subject.host.kernel, &module, hca, port, bed.first_peer().0).context("the bare loop")
}
