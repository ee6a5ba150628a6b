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

/// Packs `root` (as a build leaves it) and, over it, each of `overlays` (a later one wins) into the image `file`. The files of
/// /etc that list drivers are made for those that are in it then, unless an overlay has its own.
///
/// # Errors
///
/// A file cannot be read or written, or genisoimage fails.
pub fn archive(root: &Path, overlays: &[&Path], file: &Path) -> Result<()> {
    let dir = file.parent().context("an archive has a directory")?;
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let stage = tempfile::tempdir_in(dir).with_context(|| dir.display().to_string())?;
    let mut own = BTreeSet::new();
    for overlay in [root].iter().chain(overlays) {
        copy_tree(overlay, stage.path(), &mut own, Path::new(""))?;
        if *overlay == root {
            own.clear();
        }
    }
    let known = root.with_file_name(DRIVERS);
    let drivers =
        fs::read(&known).with_context(|| format!("{}: not a root that was built", root.display()))?;
    let drivers: Drivers = serde_json::from_slice(&drivers).with_context(|| known.display().to_string())?;
    for (path, text) in drivers.files(&etc::drivers_in(stage.path())) {
        if !own.contains(Path::new(path)) {
            put(&stage.path().join(path), &text)?;
        }
    }
    for path in facts::EMPTY.iter().filter(|path| !stage.path().join(path).exists()) {
        put(&stage.path().join(path), "")?;
    }
    for path in facts::DIRECTORIES {
        fs::create_dir_all(stage.path().join(path)).with_context(|| path.to_string())?;
    }
    image(stage.path(), file)
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
        archive(&root, &[&one, &two], &image).unwrap();

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
}
