//! The modules as a gate would make them: the shims compiled against its real headers, joined with the Rust parts by a
//! plain relocatable link, nothing made local afterwards. For the lab; a gate's own build has its own compiler.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kmod::build::rust_part;
use kmod::link::Link;
use kmod::manifest::Manifest;
use kmod::shim::Compile;

use crate::abi::include_dirs;
use crate::gate::Gate;

/// Writes every module of our tree at `tree` below `kernel`, as `CLASS/amd64/NAME`; returns the paths.
///
/// # Errors
///
/// A shim does not compile against the headers of `gate`, or a tool is missing.
pub fn build(tree: &Path, gate: &Gate, kernel: &Path) -> Result<Vec<PathBuf>> {
    let scratch = tempfile::tempdir().context("creating a scratch directory")?;
    let digest = sources::digest(tree)?;
    let mut paths = Vec::new();
    for module in Manifest::read(tree)?.modules {
        let shim = scratch.path().join("shim.o");
        Compile {
            source: &tree.join(&module.shim),
            object: &shim,
            includes: &include_dirs(gate),
            defines: &module.defines,
        }
        .run()?;
        let part = scratch.path().join("rust.o");
        rust_part(tree, &module.package, &part)?;
        let output = kernel.join(&module.class).join("amd64").join(&module.name);
        Link { inputs: &[part, shim], globals: None, scratch: scratch.path(), output: &output }.run()?;
        sources::record(&output, &digest)?;
        paths.push(output);
    }
    Ok(paths)
}
