//! The relocatable link, and what is done to its result before it is a module.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::elf::Elf;
use crate::{gotfix, names, tool};

/// Section layout of a module, for `ld -r -T`.
pub const LINKER_SCRIPT: &str = include_str!("../kmod.lds");

/// One link of a kernel module.
#[derive(Debug)]
pub struct Link<'a> {
    /// The objects to join; of an archive, only the members that are needed.
    pub inputs: &'a [PathBuf],
    /// The symbols that stay global, or `None` to leave every binding as it is (probe objects that import each other).
    pub globals: Option<&'a [String]>,
    /// Where intermediate files go; exists.
    pub scratch: &'a Path,
    /// The module to write.
    pub output: &'a Path,
}

impl Link<'_> {
    /// Links, rewrites GOT relocations, localises symbols, shortens the names of functions, and strips debug sections (never the
    /// symbol table: krtld refuses a module without one, and DTrace wants the local functions).
    ///
    /// The output appears whole or not at all.
    ///
    /// # Errors
    ///
    /// A tool is missing or fails; a GOT relocation is in an instruction that has no direct form.
    pub fn run(&self) -> Result<()> {
        let linked = self.join(LINKER_SCRIPT, &[])?;
        self.publish(&linked)
    }

    /// Links with `layout` and further options of ld, and rewrites GOT relocations; the file is in the scratch directory, debug sections and all.
    pub(crate) fn join(&self, layout: &str, options: &[String]) -> Result<PathBuf> {
        let script = self.scratch.join("kmod.lds");
        fs::write(&script, layout).with_context(|| format!("writing {}", script.display()))?;
        let linked = self.scratch.join("linked.o");
        // Sections of a COMDAT group would stay apart, whatever the script says.
        let mut ld = tool::binutil("ld");
        ld.args(["-r", "-d", "--force-group-allocation"]).args(options).arg("-T").arg(&script);
        tool::run(ld.arg("-o").arg(&linked).args(self.inputs))?;

        let mut image = fs::read(&linked).with_context(|| format!("reading {}", linked.display()))?;
        gotfix::rewrite(&mut image)
            .with_context(|| format!("GOT relocations of {}", self.output.display()))?;
        fs::write(&linked, &image).with_context(|| format!("writing {}", linked.display()))?;
        Ok(linked)
    }

    /// Localises symbols, strips debug sections and puts the module in its place.
    pub(crate) fn publish(&self, linked: &Path) -> Result<()> {
        let keep =
            self.globals.unwrap_or_default().iter().map(|symbol| format!("--keep-global-symbol={symbol}"));
        // An assembler that saw a GOT access leaves this symbol behind; nothing refers to it any more.
        let unneeded = "--strip-unneeded-symbol=_GLOBAL_OFFSET_TABLE_";
        let renamed = format!("--redefine-syms={}", self.list_new_names(linked)?.display());
        tool::run(
            tool::binutil("objcopy").args(["--strip-debug", unneeded, &renamed]).args(keep).arg(linked),
        )?;

        put_in_place(linked, self.output)
    }

    /// Writes down for objcopy which functions are renamed, and to what.
    fn list_new_names(&self, linked: &Path) -> Result<PathBuf> {
        let image = fs::read(linked).with_context(|| format!("reading {}", linked.display()))?;
        let pairs = names::shorter(&Elf::parse(&image)?);
        let lines: String = pairs.iter().map(|(old, new)| format!("{old} {new}\n")).collect();
        let list = self.scratch.join("names");
        fs::write(&list, lines).with_context(|| format!("writing {}", list.display()))?;
        Ok(list)
    }
}

/// Copies a file to where others may be reading the one of before: `to` is the old one or the new one, never a part. Its directory is made.
pub(crate) fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    let put = || -> Result<()> {
        let dir = to.parent().context("it has no directory")?;
        fs::create_dir_all(dir)?;
        // The file may be on another file system.
        let beside = NamedTempFile::new_in(dir)?;
        fs::copy(from, beside.path())?;
        beside.persist(to)?;
        Ok(())
    };
    put().with_context(|| format!("writing {}", to.display()))
}
