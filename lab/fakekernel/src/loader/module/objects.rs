//! Object files as they were read last: hosts load the same few again and again, and a process that copies itself for each run
//! ([`preload`]) hands them on.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::elf::{self, ObjectFile};

/// A file's bytes, and what is in them if they are an object that the loader takes.
pub(super) struct Object {
    pub bytes: Vec<u8>,
    pub file: Result<Arc<ObjectFile>, Vec<String>>,
}

/// What tells a file from one that was written in its place.
type Stamp = (u64, SystemTime);

static READ: Mutex<BTreeMap<PathBuf, (Stamp, Arc<Object>)>> = Mutex::new(BTreeMap::new());

/// The largest file, in bytes: what tells of lines is most of an object.
const LARGEST: u64 = 256 << 20;

/// The object in a file; `name` is the module's, for complaints.
pub(super) fn read(name: &str, path: &Path) -> io::Result<Arc<Object>> {
    let about = path.metadata()?;
    let stamp = (about.len(), about.modified()?);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, object)) = read.get(path).filter(|(known, _)| *known == stamp) {
        return Ok(object.clone());
    }
    if !about.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if about.len() > LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {} MiB", LARGEST >> 20),
        ));
    }
    let bytes = std::fs::read(path)?;
    let object = Arc::new(Object { file: elf::read(name, &bytes).map(Arc::new), bytes });
    read.insert(path.to_owned(), (stamp, object.clone()));
    Ok(object)
}

/// Reads an object that will be loaded, so that copies of this process need not. What is wrong with it is said when it is loaded.
pub fn preload(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let _ = read(&name, path);
}
