//! Modules: which there have to be, and how one is linked.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::compile::{Compiler, Job};
use super::facts;
use super::fresh;
use super::place::Place;
use super::pool;
use super::tools;
use super::unit::{Code, Known, Unit};

/// The layout.
const SCRIPT: &str = include_str!("module.ld");

/// A module to make.
#[derive(Debug)]
pub struct Module {
    unit: Unit,
    /// What to compile; nothing if kmod makes it.
    pub jobs: Vec<Job>,
}

/// The directories of the modules `wanted` and of all that they need, each read.
///
/// # Errors
///
/// A makefile is not understood, or a module is needed that no directory makes.
pub fn closure(place: &Place, wanted: &[&str]) -> Result<Vec<Unit>> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut wave: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
    let mut units = Vec::new();
    while !wave.is_empty() {
        wave.retain(|name| seen.insert(name.clone()));
        let read = pool::each(&wave, |name| Unit::read(place, name))?;
        wave = Vec::new();
        for unit in &read {
            let unnamed = facts::UNNAMED.iter().filter(|(needs, _)| *needs == unit.name);
            wave.extend(unnamed.map(|(_, needed)| needed.to_string()));
            for need in unit.needs()? {
                wave.push(maker(&place.uts(), &need).with_context(|| format!("{} needs it", unit.name))?);
            }
        }
        wave.sort();
        wave.dedup();
        units.extend(read);
    }
    Ok(units)
}

/// The directory that makes module `need` (`misc/mac`), the machine's own first.
fn maker(uts: &Path, need: &str) -> Result<String> {
    let name = need.rsplit('/').next().unwrap_or(need);
    let found = ["i86pc", "intel"].map(|dir| format!("{dir}/{name}"));
    let found = found.into_iter().find(|dir| uts.join(dir).join("Makefile").is_file());
    found.with_context(|| format!("no directory makes {need}"))
}

impl Module {
    /// What `unit` takes to make.
    ///
    /// # Errors
    ///
    /// An object has no source.
    pub fn new(place: &Place, known: &Known, unit: Unit) -> Result<Module> {
        if unit.is_ours() {
            return Ok(Module { unit, jobs: Vec::new() });
        }
        let objects = unit.objects("OBJECTS")?;
        if objects.is_empty() {
            bail!("{}: nothing in OBJECTS", unit.name);
        }
        let sources = unit.sources()?;
        let jobs = objects
            .iter()
            .map(|name| sources.job(place, known, Code::Kernel, name))
            .collect::<Result<_>>()?;
        drop(sources);
        Ok(Module { unit, jobs })
    }

    /// Puts the module with its other names and its driver.conf into `root`; one with a Rust part comes from `proto`. Returns
    /// the paths, from the root.
    ///
    /// # Errors
    ///
    /// ld fails, or a file cannot be written.
    pub fn install(
        &self,
        place: &Place,
        compiler: &Compiler,
        proto: &Path,
        root: &Path,
    ) -> Result<Vec<PathBuf>> {
        let path = self.unit.module()?;
        let module = root.join(&path);
        match self.unit.is_ours() {
            true => copy(&proto.join(&path), &module)?,
            false => self.link(place, compiler, &module)?,
        }
        let mut paths = vec![path];
        for link in self.unit.links()? {
            hard_link(&module, &root.join(&link)).with_context(|| link.display().to_string())?;
            paths.push(link);
        }
        if let Some((source, conf)) = self.unit.conf()? {
            copy(&source, &root.join(&conf))?;
            paths.push(conf);
        }
        Ok(paths)
    }

    fn link(&self, place: &Place, compiler: &Compiler, module: &Path) -> Result<()> {
        let needs = self.unit.needs()?;
        let mut objects: Vec<PathBuf> = self.jobs.iter().map(|job| job.object.clone()).collect();
        let dir = place.objects(&self.unit.name);
        let stamp = dir.join("module");
        let key = [compiler.identity.as_str(), &needs.join(" "), SCRIPT].concat();
        if module.is_file() && !fresh::stale_from(&stamp, &key, &objects) {
            return Ok(());
        }
        fresh::forget(&stamp);
        let script = dir.join("module.ld");
        fs::write(&script, SCRIPT).with_context(|| script.display().to_string())?;
        if !needs.is_empty() {
            objects.push(dir.join("needs.o"));
            tools::assemble(&depends_on(&needs), &dir.join("needs.o"))?;
        }
        let joined = dir.join("module.joined");
        let mut ld = Command::new("ld");
        ld.args(["-r", "-z", "noexecstack", "-T"]).arg(&script).arg("-o").arg(&joined).args(&objects);
        tools::run(&mut ld).with_context(|| self.unit.name.clone())?;
        copy(&joined, module)?;
        fs::write(&stamp, "").with_context(|| stamp.display().to_string())?;
        fresh::made(&stamp, &key)
    }
}

