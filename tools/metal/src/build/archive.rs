//! The boot archive: the root file system that a loader puts into memory beside unix. hsfs mounts it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::etc::{self, Drivers};
use super::facts;
use super::tools;

/// What a build knows of drivers, beside its root.
pub const DRIVERS: &str = "drivers.json";

/// A root file system to boot.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// As a build leaves it.
    pub root: &'a Path,
    /// Laid over it; a later one wins.
    pub overlays: &'a [&'a Path],
    /// Paths that are left out, from the root.
    pub without: &'a [&'a str],
}

/// Packs `layout` into the image `file`.
///
/// # Errors
///
/// A file cannot be read or written, or genisoimage fails.
pub fn archive(layout: &Layout<'_>, file: &Path) -> Result<()> {
    let dir = file.parent().context("an archive has a directory")?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let stage = tempfile::tempdir_in(dir).with_context(|| dir.display().to_string())?;
    lay_out(layout, stage.path())?;
    image(stage.path(), file)
}

/// Lays `layout` out in the directory `stage`. The files of /etc that list drivers are made for those that are in it then, unless
/// an overlay has its own.
fn lay_out(layout: &Layout<'_>, stage: &Path) -> Result<()> {
    copy_tree(layout.root, stage, &mut BTreeSet::new(), Path::new(""))?;
    let mut own = BTreeSet::new();
    for overlay in layout.overlays {
        copy_tree(overlay, stage, &mut own, Path::new(""))?;
    }
    for path in layout.without.iter().map(|path| stage.join(path)).filter(|path| path.exists()) {
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    let known = layout.root.with_file_name(DRIVERS);
    let drivers = fs::read(&known);
    let drivers =
        drivers.with_context(|| format!("{}: no root that metal build made", layout.root.display()))?;
    let drivers: Drivers = serde_json::from_slice(&drivers).with_context(|| known.display().to_string())?;
    for (path, text) in drivers.files(&etc::drivers_in(stage)) {
        if !own.contains(Path::new(path)) {
            put(&stage.join(path), &text)?;
        }
    }
    for path in facts::EMPTY.iter().filter(|path| !stage.join(path).exists()) {
        put(&stage.join(path), "")?;
    }
    for path in facts::DIRECTORIES {
        fs::create_dir_all(stage.join(path)).with_context(|| path.to_string())?;
    }
    Ok(())
}

/// An image of `dir`. hsfs as a root goes without Rock Ridge, so the plain names have to be those that the kernel looks for:
/// in lower case, without a version, longer than 8+3 (`-U`).
fn image(dir: &Path, file: &Path) -> Result<()> {
    let beside = super::fresh::beside(file, "new");
    tools::run(Command::new("genisoimage").args(["-quiet", "-R", "-U", "-o"]).arg(&beside).arg(dir))?;
    fs::rename(&beside, file).with_context(|| file.display().to_string())
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Copies what is below `from` to `to`, links followed, and notes the paths of files. What kmod notes beside a module stays.
fn copy_tree(from: &Path, to: &Path, files: &mut BTreeSet<PathBuf>, below: &Path) -> Result<()> {
    let dir = from.join(below);
    fs::create_dir_all(to.join(below)).with_context(|| dir.display().to_string())?;
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let path = below.join(entry?.file_name());
        let source = from.join(&path);
        if source.is_dir() {
            copy_tree(from, to, files, &path)?;
        } else if path.extension().is_none_or(|extension| extension != "sources") {
            let target = to.join(&path);
            // The old one may be a file that cannot be written.
            if target.exists() {
                fs::remove_file(&target).with_context(|| target.display().to_string())?;
            }
            fs::copy(&source, target).with_context(|| source.display().to_string())?;
            files.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            put(&dir.join(path), text).unwrap();
        }
    }

    /// What `isoinfo` says with these arguments.
    fn isoinfo(image: &Path, args: &[&str]) -> String {
        let said = tools::run(Command::new("isoinfo").args(args).arg("-i").arg(image)).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }

    #[test]
    fn an_archive_has_plain_lower_case_names_and_the_last_overlay_wins() {
        let dir = tempfile::tempdir().unwrap();
        let [root, one, two] = ["root", "one", "two"].map(|name| dir.path().join(name));
        put(&dir.path().join(DRIVERS), &serde_json::to_string(&Drivers::default()).unwrap()).unwrap();
        write(
            &root,
            &[("kernel/drv/amd64/ibp", "old"), ("kernel/drv/ibp.conf", "conf"), ("etc/mach", "root")],
        );
        write(&one, &[("kernel/drv/amd64/ibp", "new"), ("kernel/drv/amd64/ibp.sources", "note")]);
        write(
            &two,
            &[("kernel/drv/amd64/a_driver_with_quite_a_name", "x"), ("etc/driver_aliases", "mine\n")],
        );
        let image = dir.path().join("out/boot_archive");
        let layout = Layout { root: &root, overlays: &[&one, &two], without: &["kernel/drv/amd64/other"] };
        archive(&layout, &image).unwrap();

        let names = isoinfo(&image, &["-f"]);
        let names: Vec<&str> = names.lines().collect();
        for name in
            ["/kernel/drv/amd64/a_driver_with_quite_a_name", "/kernel/drv/ibp.conf", "/proc", "/etc/system"]
        {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|name| name.ends_with(".sources") || name.contains(';')), "{names:?}");
        let text = |path: &str| isoinfo(&image, &["-x", path]);
        assert_eq!(text("/kernel/drv/amd64/ibp"), "new");
        assert_eq!(text("/etc/driver_aliases"), "mine\n");
        assert_eq!(text("/etc/mach"), "root");
        assert_eq!(text("/etc/name_to_major"), "a_driver_with_quite_a_name 1\nibp 2\n");
    }
    #[test]
    fn a_root_that_nobody_built_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("root/kernel/drv/amd64/ibp", "")]);
        let layout = Layout { root: &dir.path().join("root"), overlays: &[], without: &[] };
        let error = archive(&layout, &dir.path().join("image")).unwrap_err();
        assert!(error.to_string().contains("no root that metal build made"), "{error}");
    }
}
