//! Text files that a person names: a device that never ends is not read until there is no memory.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The largest one, in bytes: a scenario of a thousand hosts has a tenth of it.
const LARGEST: u64 = 16 << 20;

/// The text of a file, or of a pipe.
///
/// # Errors
///
/// What the file system says; it is larger than 16 MiB or not UTF-8.
pub fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {} MiB", LARGEST >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error.utf8_error()))
}
