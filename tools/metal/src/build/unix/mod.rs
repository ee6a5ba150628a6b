//! unix: the part of the kernel that a boot loader loads. Its objects, dboot in front, and what krtld needs to link
//! genunix to it.

mod carried;
mod dynamic;
mod link;
mod multiboot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::compile::{Compiler, Job};
use super::facts;
use super::fresh;
use super::place::{Place, plain};
use super::tools;
use super::unit::{Code, Known, Unit};

/// What `uname` says.
const VERSION: [&str; 3] = ["-DUTS_RELEASE=\"5.11\"", "-DUTS_VERSION=\"metal\"", "-DUTS_PLATFORM=\"i86pc\""];

/// What else decides how unix is linked: who has another one links again.
const LINKER: &str = concat!(
    include_str!("carried.rs"),
    include_str!("dynamic.rs"),
    include_str!("link.rs"),
    include_str!("multiboot.rs")
);

/// What unix is made of, before anything is compiled.
#[derive(Debug)]
pub struct Unix {
    objects: Vec<Job>,
    dboot: Vec<Job>,
    blobs: Vec<Job>,
    library: Vec<Job>,
    dir: PathBuf,
}

impl Unix {
    /// Reads the makefile.
    ///
    /// # Errors
    ///
    /// It is not understood, or an object has no source.
    pub fn read(place: &Place, known: &Known) -> Result<Unix> {
        let unit = Unit::read(place, "i86pc/unix")?;
        let sources = unit.sources()?;
        let special =
            |name: &String| *name == facts::LIBRARY.0 || facts::BLOBS.iter().any(|(blob, _)| name == blob);
        let names: Vec<String> = unit.objects("OBJECTS")?.into_iter().filter(|name| !special(name)).collect();
        let jobs = |code: Code, names: &[String]| -> Result<Vec<Job>> {
            names.iter().map(|name| sources.job(place, known, code, name)).collect()
        };
        let mut objects = jobs(Code::Kernel, &names)?;
        // The first prerequisite of its rule is not its source.
        let mut version = sources.job_from(place, "vers", place.uts().join("common/os/vers.c"))?;
        version.flags.extend(VERSION.map(String::from));
        let stubs = unit.words("MODSTUBS")?;
        let stubs = stubs.first().with_context(|| format!("{}: no MODSTUBS", unit.name))?;
        objects.extend([version, sources.job_from(place, "modstubs", plain(Path::new(stubs)))?]);
        let blob = |name: &str| sources.job_from(place, &format!("{name}_src"), sources.source(known, name)?);
        Ok(Unix {
            objects,
            dboot: jobs(Code::Dboot, &unit.objects("DBOOT_OBJS")?)?,
            blobs: facts::BLOBS.iter().map(|(name, _)| blob(name)).collect::<Result<_>>()?,
            library: jobs(Code::Kernel, &unit.objects("ZLIB_OBJS")?)?,
            dir: place.objects(&unit.name),
        })
    }

    /// Everything to compile.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.objects.iter().chain(&self.dboot).chain(&self.blobs).chain(&self.library)
    }

    /// Links unix into the root, if something of it is newer. True if it did.
    ///
    /// # Errors
    ///
    /// ld fails, or what comes out is not what the kernel counts on.
    pub fn link(&self, place: &Place, compiler: &Compiler) -> Result<bool> {
        let unix = place.root().join(facts::UNIX);
        let inputs: Vec<&Path> = self.jobs().map(|job| job.object.as_path()).collect();
        let stamp = self.dir.join("unix");
        let key = [compiler.identity.as_str(), link::SCRIPT, carried::SCRIPTS, LINKER].concat();
        if unix.is_file() && !fresh::stale_from(&stamp, &key, &inputs) {
            return Ok(false);
        }
        fresh::forget(&stamp);
        let mut objects: Vec<PathBuf> = self.objects.iter().map(|job| job.object.clone()).collect();
        // Text begins with it, whatever the order of the makefile.
        objects.sort_by_key(|object| object.file_stem().is_none_or(|name| name != facts::FIRST_OBJECT));
        for (job, (name, symbol)) in self.blobs.iter().zip(facts::BLOBS) {
            objects.push(carried::blob(&job.object, &self.dir.join(name), symbol)?);
        }
        if !self.library.is_empty() {
            objects.push(library(&self.library, place, &self.dir)?);
        }
        let dboot = objects_of(&self.dboot);
        let dboot = carried::dboot(&dboot, &place.objects("dboot"))?;
        let image = link::link(&objects, &dboot, &self.dir)?;
        fs::create_dir_all(unix.parent().unwrap_or(&unix))?;
        fs::write(&unix, &image).with_context(|| unix.display().to_string())?;
        fs::write(&stamp, "").with_context(|| stamp.display().to_string())?;
        fresh::made(&stamp, &key)?;
        Ok(true)
    }
}

