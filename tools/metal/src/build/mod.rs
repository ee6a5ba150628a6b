//! From a gate's sources to a root file system that boots.
//!
//! A gate is made by illumos's dmake, compilers and linker; none of them runs here. Its makefiles are read (`unit`) by
//! our own reading of dmake's language, gcc compiles (`compile`, `flags`) and GNU ld links (`module`, `unix`).
//! Nothing in the gate is changed: our sources go into a shadow of it (`shadow`).

mod archive;
mod assym;
mod compile;
mod etc;
mod facts;
mod flags;
mod fresh;
mod generate;
mod module;
mod place;
mod pool;
mod progress;
mod shadow;
pub(crate) mod tools;
mod unit;
mod unix;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use archive::{Layout, archive};
use compile::{Compiler, Job};
use module::Module;
use place::Place;
use progress::Stage;
use unit::Known;
use unix::Unix;

/// What to build.
#[derive(Debug)]
pub struct Options {
    /// Our own tree.
    pub tree: PathBuf,
    /// The directory that holds the gate's usr/src.
    pub gate: PathBuf,
    /// Where everything goes that is made.
    pub out: PathBuf,
    /// With the kernel's own checks.
    pub debug: bool,
    /// Also the gate's C driver and plugin, as an overlay.
    pub c_driver: bool,
}

/// What was built.
#[derive(Debug)]
pub struct Built {
    /// A root file system with unix, modules and /etc; our driver and plugin are in it. Modules have their symbols.
    pub root: PathBuf,
    /// The gate's C driver and plugin, to be laid over the root.
    pub c_driver: PathBuf,
}

impl Built {
    /// Where a kernel is built: `OUT/debug` or `OUT/plain`.
    pub fn at(out: &Path, debug: bool) -> Built {
        let dir = out.join(if debug { "debug" } else { "plain" });
        Built { root: dir.join("root"), c_driver: dir.join("driver-c") }
    }
}

/// Builds a kernel, or what has changed of it.
///
/// # Errors
///
/// A tool is missing (one line says what to install), the gate is none that is understood, or something does not compile: the
/// compiler's own words name the file.
pub fn build(options: &Options) -> Result<Built> {
    let identity = tools::check()?;
    fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let out = options.out.canonicalize()?;
    let gate =
        options.gate.canonicalize().with_context(|| format!("no gate at {}", options.gate.display()))?;
    let built = Built::at(&out, options.debug);
    let dir = built.root.parent().context("a root has a directory")?.to_path_buf();
    let place = Place { gate: out.join("gate"), out: dir, debug: options.debug };
    let theirs = Place { gate: gate.clone(), ..place.clone() };
    let compiler =
        Compiler { identity, gates: vec![place.gate.clone(), gate.clone()], times: fresh::Times::default() };
    fs::create_dir_all(place.generated())?;

    stage("sources", || {
        shadow::make(&options.tree, &gate, &place.gate)?;
        generate::all(&place)?;
        assym::make(&place, &compiler)?;
        Ok(((), "the gate with ours in it, headers".into()))
    })?;
    let plan = stage("makefiles", || {
        let plan = Plan::read(&place, &theirs, &options.tree, options.c_driver)?;
        let said = format!("unix, {} modules, {} objects", plan.modules.len(), plan.jobs().count());
        Ok((plan, said))
    })?;
    stage("driver", || Ok(((), ours(&options.tree)?)))?;
    compile(&plan, &compiler)?;
    stage("link", || {
        let paths = plan.install(&place, &theirs, &compiler, &options.tree.join("proto"), &built)?;
        files(&place, &paths)?;
        Ok(((), place.root().display().to_string()))
    })?;
    Ok(built)
}

/// Does `work`, and ends with its line.
fn stage<T>(name: &'static str, work: impl FnOnce() -> Result<(T, String)>) -> Result<T> {
    let stage = Stage::begin(name, 1);
    let (value, said) = work()?;
    stage.end(&said);
    Ok(value)
}

/// All that is to be made.
struct Plan {
    unix: Unix,
    modules: Vec<Module>,
    c_driver: Vec<Module>,
}

impl Plan {
    fn read(place: &Place, theirs: &Place, tree: &Path, c_driver: bool) -> Result<Plan> {
        let known = Known::default();
        let ours = kmod::manifest::Manifest::read(tree)?.modules;
        let ours: Vec<String> = ours.iter().map(|module| format!("intel/{}", module.name)).collect();
        let wanted: Vec<&str> =
            facts::MODULES.iter().copied().chain(ours.iter().map(String::as_str)).collect();
        let modules = |place: &Place, names: &[&str]| -> Result<Vec<Module>> {
            module::closure(place, names)?.into_iter().map(|unit| Module::new(place, &known, unit)).collect()
        };
        let c_driver = if c_driver { facts::THEIRS } else { &[] };
        let c_driver = c_driver.iter().map(|name| {
            let unit = unit::Unit::read(theirs, name)?;
            Module::new(theirs, &known, unit)
        });
        Ok(Plan {
            unix: Unix::read(place, &known)?,
            modules: modules(place, &wanted)?,
            c_driver: c_driver.collect::<Result<_>>()?,
        })
    }

