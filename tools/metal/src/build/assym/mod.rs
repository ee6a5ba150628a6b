//! `assym.h`: offsets and constants of C for assembly. A gate takes them from debugging data (CTF) and from a program that
//! it runs. Here gcc compiles tables of them, and they are read from the object.

mod constants;
mod offsets;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Object as _, ObjectSection as _};

use super::compile::Compiler;
use super::flags::{KERNEL, NOT_LINUX, translated};
use super::fresh::{self, beside};
use super::place::Place;
use super::tools;
use super::unit::Unit;

/// The headers, each with its lists of offsets below `usr/src/uts`.
const HEADERS: [(&str, &[&str]); 2] = [
    ("assym.h", &["i86pc/ml/offsets.in", "intel/amd64/ml/mach_offsets.in"]),
    ("kdi_assym.h", &["intel/kdi/kdi_offsets.in"]),
];
/// The program that prints constants.
const PROGRAM: &str = "i86pc/ml/genassym.c";

/// Makes the headers, if one is out of date.
///
/// # Errors
///
/// A list names what the gate's headers do not have, or is not understood.
pub fn make(place: &Place, compiler: &Compiler) -> Result<()> {
    let unit = Unit::read(place, "i86pc/genassym")?;
    let mut flags: Vec<String> = KERNEL.iter().chain(NOT_LINUX).map(|flag| flag.to_string()).collect();
    flags.extend(translated(&unit.words("CPPFLAGS")?, &place.uts()));
    flags.push(format!("-I{}", place.generated().display()));
    let program = place.uts().join(PROGRAM);
    let key = format!("{}{}", compiler.identity, flags.join("\n"));
    let mut constants = None;
    for (name, lists) in HEADERS {
        let lists: Vec<PathBuf> = lists.iter().map(|list| place.uts().join(list)).collect();
        let c = C::new(&flags, place.generated().join("assym"));
        // Beside the header, which keeps its time if it comes out the same.
        let done = c.dir.join(name);
        if !compiler.times.stale(&done, &key) {
            continue;
        }
        fresh::forget(&done);
        let mut text = String::new();
        for list in &lists {
            text += &offsets::header(&c, list).with_context(|| list.display().to_string())?;
        }
        let said = match constants.take() {
            Some(said) => said,
            None => constants::header(&c, &program).with_context(|| program.display().to_string())?,
        };
        text += &said;
        constants = Some(said);
        fresh::write(&place.generated().join(name), text.as_bytes())?;
        fs::write(&done, "").with_context(|| done.display().to_string())?;
        c.list_dependencies(&done, &[lists, vec![program.clone()]].concat())?;
        fresh::made(&done, &key)?;
    }
    Ok(())
}

/// gcc, to be asked what C declarations come to.
#[derive(Debug)]
struct C<'a> {
    flags: &'a [String],
    dir: PathBuf,
    /// The files that tables included.
    included: RefCell<BTreeSet<String>>,
}

impl<'a> C<'a> {
    fn new(flags: &'a [String], dir: PathBuf) -> C<'a> {
        C { flags, dir, included: RefCell::default() }
    }

    fn gcc(&self) -> Command {
        let mut gcc = Command::new("gcc");
        gcc.args(self.flags).current_dir(&self.dir);
        gcc
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        fs::write(self.dir.join(name), text).with_context(|| name.to_string())
    }

    /// `text` after the preprocessor.
    fn preprocessed(&self, text: &str) -> Result<String> {
        self.write("list.c", text)?;
        let text = tools::run(self.gcc().args(["-E", "list.c"]))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The lines of `text`, from 1, in which gcc finds an error.
    fn lines_in_error(&self, text: &str) -> Result<Vec<usize>> {
        self.write("probe.c", text)?;
        let mut gcc = self.gcc();
        let output = gcc.args(["-fmax-errors=0", "-fsyntax-only", "probe.c"]).env("LC_ALL", "C").output();
        let said = output.context("cannot run gcc")?.stderr;
        let said = String::from_utf8_lossy(&said);
        let line = |line: &str| {
            let (at, what) = line.strip_prefix("probe.c:")?.split_once(": ")?;
            what.starts_with("error").then(|| at.split(':').next()?.parse().ok())?
        };
        Ok(said.lines().filter_map(line).collect())
    }

    /// The values of the constant expressions `values`, after the declarations `head`.
    fn values(&self, head: &str, values: &[String]) -> Result<Vec<u64>> {
        let items: String = values.iter().map(|value| format!("(unsigned long long)({value}),\n")).collect();
        self.table(&format!("{head}\nconst unsigned long long table[] = {{\n{items}0 }};\n"), values.len())
    }

    /// The first `count` values of the array `table` that `text` defines.
    fn table(&self, text: &str, count: usize) -> Result<Vec<u64>> {
        self.write("table.c", text)?;
        let section = "-fdata-sections";
        tools::run(self.gcc().args([section, "-MD", "-MF", "table.d", "-c", "-o", "table.o", "table.c"]))?;
        let list = fs::read_to_string(self.dir.join("table.d")).context("table.d")?;
        self.included
            .borrow_mut()
            .extend(fresh::prerequisites(&list).into_iter().filter(|path| path != "table.c"));
        let bytes = fs::read(self.dir.join("table.o")).context("table.o")?;
        let object = object::File::parse(&*bytes).context("table.o")?;
        let Some(section) = object.section_by_name(".rodata.table") else { bail!("gcc made no table") };
        let words = section.data()?.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
        let words: Vec<u64> = words.collect::<Result<_, _>>()?;
        words.get(..count).map(<[u64]>::to_vec).context("the table is short")
    }

    /// Writes the dependency file of `done`: `from`, and what tables included.
    fn list_dependencies(&self, done: &Path, from: &[PathBuf]) -> Result<()> {
        let from = from.iter().map(|path| path.display().to_string());
        let all: Vec<String> = from.chain(self.included.borrow().iter().cloned()).collect();
        fs::write(beside(done, "d"), format!("header: {}\n", all.join(" ")))
            .context("writing a dependency file")
    }
}

/// A line of a header.
fn define(name: &str, value: u64) -> String {
    format!("#define\t{name}\t{value:#x}\n")
}

/// A file's text.
fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
