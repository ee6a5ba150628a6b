//! A directory of the gate in which a module is made: what its makefile says.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use gate::make::{Makefile, Rules};

use super::compile::{Assembly, Job, is_source};
use super::flags::{self, translated};
use super::generate;
use super::place::{Place, plain};

/// Stands for the root in makefiles' values.
const ROOT: &str = "/ROOT";

/// A makefile with the directory it is for.
#[derive(Debug)]
pub struct Unit {
    /// The directory below `usr/src/uts`: `intel/ip`.
    pub name: String,
    dir: PathBuf,
    makefile: Makefile,
}

/// A file that is copied into the root: where from, and where to below it.
pub type Copied = (PathBuf, PathBuf);

impl Unit {
    /// Reads the makefile of `name`.
    ///
    /// # Errors
    ///
    /// It is not there, or is not understood.
    pub fn read(place: &Place, name: &str) -> Result<Unit> {
        let (src, uts) = (place.src(), place.uts());
        let utf8 = "the gate's path is not UTF-8";
        let given = [
            ("SRC", src.to_str().context(utf8)?),
            ("UTSBASE", uts.to_str().context(utf8)?),
            ("ROOT", ROOT),
            ("MACH", "i386"),
            ("MACH64", "amd64"),
            ("CLASS", "64"),
            ("BUILD_TYPE", if place.debug { "DBG64" } else { "OBJ64" }),
            ("OBJS_DIR", "OBJ"),
            ("POUND_SIGN", "#"),
            ("PRE_POUND", "pre#"),
            ("RELEASE_BUILD", ""),
            ("NOT_RELEASE_BUILD", "#"),
        ];
        let dir = uts.join(name);
        let makefile = Makefile::read(&dir.join("Makefile"), &given).with_context(|| name.to_string())?;
        Ok(Unit { name: name.into(), dir, makefile })
    }

    /// The words of a macro; none if it is not defined.
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn words(&self, name: &str) -> Result<Vec<String>> {
        split(&self.makefile.expand(&format!("$({name})"))?)
    }

    /// The names of the objects that `list` lists, without directory and `.o`, each once.
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn objects(&self, list: &str) -> Result<Vec<String>> {
        let mut seen = HashSet::new();
        let words = self.words(list)?;
        let names = words.iter().filter_map(|word| Path::new(word).file_name()?.to_str()?.strip_suffix(".o"));
        Ok(names.filter(|name| seen.insert(name.to_string())).map(String::from).collect())
    }

    /// The modules that this one needs, in the order in which krtld searches them: `misc/mac`.
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn needs(&self) -> Result<Vec<String>> {
        let words = self.words("LDFLAGS")?;
        let mut needs = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix("-N") {
                Some("") => needs.extend(words.next().cloned()),
                Some(name) => needs.push(name.to_string()),
                None => {}
            }
        }
        Ok(needs)
    }

    /// Where the module goes, from the root.
    ///
    /// # Errors
    ///
    /// The makefile does not say.
    pub fn module(&self) -> Result<PathBuf> {
        let words = self.words("ROOTMODULE")?;
        let place = words.first().and_then(|word| below_root(word));
        place.with_context(|| format!("{}: no ROOTMODULE", self.name))
    }

    /// Its other names, from the root.
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn links(&self) -> Result<Vec<PathBuf>> {
        let words = [self.words("ROOTLINK")?, self.words("ROOTSOFTLINKS")?].concat();
        Ok(words.iter().filter_map(|word| below_root(word)).collect())
    }

    /// Its driver.conf(5).
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn conf(&self) -> Result<Option<Copied>> {
        if self.words("CONF_SRCDIR")?.is_empty() {
            return Ok(None);
        }
        let source = self.words("SRC_CONFFILE")?.first().map(|word| plain(&self.dir.join(word)));
        let to = self.words("ROOT_CONFFILE")?.first().and_then(|word| below_root(word));
        Ok(source.zip(to).filter(|(source, _)| source.is_file()))
    }

    /// Whether it has a Rust part: it is ours, and kmod makes it.
    pub fn is_ours(&self) -> bool {
        self.makefile.defines("RUST_CRATE")
    }

    /// The makefile's rules, to make jobs with.
    ///
    /// # Errors
    ///
    /// The makefile's macros refer to each other in a circle, or are not words.
    pub fn sources(&self) -> Result<Sources<'_>> {
        Ok(Sources { unit: self, rules: self.makefile.rules()? })
    }
}

