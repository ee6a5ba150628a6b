//! `kmod build` makes the kernel modules, `kmod audit` proves that they are fit to be loaded.

#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use kmod::manifest::Manifest;
use kmod::{audit, build};

/// From cargo output to audited illumos kernel modules.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build modules into proto/kernel.
    Build {
        /// The modules to build; all of tools/kmod/modules.toml if none is named.
        modules: Vec<String>,
        /// With block counters, for the lab, into proto/coverage.
        #[arg(long)]
        coverage: bool,
        /// With a call for each atomic operation, for the lab, into proto/atomics.
        #[arg(long, conflicts_with = "coverage")]
        atomics: bool,
        /// With a call for each load and store as well, for the lab, into proto/races.
        #[arg(long, conflicts_with_all = ["coverage", "atomics"])]
        races: bool,
    },
    /// Write the Rust part of a module, without its C shim, for a gate's own linker.
    Object {
        /// The crate: mac_ib or ibd.
        package: String,
        /// The object to write.
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Check the built modules and the workspace's dependency rule; any finding is a failure.
    Audit {
        /// The modules to check; all of tools/kmod/modules.toml if none is named.
        modules: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kmod: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let root = root()?;
    let manifest = Manifest::read(&root)?;
    match &args.command {
        Action::Build { modules, coverage, atomics, races } => {
            let modules = manifest.select(modules)?;
            let built = if *coverage {
                build::build_for_coverage(&root, &modules)
            } else if *atomics {
                build::build_with_atomics_called(&root, &modules)
            } else if *races {
                build::build_for_races(&root, &modules)
            } else {
                build::build(&root, &modules)
            };
            for path in built? {
                println!("built {}", path.strip_prefix(&root).unwrap_or(&path).display());
            }
            Ok(true)
        }
        Action::Object { package, output } => {
            build::rust_part(&root, package, output)?;
            Ok(true)
        }
        Action::Audit { modules } => audit::audit(&root, &manifest, modules),
    }
}

/// The root of the workspace: `cargo run` says where, and a binary started by hand knows where it was built.
fn root() -> Result<PathBuf> {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest_dir).join("../..");
    root.canonicalize().with_context(|| root.display().to_string())
}
