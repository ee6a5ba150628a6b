//! What the kernel writes on its console, and what of it is trouble.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A console log that grows.
#[derive(Debug)]
pub struct Console {
    file: PathBuf,
}

/// The kernel has given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Panic {
    /// Why, as the kernel says: a failed assertion with its file and line, a trap with its address.
    pub message: String,
    /// The frames, innermost first, as the kernel prints them: `module:function+offset`.
    pub stack: Vec<String>,
}

impl Console {
    /// The log in `file`, which may not be there yet.
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// Where it is.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All of it so far.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
    }

    /// How long it is: what has grown was written meanwhile.
    pub fn length(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |known| known.len())
    }

    /// The last lines.
    pub fn tail(&self, lines: usize) -> String {
        let text = self.text().unwrap_or_default();
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

/// The panic in `text`, if there is one.
pub fn panic_in(text: &str) -> Option<Panic> {
    let begin = text.find("panic[cpu")?;
    let mut lines = text[begin..].lines();
    let first = lines.next().unwrap_or_default();
    let mut found = Panic::default();
    let mut message = first.split_once(": ").map(|(_, said)| said.trim().to_owned()).unwrap_or_default();
    for line in lines {
        let line = line.trim();
        if let Some(frame) = frame_of(line) {
            found.stack.push(frame.to_owned());
        } else if line.starts_with("Warning - stack not written") {
            // Of the dump, which nobody asked for.
        } else if found.stack.is_empty() && !line.is_empty() && message.len() < 400 {
            // The message wraps, and may begin on the next line.
            let gap = if message.is_empty() { "" } else { " " };
            message = format!("{message}{gap}{line}");
        } else if !found.stack.is_empty() && line.is_empty() {
            break;
        }
    }
    found.message = message;
    Some(found)
}

/// Whether the kernel has come to its end: after that it writes nothing more.
pub fn is_over(text: &str) -> bool {
    ["rebooting...", "Press any key to reboot", "skipping system dump", "dump aborted"]
        .iter()
        .any(|end| text.contains(end))
}

/// `fffffe0000... ibp:name+1a (...)`: the name and the offset.
fn frame_of(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(' ')?;
    let is_address = address.len() == 16 && address.bytes().all(|octet| octet.is_ascii_hexdigit());
    let place = rest.split_once(' ').map_or(rest, |(place, _)| place);
    (is_address && place.contains('+')).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: &str = "\
ibp0: link up\n\
\n\
panic[cpu0]/thread=fffffe00c2d1ac40: assertion failed: ring->count == 0, file: ../../ours/ring.c, line: 12\n\
\n\
fffffe00c2d1a9f0 fakeunix:process_type+12f0af ()\n\
fffffe00c2d1aa40 fakemod:ours_close+41 (fffffe00c, 1)\n\
fffffe00c2d1aa90 ibp:_RNvNtCs1_3ibd4ring5close+1c ()\n\
\n\
skipping system dump - no dump device configured\n\
rebooting...\n";

    #[test]
    fn a_panic_is_found_with_its_message_and_its_frames() {
        let found = panic_in(PANIC).expect("it is there");
        assert_eq!(found.message, "assertion failed: ring->count == 0, file: ../../ours/ring.c, line: 12");
        let frames =
            ["fakeunix:process_type+12f0af", "fakemod:ours_close+41", "ibp:_RNvNtCs1_3ibd4ring5close+1c"];
        assert_eq!(found.stack, frames);
        assert!(is_over(PANIC));
    }

    #[test]
    fn a_message_on_the_lines_after_is_taken_whole() {
        let text = "panic[cpu1]/thread=1: \nBAD TRAP: type=e (#pf Page fault) rp=2 addr=0\noccurred in module \"ibp\"\n";
        let message = panic_in(text).expect("it is there").message;
        assert!(message.starts_with("BAD TRAP") && message.ends_with("module \"ibp\""), "{message}");
    }

    #[test]
    fn words_about_a_panic_are_none() {
        assert_eq!(panic_in("WARNING: a panic would be bad\nok\n"), None);
        assert!(!is_over("link up\n"));
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_empty() {
        let console = Console::new(Path::new("/nonexistent/console"));
        assert_eq!((console.length(), console.tail(3).as_str()), (0, ""));
    }
}