fn split(text: &str) -> Result<Vec<String>> {
    shlex::split(text).with_context(|| format!("not a shell's words: {text}"))
}

/// A place below the root; `..` and a second `/` in front do not lead out of it.
fn below_root(path: &str) -> Option<PathBuf> {
    path.strip_prefix(ROOT)?.strip_prefix('/').map(|path| plain(Path::new(path.trim_start_matches('/'))))
}

/// How a unit's objects are made.
#[derive(Debug)]
pub struct Sources<'a> {
    unit: &'a Unit,
    rules: Rules<'a>,
}

/// What code a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The kernel's.
    Kernel,
    /// dboot's: before the processor is in 64-bit mode.
    Dboot,
}

impl Code {
    /// Where a makefile has its objects.
    fn objects(self) -> &'static str {
        match self {
            Self::Kernel => "$(OBJS_DIR)",
            Self::Dboot => "$(DBOOT_OBJS_DIR)",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Kernel => flags::KERNEL,
            Self::Dboot => flags::DBOOT,
        }
    }
}

impl Sources<'_> {
    /// The job that makes object `name`.
    ///
    /// # Errors
    ///
    /// No source is found for it, or a program that makes it fails.
    pub fn job(&self, place: &Place, known: &Known, code: Code, name: &str) -> Result<Job> {
        let Unit { dir, makefile, name: unit } = self.unit;
        let there = |path: &Path| known.there(path);
        let target = makefile.expand(&format!("{}/{name}.o", code.objects()))?;
        let found = self.rules.recipe(&target, dir, &there).filter(|found| is_source(&found.source));
        if let Some(found) = found {
            return self.job_by(place, code, name, plain(&found.source), found.lines);
        }
        let made = self.made(place, known, name)?;
        self.job_by(place, code, name, made.with_context(|| format!("{unit}: nothing makes {name}.o"))?, &[])
    }

    /// The source from which a rule makes object `name`.
    ///
    /// # Errors
    ///
    /// No rule does.
    pub fn source(&self, known: &Known, name: &str) -> Result<PathBuf> {
        let Unit { dir, makefile, name: unit } = self.unit;
        let target = makefile.expand(&format!("{}/{name}.o", Code::Kernel.objects()))?;
        let found = self.rules.recipe(&target, dir, &|path| known.there(path));
        let found =
            found.with_context(|| format!("{unit}: no rule makes {name}.o of a file that is there"))?;
        Ok(plain(&found.source))
    }

    /// The job that makes object `name` of `source`, whatever the makefile takes for it.
    ///
    /// # Errors
    ///
    /// Macros refer to each other in a circle.
    pub fn job_from(&self, place: &Place, name: &str, source: PathBuf) -> Result<Job> {
        self.job_by(place, Code::Kernel, name, source, &[])
    }

    fn job_by(
        &self,
        place: &Place,
        code: Code,
        name: &str,
        source: PathBuf,
        lines: &[String],
    ) -> Result<Job> {
        let Unit { dir, makefile, name: unit } = self.unit;
        let scope = makefile.at(&makefile.expand(&format!("{}/{name}.o", code.objects()))?)?;
        let assembly = Assembly::of(&source).is_some();
        let standard = if assembly { "$(COMPILE.s) -o $@ $<" } else { "$(COMPILE.c) -o $@ $<" };
        let recipe = lines.iter().find(|line| line.contains(" -o ")).map_or(standard, String::as_str);
        let base = if assembly { &["-D_ASM"] } else { code.flags() };
        let mut flags: Vec<String> = base.iter().map(|flag| flag.to_string()).collect();
        flags.extend(translated(&split(&scope.expand(recipe)?)?, dir));
        flags.push(format!("-I{}", place.generated().display()));
        let objects = place.objects(if code == Code::Dboot { "dboot" } else { unit });
        let object = objects.join(format!("{name}.o"));
        Ok(Job { source, object, flags, bits32: code == Code::Dboot })
    }

    /// A source that is made: by this tool, or by a program of the gate's for which the makefile has a rule.
    fn made(&self, place: &Place, known: &Known, name: &str) -> Result<Option<PathBuf>> {
        let generated = place.generated();
        let c = generated.join(name).with_extension("c");
        if c.is_file() {
            return Ok(Some(c));
        }
        let there = |path: &Path| known.there(path);
        let rule = |ending: &str| {
            let assembly = format!("{name}.{ending}");
            self.rules.recipe(&assembly, &self.unit.dir, &there).map(|program| (assembly, program))
        };
        let Some((assembly, program)) = ["s", "S"].into_iter().find_map(rule) else { return Ok(None) };
        if program.source.extension().is_none_or(|extension| extension != "pl") {
            bail!("{assembly} would be made of {}", program.source.display());
        }
        let output = generated.join(assembly);
        generate::by_perl(&plain(&program.source), &output)?;
        Ok(Some(output))
    }
}