/// illumos's ld writes what a module needs (`-N`) into a dynamic section, which GNU's cannot do in a relocatable link. krtld
/// also takes it from this symbol, though a DEBUG kernel calls that deprecated.
fn depends_on(needs: &[String]) -> String {
    format!(
        "\t.section .rodata\n\t.globl _depends_on\n\t.type _depends_on,@object\n_depends_on:\n\
         \t.asciz \"{}\"\n\t.size _depends_on, . - _depends_on\n",
        needs.join(" ")
    )
}

/// Copies `from` to `to` unless it is the same; other names of an old `to` keep the old one.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| from.display().to_string())?;
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if to.is_file() {
        fs::remove_file(to).with_context(|| to.display().to_string())?;
    }
    fresh::write(to, &bytes)
}

/// Makes `link` another name of `file`.
fn hard_link(file: &Path, link: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let inode = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    if inode(link).is_ok_and(|there| inode(file).is_ok_and(|file| file == there)) {
        return Ok(());
    }
    if let Some(dir) = link.parent() {
        fs::create_dir_all(dir)?;
    }
    if link.exists() {
        fs::remove_file(link)?;
    }
    Ok(fs::hard_link(file, link)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate of directories with such makefiles.
    fn gate(units: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { gate: dir.path().join("gate"), out: dir.path().join("out"), debug: true };
        for (name, makefile) in units {
            let dir = place.uts().join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("Makefile"), makefile).unwrap();
        }
        (dir, place)
    }

    fn names(place: &Place, wanted: &[&str]) -> Vec<String> {
        closure(place, wanted).unwrap().into_iter().map(|unit| unit.name).collect()
    }

    #[test]
    fn what_a_module_needs_comes_along_and_that_from_the_machines_directory_first() {
        let (_dir, place) = gate(&[
            ("intel/ibp", "LDFLAGS += -dy -Nmisc/mac -N misc/bus\n"),
            ("intel/mac", "LDFLAGS = -Ndrv/ibp\n"),
            ("intel/bus", ""),
            ("i86pc/bus", ""),
            ("intel/other", ""),
        ]);
        assert_eq!(names(&place, &["intel/ibp", "intel/mac"]), ["intel/ibp", "intel/mac", "i86pc/bus"]);
    }

    #[test]
    fn a_module_that_nothing_makes_is_named_with_who_needs_it() {
        let (_dir, place) = gate(&[("intel/ibp", "LDFLAGS = -Nmisc/absent\n")]);
        let error = format!("{:#}", closure(&place, &["intel/ibp"]).unwrap_err());
        assert!(error.contains("intel/ibp") && error.contains("misc/absent"), "{error}");
    }

    #[test]
    fn a_module_is_linked_under_all_its_names_and_says_what_it_needs() {
        let makefile = "OBJECTS = $(A:%=$(OBJS_DIR)/%)\nA = one.o two.o\nROOTMODULE = $(ROOT)/kernel/drv/amd64/m\n\
            ROOTLINK = $(ROOT)/kernel/strmod/amd64/m\nLDFLAGS = -Nmisc/mac\nCONF_SRCDIR = conf\n\
            SRC_CONFFILE = $(CONF_SRCDIR)/m.conf\nROOT_CONFFILE = $(ROOT)/kernel/drv/m.conf\n\
            COMPILE.c = cw $(CPPFLAGS) -c\nCPPFLAGS = -DVALUE=$(N)\nN = 1\n$(OBJS_DIR)/two.o := N = 2\n\
            $(OBJS_DIR)/%.o: src/%.c\n\t$(COMPILE.c) -o $@ $<\n";
        let (_dir, place) = gate(&[("intel/m", makefile)]);
        let dir = place.uts().join("intel/m");
        for (name, text) in
            [("src/one.c", "int one = VALUE;"), ("src/two.c", "int two = VALUE;"), ("conf/m.conf", "x")]
        {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), text).unwrap();
        }
        let unit = Unit::read(&place, "intel/m").unwrap();
        let module = Module::new(&place, &Known::default(), unit).unwrap();
        let compiler =
            Compiler { identity: String::new(), gates: Vec::new(), times: fresh::Times::default() };
        module.jobs.iter().for_each(|job| compiler.run(job).unwrap());
        let paths = module.install(&place, &compiler, Path::new("/nowhere"), &place.root()).unwrap();
        assert_eq!(
            paths,
            ["kernel/drv/amd64/m", "kernel/strmod/amd64/m", "kernel/drv/m.conf"].map(PathBuf::from)
        );
        let image = fs::read(place.root().join("kernel/strmod/amd64/m")).unwrap();
        let elf = kmod::elf::Elf::parse(&image).unwrap();
        let word = |name: &str| {
            let symbol = elf.symbols.iter().find(|symbol| symbol.name == name).unwrap();
            image[elf.sections[usize::from(symbol.section)].contents.start + symbol.value as usize]
        };
        assert_eq!((word("one"), word("two")), (1, 2));
        assert!(image.windows(9).any(|bytes| bytes == b"misc/mac\0"));
        assert!(elf.sections.iter().all(|section| section.addr == 0));
    }
}
