//! What the additions name, resolved: modules, objects, sources, dependencies, places in the proto area, packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kmod::manifest::{Manifest, Module};

use crate::gate::Gate;
use crate::inside;
use crate::make::Makefile;
use crate::pages::pages;

/// Stands for the proto area; nothing is looked for there.
const PROTO: &str = "/proto";

/// The macros that dmake's environment and the gate's `.KEEP_STATE` machinery give; the rest is read.
fn given(src: &str) -> [(&str, &str); 6] {
    [
        ("SRC", src),
        ("ROOT", PROTO),
        ("MACH", "i386"),
        ("BUILD_TYPE", "OBJ64"),
        ("POUND_SIGN", "#"),
        ("PRE_POUND", "pre#"),
    ]
}

/// Everything that does not resolve in `gate`, where our tree at `tree` is installed; empty if all does.
///
/// # Errors
///
/// Our own list of modules, or the gate's manifests, cannot be read.
pub fn check(tree: &Path, gate: &Gate) -> Result<Vec<String>> {
    let modules = Manifest::read(tree)?.modules;
    let delivered = delivered(gate)?;
    let mut findings = Vec::new();
    for module in &modules {
        let mut found = Found { gate, module, delivered: &delivered, findings: Vec::new() };
        if let Err(error) = found.module() {
            found.findings.push(format!("{error:#}"));
        }
        findings.extend(found.findings.into_iter().map(|finding| format!("{}: {finding}", module.name)));
    }
    findings.extend(manual(tree, gate, &delivered)?);
    Ok(findings)
}

/// Pages that nothing would install, or that no package delivers.
fn manual(tree: &Path, gate: &Gate, delivered: &[String]) -> Result<Vec<String>> {
    let src = gate.root.join("usr/src");
    let src = src.to_str().context("the gate's path is not UTF-8")?;
    let mut findings = Vec::new();
    for page in pages(tree)? {
        let file = page.file(gate.manual);
        let (dir, name) = file.split_once('/').unwrap_or_default();
        let makefile =
            Makefile::read(&gate.root.join("usr/src/man").join(dir).join("Makefile"), &given(src))?;
        if !makefile.words("MANFILES")?.iter().any(|word| word == name) {
            findings.push(format!("{name}: MANFILES of usr/src/man/{dir} does not have it"));
        }
        if !delivered.contains(&format!("usr/share/man/{file}")) {
            findings.push(format!("{name}: no package delivers usr/share/man/{file}"));
        }
    }
    Ok(findings)
}

/// The lines of the gate's package manifests that deliver a file.
fn delivered(gate: &Gate) -> Result<Vec<String>> {
    let dir = gate.root.join("usr/src/pkg/manifests");
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let bytes = inside::read(&entry?.path())?;
        let text = String::from_utf8_lossy(&bytes).replace("\\\n", " ");
        let paths = text
            .lines()
            .filter(|line| line.trim_start().trim_start_matches("$(i386_ONLY)").starts_with("file "));
        files.extend(
            paths
                .flat_map(|line| line.split_whitespace())
                .filter_map(|w| w.strip_prefix("path="))
                .map(String::from),
        );
    }
    Ok(files)
}

struct Found<'a> {
    gate: &'a Gate,
    module: &'a Module,
    delivered: &'a [String],
    findings: Vec<String>,
}

