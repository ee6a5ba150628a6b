//! Building modules from the manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::coverage;
use crate::link::{self, Link};
use crate::manifest::Module;
use crate::rust_object::{self, Flavour};
use crate::shim::{Compile, include_dir};

/// Builds `modules` into `proto/` below `root`; returns their paths.
///
/// # Errors
///
/// A tool is missing, a source does not compile, or the object has a GOT access without a direct form.
pub fn build(root: &Path, modules: &[&Module]) -> Result<Vec<PathBuf>> {
    build_as(root, modules, Flavour::Shipped)
}

/// Builds `modules` with block counters into `proto/coverage/`, each with `NAME.lines.json` beside it
/// ([`coverage::LineTable`]); returns their paths.
///
/// # Errors
///
/// As [`build`].
pub fn build_for_coverage(root: &Path, modules: &[&Module]) -> Result<Vec<PathBuf>> {
    build_as(root, modules, Flavour::Coverage)
}

/// Builds `modules` into `proto/atomics/`, for a lab that lets threads change at each of their atomic operations; returns their
/// paths.
///
/// # Errors
///
/// As [`build`].
pub fn build_with_atomics_called(root: &Path, modules: &[&Module]) -> Result<Vec<PathBuf>> {
    build_as(root, modules, Flavour::Atomics)
}

/// Builds `modules` into `proto/races/`, for a lab that is told of each load and store, too; returns their paths.
///
/// # Errors
///
/// As [`build`].
pub fn build_for_races(root: &Path, modules: &[&Module]) -> Result<Vec<PathBuf>> {
    build_as(root, modules, Flavour::Races)
}

fn build_as(root: &Path, modules: &[&Module], flavour: Flavour) -> Result<Vec<PathBuf>> {
    // Before the compiler reads them: what changes meanwhile makes the object one of yesterday's.
    let digest = sources::digest(root)?;
    let mut objects = BTreeMap::new();
    let mut paths = Vec::new();
    for module in modules {
        let object = match objects.get(&module.package) {
            Some(object) => PathBuf::clone(object),
            None => rust_object::build(root, &module.package, flavour)?,
        };
        objects.insert(module.package.clone(), object.clone());
        let path =
            assemble(root, module, object, flavour).with_context(|| format!("module {}", module.name))?;
        sources::record(&path, &digest)?;
        paths.push(path);
    }
    Ok(paths)
}

/// What a shim calls, what krtld looks up and what other modules call: all that stays global in [`rust_part`].
const RUST_GLOBALS: [&str; 7] =
    ["_init", "_fini", "_info", "kmod_attach", "kmod_detach", "ibd_path_lookup", "ibd_root"];

/// Writes the Rust part of a module to `output`, one relocatable object without the shim: what a gate's own linker
/// joins with the shim that the gate's own compiler made.
///
/// # Errors
///
/// As [`build`].
pub fn rust_part(root: &Path, package: &str, output: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("creating a scratch directory")?;
    let object = rust_object::build(root, package, Flavour::Shipped)?;
    let mut inputs = rust_object::int128_helpers(root, &object, scratch.path())?;
    inputs.insert(0, object);
    let globals = RUST_GLOBALS.map(String::from);
    Link { inputs: &inputs, globals: Some(&globals), scratch: scratch.path(), output }.run()
}

/// Joins the Rust object with the module's shim.
fn assemble(root: &Path, module: &Module, object: PathBuf, flavour: Flavour) -> Result<PathBuf> {
    let scratch = tempfile::tempdir().context("creating a scratch directory")?;
    let shim = scratch.path().join("shim.o");
    Compile {
        source: &root.join(&module.shim),
        object: &shim,
        includes: &[include_dir(root)],
        defines: &module.defines,
    }
    .run()?;

    let mut inputs = rust_object::int128_helpers(root, &object, scratch.path())?;
    inputs.splice(0..0, [object, shim]);
    let output = match flavour {
        Flavour::Shipped => module.path(root),
        Flavour::Coverage => module.path_in(&root.join("proto/coverage")),
        Flavour::Atomics => module.path_in(&root.join("proto/atomics")),
        Flavour::Races => module.path_in(&root.join("proto/races")),
    };
    let link =
        Link { inputs: &inputs, globals: Some(&module.globals), scratch: scratch.path(), output: &output };
    if flavour == Flavour::Coverage {
        coverage::link(&link, root)?;
        return Ok(output);
    }
    link.run()?;
    if let Some(conf) = module.conf.as_ref().filter(|_| flavour == Flavour::Shipped) {
        let installed =
            root.join("proto/kernel").join(&module.class).join(conf.file_name().unwrap_or_default());
        link::put_in_place(&root.join(conf), &installed)?;
    }
    Ok(output)
}