/// Which files are there. A gate has 700 patterns that each object is held to, so a directory is read once.
#[derive(Debug, Default)]
pub struct Known {
    dirs: Mutex<HashMap<PathBuf, HashSet<String>>>,
}

impl Known {
    fn there(&self, path: &Path) -> bool {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
            return false;
        };
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = dirs.get(dir) {
            return names.contains(name);
        }
        let names = names_in(&plain(dir));
        let there = names.contains(name);
        dirs.insert(dir.to_path_buf(), names);
        there
    }
}

fn names_in(dir: &Path) -> HashSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate whose directory `intel/m` has these files.
    fn gate(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { gate: dir.path().join("gate"), out: dir.path().join("out"), debug: true };
        fs::create_dir_all(place.uts().join("intel/m/src")).unwrap();
        fs::create_dir_all(place.generated()).unwrap();
        for (name, text) in files {
            fs::write(place.uts().join("intel/m").join(name), text).unwrap();
        }
        (dir, place)
    }

    #[test]
    fn assembly_may_be_written_for_either_preprocessor() {
        let makefile = "AS_DEFS = -D_ASM\nCOMPILE.s = as $(AS_DEFS)\n$(OBJS_DIR)/%.o: src/%.s\n\t$(COMPILE.s) -o $@ $<\n\
            $(OBJS_DIR)/%.o: src/%.S\n\t$(COMPILE.s) -o $@ $<\nhash.S: hash.pl\n\t$(PERL) $? $@\n\
            sum.s: hash.pl\n\t$(PERL) $? $@\n";
        let perl = "print \"# \", shift, \"\\n\";\n";
        let (_dir, place) =
            gate(&[("Makefile", makefile), ("src/old.s", ""), ("src/new.S", ""), ("hash.pl", perl)]);
        let unit = Unit::read(&place, "intel/m").unwrap();
        let sources = unit.sources().unwrap();
        let source = |name: &str| {
            let job = sources.job(&place, &Known::default(), Code::Kernel, name).unwrap();
            assert!(job.flags.contains(&"-D_ASM".to_string()), "{name}: {:?}", job.flags);
            job.source.file_name().unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(["old", "new", "hash", "sum"].map(source), ["old.s", "new.S", "hash.S", "sum.s"]);
    }

    /// Before, `/ROOT//etc/x` was `/etc/x` of the workstation.
    #[test]
    fn a_module_stays_below_the_root() {
        for (word, place) in [
            ("/ROOT/kernel/drv/x", Some("kernel/drv/x")),
            ("/ROOT//etc/x", Some("etc/x")),
            ("/ROOT///etc/x", Some("etc/x")),
            ("/ROOT/../../etc/x", Some("etc/x")),
            ("/ROOT/./..//../etc/x", Some("etc/x")),
            ("/ROOTS/x", None),
            ("/etc/x", None),
            ("etc/x", None),
        ] {
            assert_eq!(below_root(word).as_deref(), place.map(Path::new), "{word}");
        }
    }

    #[test]
    fn a_rule_says_what_an_object_is_made_of() {
        let makefile =
            "$(OBJS_DIR)/blob.o: src/blob_src.S\n\t$(COMPILE.s) -o $(OBJS_DIR)/blob_src.o src/blob_src.S\n";
        let (_dir, place) = gate(&[("Makefile", makefile), ("src/blob_src.S", "")]);
        let unit = Unit::read(&place, "intel/m").unwrap();
        let source = |name: &str| unit.sources().unwrap().source(&Known::default(), name);
        assert_eq!(source("blob").unwrap(), place.uts().join("intel/m/src/blob_src.S"));
        let error = source("other").unwrap_err().to_string();
        assert!(error.contains("intel/m") && error.contains("other.o"), "{error}");
    }
}