fn objects_of(jobs: &[Job]) -> Vec<PathBuf> {
    jobs.iter().map(|job| job.object.clone()).collect()
}

/// zlib as one object that shows what its mapfile lists, and keeps the rest to itself: dboot and genunix have some of the same
/// names.
fn library(jobs: &[Job], place: &Place, dir: &Path) -> Result<PathBuf> {
    let (name, mapfile) = facts::LIBRARY;
    let object = dir.join(name).with_extension("o");
    let mapfile = place.uts().join(mapfile);
    let text = fs::read_to_string(&mapfile).with_context(|| mapfile.display().to_string())?;
    tools::run(Command::new("ld").args(["-r", "-o"]).arg(&object).args(objects_of(jobs)))?;
    let keep = global_names(&text).into_iter().map(|name| format!("--keep-global-symbol={name}"));
    tools::run(Command::new("objcopy").args(keep).arg(&object))?;
    Ok(object)
}

/// The names between `global:` and `local:` of a mapfile.
fn global_names(mapfile: &str) -> Vec<String> {
    let lines = mapfile.lines().map(|line| line.split('#').next().unwrap_or_default());
    let text: String = lines.collect::<Vec<_>>().join("\n");
    let inside =
        text.split_once("global:").map_or("", |(_, rest)| rest.split("local:").next().unwrap_or_default());
    inside.split(';').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapfile_says_what_stays_global() {
        let text = "# global: no\n$mapfile_version 2\nSYMBOL_SCOPE {\n\tglobal:\n\t\t# why;\n\t\tone;\n\t\ttwo;\n\tlocal:\n\t\t*;\n};\n";
        assert_eq!(global_names(text), ["one", "two"]);
    }

    #[test]
    fn the_makefile_says_where_the_stubs_and_the_programs_are() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { gate: dir.path().join("gate"), out: dir.path().join("out"), debug: true };
        let makefile = "MODSTUBS = $(UTSBASE)/ml/stubs.S\n$(OBJS_DIR)/bios_call.o: $(UTSBASE)/ml/bios.S\n\t$(LD) -o $@ $<\n\
            $(OBJS_DIR)/fb_swtch.o: $(UTSBASE)/i86pc/../ml/fb.s\n\t$(LD) -o $@ $<\n";
        for (name, text) in [("i86pc/unix/Makefile", makefile), ("ml/bios.S", ""), ("ml/fb.s", "")] {
            fresh::write(&place.uts().join(name), text.as_bytes()).unwrap();
        }
        let unix = Unix::read(&place, &Known::default()).unwrap();
        let made = |job: &Job| {
            let source = job.source.strip_prefix(place.uts()).unwrap().display().to_string();
            (source, job.object.file_name().unwrap().to_string_lossy().into_owned())
        };
        let expected = [
            ("common/os/vers.c", "vers.o"),
            ("ml/stubs.S", "modstubs.o"),
            ("ml/bios.S", "bios_call_src.o"),
            ("ml/fb.s", "fb_swtch_src.o"),
        ];
        let expected = expected.map(|(source, object)| (source.to_string(), object.to_string()));
        assert_eq!(unix.jobs().map(made).collect::<Vec<_>>(), expected);
    }
}
