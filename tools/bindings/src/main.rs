//! Writes `rust/illumos-sys-hdrs/src/bindings.rs` from the C headers beside it, and the list of what its tests measure.
//!
//! The output is committed, so that building a module needs neither libclang nor this tool. `--check` writes nothing
//! and fails when what is committed is not what the headers say. `--import-tables` refreshes `abi/` from full tables of
//! the kernel's ABI; nothing else ever writes there.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;

mod constants;
mod declared;
mod generate;
mod measure;
mod tables;

use declared::Declared;

#[derive(Parser)]
#[command(about = "Regenerates the Rust declarations of the illumos kernel interface from its C headers")]
struct Args {
    /// Write nothing; fail when a committed file is stale
    #[arg(long)]
    check: bool,
    /// Copy from full ABI tables (a directory of JSON files) the entries that concern what is declared
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    import_tables: Option<PathBuf>,
    /// Root of the source tree
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    root: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let root = args.root.canonicalize().with_context(|| format!("{}: no such tree", args.root.display()))?;
    let hdrs = root.join("rust/illumos-sys-hdrs");
    let declarations = generate::declarations(&root)?;
    let declared = Declared::read(&declarations)?;
    deliver(&hdrs.join("src/bindings.rs"), &declarations, args.check)?;
    deliver(&hdrs.join("tests/abi/measured.rs"), &measure::source(&declared), args.check)?;
    match args.import_tables {
        Some(from) => tables::import(&declared, &from, &hdrs.join("abi")),
        None => Ok(()),
    }
}

/// Writes `text` to `path`, or with `check` compares the two.
fn deliver(path: &Path, text: &str, check: bool) -> Result<()> {
    if !check {
        return fs::write(path, text).with_context(|| format!("cannot write {}", path.display()));
    }
    let committed = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    if committed == text {
        return Ok(());
    }
    let line = committed.lines().zip(text.lines()).take_while(|(a, b)| a == b).count() + 1;
    bail!(
        "{}:{line}: stale, the headers say otherwise; regenerate with `cargo run -p bindings`",
        path.display()
    )
}
