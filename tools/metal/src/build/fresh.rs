//! What is out of date: whatever was made by another command, or before something that it was made from.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// When files were changed last. Each is asked once: 1,300 objects share their headers.
#[derive(Debug, Default)]
pub struct Times {
    known: Mutex<HashMap<String, Option<SystemTime>>>,
}

impl Times {
    /// When `path` was changed last; `None` if it is not there.
    fn of(&self, path: &str) -> Option<SystemTime> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(time) = known.get(path) {
            return *time;
        }
        let time = changed(Path::new(path));
        known.insert(path.to_string(), time);
        time
    }

    /// Whether `made` is older than one of `from`, or one of them is gone.
    fn older<'a>(&self, made: &Path, mut from: impl Iterator<Item = &'a str>) -> bool {
        let Some(then) = changed(made) else { return true };
        from.any(|path| self.of(path).is_none_or(|time| time > then))
    }

    /// Whether `made` has to be made (again): by the command `key`, from what its dependency file lists.
    pub fn stale(&self, made: &Path, key: &str) -> bool {
        let Ok(list) = fs::read_to_string(beside(made, "d")) else { return true };
        !same_key(made, key) || self.older(made, prerequisites(&list).iter().map(String::as_str))
    }
}

/// Whether `made` has to be made (again): by the command `key`, from `inputs`. They may be made in the same run, so each is
/// looked at.
pub fn stale_from<P: AsRef<Path>>(made: &Path, key: &str, inputs: &[P]) -> bool {
    let then = changed(made);
    let newer = |input: &P| changed(input.as_ref()).is_none_or(|time| Some(time) > then);
    !same_key(made, key) || inputs.iter().any(newer)
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn same_key(made: &Path, key: &str) -> bool {
    fs::read_to_string(beside(made, "key")).is_ok_and(|text| text == key)
}

/// Notes that `made` was made by `key`: to be called once it is whole.
///
/// # Errors
///
/// The note cannot be written.
pub fn made(made: &Path, key: &str) -> Result<()> {
    let note = beside(made, "key");
    fs::write(&note, key).with_context(|| note.display().to_string())
}

/// Forgets how `made` was made: to be called before it is made again, which may be cut short.
pub fn forget(made: &Path) {
    // Nothing to forget is as good.
    drop(fs::remove_file(beside(made, "key")));
}

/// `x.o` and `d` are `x.o.d`.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The files behind the colon of a dependency file as gcc writes it.
pub fn prerequisites(list: &str) -> Vec<String> {
    let behind = list.split_once(": ").map_or("", |(_, behind)| behind);
    let mut paths = Vec::new();
    let mut path = String::new();
    let mut chars = behind.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => path.extend(chars.next_if(|next| *next != '\n')),
            c if c.is_whitespace() => paths.push(std::mem::take(&mut path)),
            c => path.push(c),
        }
    }
    paths.push(path);
    paths.retain(|path| !path.is_empty());
    paths
}

/// Writes `bytes` to `path` unless it has them already: what is made from it then stays as it is.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn prerequisites_may_have_blanks_in_their_names() {
        let list = "x.o: a.c \\\n  /dir/with\\ blank.h b.h\n";
        assert_eq!(prerequisites(list), ["a.c", "/dir/with blank.h", "b.h"]);
    }

    fn aged(path: &Path, seconds: u64) {
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - seconds);
        fs::File::open(path).and_then(|file| file.set_modified(then)).unwrap();
    }

    #[test]
    fn an_object_is_stale_by_another_command_and_by_a_header_that_is_newer_or_gone() {
        let dir = tempfile::tempdir().unwrap();
        let [object, header] = ["x.o", "x.h"].map(|name| dir.path().join(name));
        let stale = |key: &str| Times::default().stale(&object, key);
        fs::write(&header, "").unwrap();
        fs::write(&object, "").unwrap();
        fs::write(beside(&object, "d"), format!("x.o: {}\n", header.display())).unwrap();
        aged(&header, 20);
        aged(&object, 10);
        assert!(stale("cc"), "nobody said how it was made");
        made(&object, "cc").unwrap();
        assert!(!stale("cc"));
        assert!(stale("cc -O"));
        aged(&header, 5);
        assert!(stale("cc"));
        fs::remove_file(&header).unwrap();
        assert!(stale("cc"));
    }

    #[test]
    fn what_is_written_again_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/x.h");
        write(&path, b"1").unwrap();
        aged(&path, 10);
        let before = changed(&path);
        write(&path, b"1").unwrap();
        assert_eq!(changed(&path), before);
        write(&path, b"2").unwrap();
        assert_ne!(changed(&path), before);
    }
}
