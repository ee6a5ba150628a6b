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

        let dir = self.output.parent().context("a module has a directory")?;
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        // Copied beside it and renamed: the scratch directory may be on another file system, and others may be reading.
        let beside = NamedTempFile::new_in(dir).with_context(|| format!("writing in {}", dir.display()))?;
        fs::copy(linked, beside.path()).with_context(|| format!("writing {}", beside.path().display()))?;
        beside.persist(self.output).with_context(|| format!("writing {}", self.output.display()))?;
        Ok(())
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
