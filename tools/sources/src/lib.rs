//! Which sources a built kernel module is made of, so that nobody tests an object of yesterday's.
//!
//! Who builds a module below `proto/` of the tree takes the [`digest`] of the sources before it begins and [`record`]s it beside
//! the object, as `NAME.sources`. Who loads one asks [`check`], or [`refresh`] to have cargo build it again.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Error, Result, bail, ensure};
use sha2::{Digest, Sha256};
use tempfile::Builder;

/// All that ends up in a module, or decides how it is compiled; from the root of the tree.
const SOURCES: [&str; 5] = ["rust", "usr/src/uts", "tools/kmod", "Cargo.toml", "rust-toolchain.toml"];

/// Names the sources of the modules as they are: SHA-256 over the names and contents of all files, in hexadecimal.
///
/// # Errors
///
/// A file that cannot be read.
pub fn digest(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(root).unwrap_or(&file).as_os_str().as_encoded_bytes();
        for part in [name, &text] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
    }
    if !path.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

/// Notes beside `object` that it was made of the sources with this digest. The note appears whole: others may be reading it, and a campaign goes
/// on while somebody builds what is built already.
///
/// # Errors
///
/// The note cannot be written.
pub fn record(object: &Path, digest: &str) -> Result<()> {
    let note = note(object);
    let put = || -> Result<()> {
        let dir = note.parent().context("an object has a directory")?;
        let mut beside = Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
        writeln!(beside, "{digest}")?;
        beside.persist(&note)?;
        Ok(())
    };
    put().with_context(|| note.display().to_string())
}

/// Whether `object` is made of the sources that lie around it. An object outside of a tree's `proto/` passes. The sources are read once
/// in a process, however often it asks.
///
/// # Errors
///
/// It is made of others, or does not say of which.
pub fn check(object: &Path) -> Result<()> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Result<String, String>>> = Mutex::new(BTreeMap::new());
    compare(object, |root| {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known
            .entry(root.to_owned())
            .or_insert_with(|| digest(root).map_err(|error| format!("{error:#}")));
        known.clone().map_err(Error::msg)
    })
}

/// As [`check`]; an object that is missing or made of other sources is built first, if cargo runs this process. It takes half a minute,
/// and other processes that want an object of the tree wait for it.
///
/// # Errors
///
/// As [`check`], or the object cannot be built.
pub fn refresh(object: &Path) -> Result<()> {
    refresh_with(env::var_os("CARGO"), object)
}

fn refresh_with(cargo: Option<OsString>, object: &Path) -> Result<()> {
    let checked = check(object);
    let (Err(_), Some(cargo), Some((root, flavour))) = (&checked, cargo, place_of(object)) else {
        return checked;
    };
    let proto = root.join("proto");
    fs::create_dir_all(&proto)?;
    let lock = File::create(proto.join(".lock")).with_context(|| proto.display().to_string())?;
    lock.lock()?;
    if check(object).is_ok() {
        return Ok(());
    }
    eprintln!("{}: building it from the sources as they are now", object.display());
    let mut build = Command::new(cargo);
    build.args(["run", "--quiet", "--package", "kmod", "--", "build"]).current_dir(&root);
    // What this process prints may be read by another.
    build.stdout(std::io::stderr());
    if flavour != "kernel" {
        build.arg(format!("--{flavour}"));
    }
    let ended = build.status().context("cargo")?;
    ensure!(ended.success(), "{}: cannot be built: {ended}", object.display());
    check(object)
}

fn compare(object: &Path, digest_of: impl FnOnce(&Path) -> Result<String>) -> Result<()> {
    let Some((root, _)) = place_of(object) else { return Ok(()) };
    let said = fs::read_to_string(note(object)).unwrap_or_default();
    if said.trim() != digest_of(&root)? || !object.exists() {
        bail!("{}: not built from the sources as they are now; `make modules` builds it", object.display());
    }
    Ok(())
}

fn note(object: &Path) -> PathBuf {
    let mut name = object.as_os_str().to_owned();
    name.push(".sources");
    name.into()
}

