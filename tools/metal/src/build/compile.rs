//! One source to one object.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::flags::NOT_LINUX;
use super::fresh::{self, Times, beside};
use super::tools;

/// One compilation.
#[derive(Debug)]
pub struct Job {
    /// C, or assembly with the preprocessor.
    pub source: PathBuf,
    /// What to make.
    pub object: PathBuf,
    /// All of gcc's flags but those of every job.
    pub flags: Vec<String>,
    /// For the processor as it is switched on, not for amd64.
    pub bits32: bool,
}

/// What every job shares.
#[derive(Debug)]
pub struct Compiler {
    /// What the compiler calls itself.
    pub identity: String,
    /// Gates, whose paths are left out of the objects: with `ASSERT` they carry the names of their sources.
    pub gates: Vec<PathBuf>,
    /// When files were changed.
    pub times: Times,
}

impl Compiler {
    /// What decides how `job` comes out, sources apart.
    fn key(&self, job: &Job) -> String {
        format!("{}\n{}\n{}\n", self.identity, job.source.display(), job.flags.join("\n"))
    }

    /// Whether `job` has to be done.
    pub fn stale(&self, job: &Job) -> bool {
        self.times.stale(&job.object, &self.key(job))
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// The compiler's own words, with the name of the source.
    pub fn run(&self, job: &Job) -> Result<()> {
        let dir = job.object.parent().context("an object has a directory")?;
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        fresh::forget(&job.object);
        match Assembly::of(&job.source) {
            Some(kind) => self.assembly(job, kind),
            None => self.c(job),
        }
        .with_context(|| job.source.display().to_string())?;
        fresh::made(&job.object, &self.key(job))
    }

    fn gcc(&self, job: &Job) -> Command {
        let mut gcc = Command::new("gcc");
        gcc.arg(if job.bits32 { "-m32" } else { "-m64" }).args(NOT_LINUX).args(&job.flags);
        gcc.arg("-MD").arg("-MF").arg(beside(&job.object, "d")).arg("-MT").arg(&job.object);
        gcc
    }

    fn c(&self, job: &Job) -> Result<()> {
        let maps = self.gates.iter().map(|gate| format!("-fmacro-prefix-map={}/=", gate.display()));
        tools::run(self.gcc(job).args(maps).arg("-c").arg("-o").arg(&job.object).arg(&job.source))?;
        Ok(())
    }

    fn assembly(&self, job: &Job, kind: Assembly) -> Result<()> {
        let mut cpp = self.gcc(job);
        cpp.args(["-E", "-x", "assembler-with-cpp", "-nostdinc", "-D__GNUC_AS__"]);
        if kind == Assembly::Traditional {
            cpp.arg("-traditional-cpp");
        }
        let text = tools::run(cpp.arg(&job.source))?;
        let source = beside(&job.object, "s");
        let text = without_comments(&String::from_utf8_lossy(&text));
        fs::write(&source, text).with_context(|| source.display().to_string())?;
        let mut gas = Command::new("as");
        gas.arg(if job.bits32 { "--32" } else { "--64" });
        tools::run(gas.arg("-o").arg(&job.object).arg(&source))?;
        Ok(())
    }
}

/// For an assembler of Solaris a `/` begins a comment, unless it is in a string; GNU as on Linux divides by it.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let end = if line.starts_with('#') { line.len() } else { comment(line).unwrap_or(line.len()) };
        out.push_str(&line[..end]);
        out.push('\n');
    }
    out
}

/// Where the comment of `line` begins.
fn comment(line: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '/' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// What preprocessor a source in assembly is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assembly {
    /// One from before the standard, which pastes by an empty comment: `a/**/b`.
    Traditional,
    /// The compiler's own, which pastes by `##`.
    Standard,
}

impl Assembly {
    /// By the name of the source: a gate whose assembler is its compiler calls it `.S`, one with a program of its own `.s`. `None`
    /// if it is no assembly.
    pub fn of(source: &Path) -> Option<Assembly> {
        match source.extension()?.to_str()? {
            "s" => Some(Assembly::Traditional),
            "S" => Some(Assembly::Standard),
            _ => None,
        }
    }
}

/// Whether `path` is a source that a job can be made of.
pub fn is_source(path: &Path) -> bool {
    Assembly::of(path).is_some() || path.extension().is_some_and(|extension| extension == "c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_comment_but_not_in_a_string_or_a_line_mark() {
        let text = "\tmovl $1, %eax\t/ one\n# 1 \"a/b.s\"\n\t.string \"a/b \\\" / c\" / d\n";
        assert_eq!(without_comments(text), "\tmovl $1, %eax\t\n# 1 \"a/b.s\"\n\t.string \"a/b \\\" / c\" \n");
    }

    fn compiler(dir: &Path) -> Compiler {
        Compiler { identity: "test".into(), gates: vec![dir.into()], times: Times::default() }
    }

    fn job(dir: &Path, source: &str) -> Job {
        let object = dir.join("out").join(source).with_extension("o");
        Job { source: dir.join(source), object, flags: vec!["-Isys".into()], bits32: false }
    }

    #[test]
    fn a_source_is_compiled_once_and_its_header_is_known() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.h"), "#define X 1\n").unwrap();
        fs::write(dir.path().join("x.c"), "#include \"x.h\"\nint x = X;\n").unwrap();
        let job = job(dir.path(), "x.c");
        assert!(compiler(dir.path()).stale(&job));
        compiler(dir.path()).run(&job).unwrap();
        assert!(!compiler(dir.path()).stale(&job));
        let list = fs::read_to_string(beside(&job.object, "d")).unwrap();
        assert!(list.contains("x.h"), "{list}");
    }

    #[test]
    fn assembly_is_pasted_in_the_way_that_its_name_says() {
        for (name, paste) in [("y.s", "a/**/b"), ("y.S", "a##b")] {
            let dir = tempfile::tempdir().unwrap();
            let text = format!("#define CAT(a, b) {paste}\n\t.globl one\nCAT(o,ne):\n\tret / it's back\n");
            fs::write(dir.path().join(name), text).unwrap();
            let job = job(dir.path(), name);
            compiler(dir.path()).run(&job).unwrap();
            let symbols = tools::run(Command::new("nm").arg(&job.object)).unwrap();
            assert!(String::from_utf8_lossy(&symbols).contains(" T one"), "{name}");
        }
    }

    #[test]
    fn what_the_compiler_says_names_the_source() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("z.c"), "int z = nothing;\n").unwrap();
        let error = format!("{:#}", compiler(dir.path()).run(&job(dir.path(), "z.c")).unwrap_err());
        assert!(error.contains("z.c") && error.contains("'nothing' undeclared"), "{error}");
    }
}
