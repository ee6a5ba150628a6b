//! `gate install`, `uninstall`, `check`: see docs/gate.md.

#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use gate::abi::{self, Difference, Report};
use gate::gate::Gate;
use gate::plan::{self, Plan};
use gate::{apply, check, manifest, modules, package};

/// The way of the modules into an illumos gate.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Put our sources into a gate's build, in the place of its C driver and plugin.
    Install {
        /// The directory that holds the gate's usr/src.
        gate: PathBuf,
    },
    /// Take them out again; the gate is then what it was.
    Uninstall {
        /// The directory that holds the gate's usr/src.
        gate: PathBuf,
    },
    /// Compare the kernel interface that our modules are compiled for with a gate's headers.
    Abi {
        /// The directory that holds the gate's usr/src; it need not be under git.
        gate: PathBuf,
    },
    /// Build the modules with shims compiled against a gate's headers, for the lab.
    Modules {
        /// The directory that holds the gate's usr/src; it need not be under git.
        gate: PathBuf,
        /// Where to put them: DIR/drv/amd64/ibd and so on.
        #[arg(long, value_name = "DIR", default_value = "proto/gate/kernel")]
        kernel: PathBuf,
    },
    /// Check package manifests: files, or directories of them.
    Manifests {
        /// The files or directories; ours if none is named.
        paths: Vec<PathBuf>,
    },
    /// Make the installable archive from what is built.
    Package {
        /// Where to put it.
        #[arg(long, value_name = "DIR", default_value = "target/package")]
        output: PathBuf,
    },
    /// Resolve every module, object, dependency and path that the additions name.
    Check {
        /// A gate with our sources in it.
        gate: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False if something was found.
fn run(args: &Args) -> Result<bool> {
    let tree = tree()?;
    match &args.command {
        Action::Install { gate } => {
            let gate = Gate::open(gate)?;
            write(&gate, &plan::install(&tree, &gate)?)
        }
        Action::Uninstall { gate } => {
            let gate = Gate::open(gate)?;
            write(&gate, &plan::uninstall(&tree, &gate)?)
        }
        Action::Abi { gate } => Ok(tell(&abi::check(&tree, &Gate::headers(gate)?)?)),
        Action::Modules { gate, kernel } => {
            for path in modules::build(&tree, &Gate::headers(gate)?, kernel)? {
                println!("built {}", path.display());
            }
            Ok(true)
        }
        Action::Manifests { paths } => {
            let ours = [tree.join("packaging/manifests")];
            let mut files = Vec::new();
            for path in if paths.is_empty() { &ours[..] } else { paths } {
                files.extend(if path.is_dir() { manifest::of_directory(path)? } else { vec![path.clone()] });
            }
            let findings = manifest::check_files(&files)?;
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("{} manifests, {} findings", files.len(), findings.len());
            Ok(findings.is_empty())
        }
        Action::Package { output } => {
            println!("{}", package::archive(&tree, &tree.join("proto"), output)?.display());
            Ok(true)
        }
        Action::Check { gate } => {
            let findings = check::check(&tree, &Gate::headers(gate)?)?;
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("{} paths and names that do not resolve", findings.len());
            Ok(findings.is_empty())
        }
    }
}

/// False if something that ships is concerned.
fn tell(report: &Report) -> bool {
    for Difference { name, what, consequence, .. } in &report.differences {
        println!("{name}: {what}\n    {consequence}");
    }
    let harmful = report.differences.iter().filter(|difference| difference.harmful).count();
    let harmless = report.differences.len() - harmful;
    println!("{} compared: {harmful} differences that do harm, {harmless} that do not", report.compared);
    harmful == 0
}

fn write(gate: &Gate, plan: &Plan) -> Result<bool> {
    apply::apply(&gate.root, &plan.writes, &mut |_| Ok(()))?;
    for (path, content) in &plan.writes {
        println!("{} {}", if content.is_some() { "wrote  " } else { "removed" }, path.display());
    }
    for path in &plan.kept {
        println!("kept    {}, the gate's own", path.display());
    }
    if plan.writes.is_empty() {
        println!("nothing to change");
    }
    Ok(true)
}

/// The root of our tree: `cargo run` says where, and a binary started by hand knows where it was built.
fn tree() -> Result<PathBuf> {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&manifest_dir).join("../..");
    root.canonicalize().with_context(|| root.display().to_string())
}