    fn jobs(&self) -> impl Iterator<Item = &Job> {
        let modules = self.modules.iter().chain(&self.c_driver).flat_map(|module| &module.jobs);
        self.unix.jobs().chain(modules)
    }

    /// Links everything into its root; returns the paths in the main one.
    fn install(
        &self,
        place: &Place,
        theirs: &Place,
        compiler: &Compiler,
        proto: &Path,
        built: &Built,
    ) -> Result<BTreeSet<PathBuf>> {
        self.unix.link(place, compiler)?;
        let install = |module: &Module| module.install(place, compiler, proto, &built.root);
        let paths = pool::each(&self.modules, install)?;
        pool::each(&self.c_driver, |module| module.install(theirs, compiler, proto, &built.c_driver))?;
        Ok(paths.into_iter().flatten().chain([facts::UNIX.into()]).collect())
    }
}

/// Compiles what is out of date.
fn compile(plan: &Plan, compiler: &Compiler) -> Result<()> {
    let jobs: Vec<&Job> = plan.jobs().collect();
    let stale = pool::each(&jobs, |job| Ok(compiler.stale(job)))?;
    let todo: Vec<&Job> = jobs.iter().zip(stale).filter(|(_, stale)| *stale).map(|(job, _)| *job).collect();
    let stage = Stage::begin("compile", todo.len());
    pool::each(&todo, |job| {
        let name = job.source.file_name().unwrap_or_default();
        stage.at(name.to_string_lossy());
        compiler.run(job)?;
        stage.step();
        Ok(())
    })?;
    stage.end(&format!("{} of {} objects", todo.len(), jobs.len()));
    Ok(())
}

/// Makes the modules of our tree, unless they are as new as their sources.
fn ours(tree: &Path) -> Result<String> {
    let manifest = kmod::manifest::Manifest::read(tree)?;
    let modules = manifest.select(&[])?;
    if modules.iter().all(|module| sources::check(&module.path(tree)).is_ok()) {
        return Ok("ours, as they are".into());
    }
    kmod::build::build(tree, &modules)?;
    Ok("ours, built".into())
}

/// Puts what is no module into the root, and takes out what a build before this one left there.
fn files(place: &Place, made: &BTreeSet<PathBuf>) -> Result<()> {
    let (src, root) = (place.src(), place.root());
    let some = facts::FILES_OF_SOME.iter().filter(|(from, _)| src.join(from).is_file());
    for (from, to) in facts::FILES.iter().chain(some) {
        module::copy(&src.join(from), &root.join(to))?;
    }
    let drivers = etc::Drivers::read(&src)?;
    let json = serde_json::to_vec_pretty(&drivers).context("what is known of drivers")?;
    fresh::write(&root.with_file_name(archive::DRIVERS), &json)?;
    for (path, text) in drivers.files(&etc::drivers_in(&root)) {
        fresh::write(&root.join(path), text.as_bytes())?;
    }
    for dir in ["kernel", "platform", "usr"] {
        remove_others(&root, Path::new(dir), made)?;
    }
    Ok(())
}

fn remove_others(root: &Path, dir: &Path, made: &BTreeSet<PathBuf>) -> Result<()> {
    let full = root.join(dir);
    let Ok(entries) = fs::read_dir(&full) else { return Ok(()) };
    for entry in entries {
        let path = dir.join(entry.with_context(|| full.display().to_string())?.file_name());
        if root.join(&path).is_dir() {
            remove_others(root, &path, made)?;
        } else if !made.contains(&path) {
            fs::remove_file(root.join(&path)).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate with the files that a root takes as they are, and one of those that only some gates have.
    fn gate() -> (tempfile::TempDir, Place, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { gate: dir.path().join("gate"), out: dir.path().join("out"), debug: true };
        let of_some = facts::FILES_OF_SOME[0];
        let lists = ["uts/intel/os/name_to_major", "uts/intel/os/minor_perm", "pkg/manifests/none.mf"];
        for from in facts::FILES.iter().chain([&of_some]).map(|(from, _)| *from).chain(lists) {
            fresh::write(&place.src().join(from), b"").unwrap();
        }
        let to = place.root().join(of_some.1);
        (dir, place, to)
    }

    #[test]
    fn a_file_that_some_gates_have_is_taken_and_another_gate_does_without() {
        let (_dir, place, of_some) = gate();
        files(&place, &BTreeSet::new()).unwrap();
        assert!(of_some.is_file());
        fs::remove_file(place.src().join(facts::FILES_OF_SOME[0].0)).unwrap();
        fs::remove_file(&of_some).unwrap();
        files(&place, &BTreeSet::new()).unwrap();
        assert!(!of_some.exists());
    }

    #[test]
    fn a_file_that_every_gate_has_is_named_if_it_is_missing() {
        let (_dir, place, _) = gate();
        fs::remove_file(place.src().join(facts::FILES[0].0)).unwrap();
        let error = format!("{:#}", files(&place, &BTreeSet::new()).unwrap_err());
        assert!(error.contains(facts::FILES[0].0), "{error}");
    }
}