/// The tree in whose `proto/` the object lies or would lie, and the directory's name there: how the object is built.
fn place_of(object: &Path) -> Option<(PathBuf, String)> {
    let there = object.ancestors().find(|above| above.exists())?;
    let object = fs::canonicalize(there).ok()?.join(object.strip_prefix(there).ok()?);
    let proto = object.ancestors().find(|above| above.file_name().is_some_and(|name| name == "proto"))?;
    let flavour = object.strip_prefix(proto).ok()?.components().next()?.as_os_str().to_str()?.to_owned();
    let root = proto.parent()?;
    SOURCES.iter().all(|source| root.join(source).exists()).then(|| (root.to_owned(), flavour))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A tree with one source in each place and a module built from them.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let tree = tempfile::tempdir().expect("a directory");
        let write = |file: &str| {
            let file = tree.path().join(file);
            fs::create_dir_all(file.parent().expect("below the tree")).expect("made");
            fs::write(&file, "as it was").expect("written");
            file
        };
        for file in ["rust/ibd/src/lib.rs", "usr/src/uts/shim.c", "tools/kmod/modules.toml"] {
            write(file);
        }
        write("Cargo.toml");
        write("rust-toolchain.toml");
        let object = write("proto/kernel/drv/amd64/ibd");
        record(&object, &digest(tree.path()).expect("a digest")).expect("noted");
        (tree, object)
    }

    #[test]
    fn who_reads_the_note_while_another_is_written_has_the_old_one_whole() {
        let (_tree, object) = tree();
        let before = fs::read_to_string(note(&object)).expect("recorded");
        let mut reader = fs::File::open(note(&object)).expect("recorded");
        record(&object, "another").expect("written");
        let mut read = String::new();
        reader.read_to_string(&mut read).expect("read");
        assert_eq!(read, before);
        assert_eq!(fs::read_to_string(note(&object)).expect("recorded"), "another\n");
    }

    #[test]
    fn an_object_of_these_sources_is_told_from_one_of_others() {
        let (tree, object) = tree();
        compare(&object, digest).expect("just built");
        for file in ["rust/ibd/src/lib.rs", "usr/src/uts/shim.c", "tools/kmod/modules.toml", "Cargo.toml"] {
            let file = tree.path().join(file);
            fs::write(&file, "changed").expect("written");
            let error = compare(&object, digest).expect_err("it is older").to_string();
            assert!(error.contains("ibd: not built from the sources as they are now"), "{error}");
            fs::write(&file, "as it was").expect("written");
            compare(&object, digest).expect("as it was");
        }
        fs::write(tree.path().join("rust/ibd/src/new.rs"), "").expect("written");
        compare(&object, digest).expect_err("one more file");
    }

    #[test]
    fn an_object_that_does_not_say_of_what_it_is_made_is_of_no_use_and_a_foreign_one_is_nobodys_business() {
        let (tree, object) = tree();
        fs::remove_file(note(&object)).expect("removed");
        compare(&object, digest).expect_err("unknown");
        let foreign = tree.path().join("ibp");
        fs::write(&foreign, "").expect("written");
        compare(&foreign, digest).expect("somebody else's");
    }

    /// A cargo that writes down how it is called, and builds the object of the sources.
    fn cargo(tree: &Path, object: &Path) -> OsString {
        let script = tree.join("cargo");
        let text = format!(
            "#!/bin/sh\necho \"$@\" >>calls\necho >{object}\ncp new {object}.sources\n",
            object = object.display()
        );
        fs::write(tree.join("new"), digest(tree).expect("a digest")).expect("written");
        fs::write(&script, text).expect("written");
        fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is ours");
        script.into()
    }

    #[test]
    fn an_object_of_other_sources_is_built_once() {
        let (tree, object) = tree();
        fs::write(tree.path().join("rust/ibd/src/lib.rs"), "changed").expect("written");
        refresh_with(None, &object).expect_err("cargo does not run us");
        let cargo = cargo(tree.path(), &object);
        refresh_with(Some(cargo.clone()), &object).expect("built");
        refresh_with(Some(cargo), &object).expect("built before");
        let calls = fs::read_to_string(tree.path().join("calls")).expect("called");
        assert_eq!(calls, "run --quiet --package kmod -- build\n");
    }

    #[test]
    fn an_object_that_is_missing_is_built_as_its_place_says() {
        let (tree, _) = tree();
        let object = tree.path().join("proto/races/drv/amd64/ibd");
        fs::create_dir_all(object.parent().expect("a directory")).expect("made");
        refresh_with(Some(cargo(tree.path(), &object)), &object).expect("built");
        let calls = fs::read_to_string(tree.path().join("calls")).expect("called");
        assert_eq!(calls, "run --quiet --package kmod -- build --races\n");
    }

    #[test]
    fn an_object_that_cannot_be_built_is_named() {
        let (_tree, object) = tree();
        fs::remove_file(&object).expect("removed");
        let error = refresh_with(Some("false".into()), &object).expect_err("it is missing").to_string();
        assert!(error.ends_with("ibd: cannot be built: exit status: 1"), "{error}");
    }
}
