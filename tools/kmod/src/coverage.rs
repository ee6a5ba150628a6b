//! A module that counts which of its blocks were run, and the table that says which source lines each counter stands for.
//!
//! LLVM's coverage pass adds two tables to each object: a byte per basic block, which the block increments, and the block's
//! address. The link puts marks around both, so that whoever has loaded the module finds the counters by symbol, and leaves
//! out what the pass adds for a runtime library that does not exist in a kernel. The second table keeps functions alive that
//! nobody calls, so the link collects those, as LTO does without it. The lines come from the debug information of the same
//! link, resolved once more as a program that is never run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use object::elf::SHN_UNDEF;
use object::{Object, ObjectSection, ObjectSymbol};
use serde::Serialize;

use crate::elf::Elf;
use crate::link::{LINKER_SCRIPT, Link};
use crate::tool;

/// Marks around the counters, for whoever has loaded the module.
pub const COUNTERS: (&str, &str) = ("__start___sancov_cntrs", "__stop___sancov_cntrs");
const ADDRESSES: (&str, &str) = ("__start___sancov_pcs", "__stop___sancov_pcs");
/// An entry of the address table: the address, and flags.
const ENTRY: usize = 16;
const TEXT: &str = ".text";

/// Before the layout of every module: the constructors go, and the marks stand around both tables.
const TABLES: &str = "
SECTIONS {
	/DISCARD/ : { *(.init_array .init_array.* .text.sancov.module_ctor*) }
	__sancov_cntrs 0 : { __start___sancov_cntrs = .; *(__sancov_cntrs) __stop___sancov_cntrs = .; }
	__sancov_pcs 0 : { __start___sancov_pcs = .; *(__sancov_pcs) __stop___sancov_pcs = .; }
}
";

/// What each counter of a module stands for.
#[derive(Debug, Serialize)]
pub struct LineTable {
    /// Source files, relative to the root of the workspace.
    pub files: Vec<String>,
    /// For each counter the lines of its block: index of the file, line. Empty where the block is not of this workspace.
    pub blocks: Vec<Vec<(usize, u32)>>,
}

/// Links a module with counters and writes its line table beside it.
///
/// # Errors
///
/// A tool fails, or the object has no counters.
pub(crate) fn link(link: &Link<'_>, root: &Path) -> Result<()> {
    let layout = TABLES.to_owned() + &LINKER_SCRIPT.replace(" *(.debug_*)", "");
    let mut options = vec!["--gc-sections".to_owned(), "-zstart-stop-gc".to_owned()];
    options.extend(link.globals.unwrap_or_default().iter().map(|symbol| format!("--undefined={symbol}")));
    let linked = link.join(&layout, &options)?;
    strip_unused_imports(&linked)?;
    let program = link.scratch.join("program");
    tool::run(
        tool::binutil("ld")
            .args(["--unresolved-symbols=ignore-all", "--no-warn-mismatch", "-e", "0", "-Ttext=0x10000000"])
            .arg("-o")
            .arg(&program)
            .arg(&linked),
    )?;
    let table = line_table(&program, root)?;
    let mut path = link.output.as_os_str().to_owned();
    path.push(".lines.json");
    link.publish(&linked)?;
    let text = serde_json::to_string(&table).context("the table is plain data")?;
    fs::write(&path, text).with_context(|| format!("writing {}", Path::new(&path).display()))
}

/// What only collected functions called is still in the symbol table, and a loader would look for it.
fn strip_unused_imports(linked: &Path) -> Result<()> {
    let image = fs::read(linked).with_context(|| format!("reading {}", linked.display()))?;
    let elf = Elf::parse(&image)?;
    let used: BTreeSet<usize> = elf.relocations.iter().map(|relocation| relocation.symbol).collect();
    let unused = elf.symbols.iter().enumerate().filter(|(index, symbol)| {
        symbol.section == SHN_UNDEF.0 && !symbol.name.is_empty() && !used.contains(index)
    });
    let options = unused.map(|(_, symbol)| format!("--strip-symbol={}", symbol.name));
    tool::run(tool::binutil("objcopy").args(options).arg(linked)).map(drop)
}

fn line_table(program: &Path, root: &Path) -> Result<LineTable> {
    let data = fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    let image = object::File::parse(&*data)?;
    let blocks = addresses(&image)?;
    let text = image.section_by_name(TEXT).context("no text")?;
    let end = text.address() + text.size();
    let mut sorted = blocks.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let lines =
        addr2line::Loader::new(program).map_err(|error| anyhow::anyhow!("{}: {error}", program.display()))?;
    let mut files = Files { root, known: BTreeMap::new() };
    let mut table = LineTable { files: Vec::new(), blocks: Vec::with_capacity(blocks.len()) };
    for start in blocks {
        let after = sorted.partition_point(|address| *address <= start);
        let next = sorted.get(after).copied().unwrap_or(end).min(end);
        let mut of_block = Vec::new();
        if (text.address()..end).contains(&start) {
            let rows = lines
                .find_location_range(start, next)
                .map_err(|error| anyhow::anyhow!("line table: {error}"))?;
            for (_, _, location) in rows {
                let file = location.file.and_then(|file| files.index(file));
                of_block.extend(file.zip(location.line.filter(|line| *line > 0)));
            }
        }
        of_block.sort_unstable();
        of_block.dedup();
        table.blocks.push(of_block);
    }
    table.files = files.in_order();
    Ok(table)
}

/// The address of each counter's block.
fn addresses(image: &object::File<'_>) -> Result<Vec<u64>> {
    let symbol = |name: &str| {
        image.symbol_by_name(name).map(|symbol| symbol.address()).with_context(|| format!("no symbol {name}"))
    };
    let (start, stop) = (symbol(ADDRESSES.0)?, symbol(ADDRESSES.1)?);
    let counters = symbol(COUNTERS.1)? - symbol(COUNTERS.0)?;
    let section = image.section_by_name("__sancov_pcs").context("no table of addresses")?;
    let data = section.data_range(start, stop - start)?.context("the table of addresses is cut short")?;
    let (entries, rest) = data.as_chunks::<ENTRY>();
    ensure!(rest.is_empty(), "the table of addresses ends within an entry");
    if entries.len() as u64 != counters || entries.is_empty() {
        bail!("{} addresses for {counters} counters", entries.len());
    }
    Ok(entries
        .iter()
        .map(|entry| {
            let (address, _flags) = entry.split_at(8);
            address.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
        })
        .collect())
}

/// The workspace's own files, numbered as they turn up.
struct Files<'a> {
    root: &'a Path,
    known: BTreeMap<String, usize>,
}

impl Files<'_> {
    fn index(&mut self, file: &str) -> Option<usize> {
        let path = Path::new(file);
        let own = path.strip_prefix(self.root).ok().or_else(|| path.is_relative().then_some(path))?;
        if !self.root.join(own).is_file() {
            return None;
        }
        let next = self.known.len();
        Some(*self.known.entry(own.to_string_lossy().into_owned()).or_insert(next))
    }

    fn in_order(self) -> Vec<String> {
        let mut files: Vec<(usize, String)> = self.known.into_iter().map(|(name, n)| (n, name)).collect();
        files.sort_unstable();
        files.into_iter().map(|(_, name)| name).collect()
    }
}
