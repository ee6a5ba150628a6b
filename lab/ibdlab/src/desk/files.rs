//! Files of a host, as a person may have left them: what cannot be read or understood is told with its place.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use fakekernel::HostMutex;
use rustix::fs::OFlags;

use crate::words::complain;

/// The largest file that a host has, in bytes.
const LARGEST: u64 = 16 << 20;
/// The largest capture that a command reads, in bytes.
pub const LARGEST_CAPTURE: u64 = 256 << 20;

/// What a host has told of its files: each thing once, however often a file is read.
#[derive(Default)]
pub struct Told(HostMutex<BTreeSet<String>>);

impl Told {
    pub fn tell(&self, host: &str, what: &str) {
        let mut told = self.0.lock();
        // A file can be spoiled again and again; the log has an end.
        if told.len() < 1000 && told.insert(what.to_owned()) {
            drop(told);
            complain(&format!("{host}: {what}"));
        }
    }
}

/// The content of a file, whole or not at all.
///
/// # Errors
///
/// It is not there, is no regular file, is larger than `most` bytes, or cannot be read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe without a writer is opened without waiting.
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// The text of one of a host's files.
///
/// # Errors
///
/// As for [`read`]; a line that is not UTF-8, with its number.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path, LARGEST)?).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// Tells of every line of a host's files that is passed over.
pub fn look(host: &str, root: &Path, told: &Told) {
    for file in admin::FILES {
        let path = root.join(file);
        let Some(text) = readable(host, &path, told) else { continue };
        for line in admin::unsound_lines(file, &text) {
            let words: String = text.lines().nth(line - 1).unwrap_or_default().chars().take(60).collect();
            told.tell(
                host,
                &format!("{}:{line}: not understood, left out: {}", path.display(), words.escape_debug()),
            );
        }
    }
    let zones = fs::read_dir(root.join(admin::FILES_OF_ZONES)).into_iter().flatten().flatten();
    for path in zones.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|x| x == "xml")) {
        if readable(host, &path, told).is_some_and(|text| !admin::is_zone(&text)) {
            told.tell(host, &format!("{}: not understood: it is no zone", path.display()));
        }
    }
}

/// The text of a file; one that is there and cannot be read is told.
pub fn readable(host: &str, path: &Path, told: &Told) -> Option<String> {
    match text(path) {
        Ok(text) => Some(text),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(error) => {
            told.tell(host, &format!("{}: {error}", path.display()));
            None
        }
    }
}