impl Found<'_> {
    fn module(&mut self) -> Result<()> {
        let name = &self.module.name;
        let dir = self.gate.root.join("usr/src/uts/intel").join(name);
        let src = self.gate.root.join("usr/src");
        let src = src.to_str().context("the gate's path is not UTF-8")?;
        let makefile = Makefile::read(&dir.join("Makefile"), &given(src))?;
        self.expect(makefile.value("MODULE")? == *name, || "MODULE is another one".into());
        let kmods = format!("{}_KMODS", self.module.class.to_uppercase());
        let built = makefile.words(&kmods)?.contains(name);
        self.expect(built, || format!("$({kmods}) does not have it: nothing would build it"));
        self.objects(&makefile, &dir)?;
        self.dependencies(&makefile)?;
        self.places(&makefile)?;
        self.configuration(&makefile, &dir)?;
        self.rust_part(&makefile)
    }

    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(otherwise());
        }
    }

    /// Each object comes from the shim and from nothing else.
    fn objects(&mut self, makefile: &Makefile, dir: &Path) -> Result<()> {
        let objects = makefile.words("OBJECTS")?;
        self.expect(!objects.is_empty(), || "OBJECTS is empty".into());
        for object in objects {
            match makefile.source_of(&object, dir).map(|source| self.relative(&source)) {
                Ok(source) => self.expect(source == self.module.shim, || {
                    format!("{object} comes from {}, not from the shim", source.display())
                }),
                Err(error) => self.findings.push(error.to_string()),
            }
        }
        Ok(())
    }

    fn dependencies(&mut self, makefile: &Makefile) -> Result<()> {
        let flags = makefile.words("LDFLAGS")?;
        let needed: Vec<&str> = flags.iter().filter_map(|flag| flag.strip_prefix("-N")).collect();
        self.expect(needed == self.module.depends, || {
            format!(
                "-N {}, and _depends_on of the shim says {}",
                needed.join(" "),
                self.module.depends.join(" ")
            )
        });
        for dependency in needed {
            let (class, name) = dependency.split_once('/').unwrap_or(("", dependency));
            let kmods = format!("{}_KMODS", class.to_uppercase());
            let there = makefile.words(&kmods).is_ok_and(|built| built.iter().any(|module| module == name));
            self.expect(there, || format!("-N{dependency}: the gate builds no such module"));
        }
        Ok(())
    }

    fn places(&mut self, makefile: &Makefile) -> Result<()> {
        let Module { name, class, .. } = self.module;
        let place = makefile.value("ROOTMODULE")?;
        let wanted = format!("{PROTO}/kernel/{class}/amd64/{name}");
        self.expect(place == wanted, || format!("ROOTMODULE is {place}, not {wanted}"));
        self.packaged(&format!("kernel/{class}/$(ARCH64)/{name}"));
        Ok(())
    }

    fn configuration(&mut self, makefile: &Makefile, dir: &Path) -> Result<()> {
        let Some(conf) = &self.module.conf else { return Ok(()) };
        let source = dir.join(makefile.value("SRC_CONFFILE")?);
        self.expect(source.is_file() && self.relative(&source) == *conf, || {
            format!("SRC_CONFFILE is {}, not {}", source.display(), conf.display())
        });
        let place = makefile.value("ROOT_CONFFILE")?;
        let wanted = format!("{PROTO}/kernel/drv/{}.conf", self.module.name);
        self.expect(place == wanted, || format!("ROOT_CONFFILE is {place}, not {wanted}"));
        self.packaged(&format!("kernel/drv/{}.conf", self.module.name));
        Ok(())
    }

    fn packaged(&mut self, path: &str) {
        let times = self.delivered.iter().filter(|file| *file == path).count();
        self.expect(times == 1, || format!("{times} packages deliver {path}, and one should"));
    }

    fn rust_part(&mut self, makefile: &Makefile) -> Result<()> {
        let tree = PathBuf::from(makefile.value("IPOIB_SRC")?);
        let package = makefile.value("RUST_CRATE")?;
        self.expect(package == self.module.package, || format!("RUST_CRATE is {package}"));
        self.expect(tree.join("tools/kmod/Cargo.toml").is_file(), || {
            format!("IPOIB_SRC: no Rust sources at {}", tree.display())
        });
        let object = makefile.value("RUST_OBJ")?;
        let linked = makefile.words("LDFLAGS")?.contains(&object);
        self.expect(linked && makefile.makes(&object), || format!("{object} is not made, or not linked"));
        self.expect(makefile.words("CLEANFILES")?.contains(&object), || format!("clean leaves {object}"));
        Ok(())
    }

    /// From the top of the gate, without `..`.
    fn relative(&self, path: &Path) -> PathBuf {
        let full = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        full.strip_prefix(&self.gate.root).map(PathBuf::from).unwrap_or(full)
    }
}
