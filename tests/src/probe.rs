//! Probes: small C kernel modules that a test writes, builds the way the shipped modules are built, and loads.
//!
//! ```no_run
//! use conformance::probe::Probe;
//!
//! let path = Probe::new("early_bird")
//!     .source("#include <sys/modctl.h>\nint _init(void) { return (0); }")
//!     .depends("misc/mac")
//!     .build();
//! ```
//!
//! A probe's source includes the headers of `rust/illumos-sys-hdrs/include` and no others. Every symbol keeps its binding,
//! so probes can import each other's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kmod::link::{LINKER_SCRIPT, Link};
use kmod::shim::{CFLAGS, Compile, include_dir};
use sha2::{Digest, Sha256};

/// A probe module to be built.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    name: String,
    sources: Vec<Source>,
    defines: Vec<String>,
    depends: Vec<String>,
    headers: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
struct Source {
    /// Where `#include "..."` looks first; the test's own directory for a file.
    dir: Option<PathBuf>,
    text: String,
}

/// The root of the workspace.
pub fn workspace_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The shipped module `name` of class `class` (`mac`, `drv`), of the sources as they are.
///
/// # Panics
///
/// It cannot be built.
pub fn shipped(class: &str, name: &str) -> PathBuf {
    let path = workspace_root().join("proto/kernel").join(class).join("amd64").join(name);
    sources::refresh(&path).unwrap_or_else(|error| panic!("{error:#}"));
    path
}

impl Probe {
    /// A module called `name`; a module name has at most 31 characters.
    pub fn new(name: &str) -> Probe {
        Probe { name: name.into(), sources: Vec::new(), ..Probe::default() }
    }

    /// Adds a C source by its text.
    #[must_use]
    pub fn source(mut self, text: &str) -> Probe {
        self.sources.push(Source { dir: None, text: text.into() });
        self
    }

    /// Adds a C source file; a relative `path` is below `tests/`.
    ///
    /// # Panics
    ///
    /// The file cannot be read.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Probe {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.sources.push(Source { dir: path.parent().map(Path::to_path_buf), text });
        self
    }

    /// Defines a macro for all sources, as `NAME` or `NAME=VALUE`.
    #[must_use]
    pub fn define(mut self, define: &str) -> Probe {
        self.defines.push(define.into());
        self
    }

    /// Adds a directory of headers, from the root of the workspace.
    #[must_use]
    pub fn headers(mut self, dir: &str) -> Probe {
        self.headers.push(workspace_root().join(dir));
        self
    }

    /// Adds a dependency, as `CLASS/NAME` (`misc/mac`); krtld searches them in the order given.
    #[must_use]
    pub fn depends(mut self, module: &str) -> Probe {
        self.depends.push(module.into());
        self
    }

    /// Builds the module, unless the same one was built before, and returns its path. The file name is the module name.
    ///
    /// # Panics
    ///
    /// A source does not compile, or a tool is missing (the message says which).
    pub fn build(&self) -> PathBuf {
        let dir = probes_dir().join(self.digest());
        let module = dir.join(&self.name);
        if !module.exists() {
            fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
            self.compile_and_link(&module).unwrap_or_else(|e| panic!("probe {}: {e:?}", self.name));
        }
        module
    }

    fn compile_and_link(&self, module: &Path) -> anyhow::Result<()> {
        let scratch = tempfile::tempdir()?;
        let mut inputs = Vec::new();
        for (index, source) in self.all_sources().iter().enumerate() {
            let path = scratch.path().join(format!("{}-{index}.c", self.name));
            fs::write(&path, &source.text)?;
            let mut includes: Vec<PathBuf> = source.dir.iter().cloned().collect();
            includes.extend(self.headers.iter().cloned());
            includes.push(include_dir(workspace_root()));
            let object = path.with_extension("o");
            Compile { source: &path, object: &object, includes: &includes, defines: &self.defines }.run()?;
            inputs.push(object);
        }
        Link { inputs: &inputs, globals: None, scratch: scratch.path(), output: module }.run()
    }

    fn all_sources(&self) -> Vec<Source> {
        let mut sources = self.sources.clone();
        if !self.depends.is_empty() {
            let text = format!("char _depends_on[] = \"{}\";\n", self.depends.join(" "));
            sources.push(Source { dir: None, text });
        }
        sources
    }

    /// Names everything that goes into the module, so that a stale one is never loaded.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for source in self.all_sources() {
            let dir = source.dir.as_deref().map(hash_of_directory).unwrap_or_default();
            hash.update(format!("{:?}{dir:?}", source.text));
        }
        hash.update(format!("{:?}{:?}{CFLAGS:?}{LINKER_SCRIPT:?}", self.name, self.defines));
        for dir in &self.headers {
            hash.update(hash_of_directory(dir));
        }
        hash.update(headers_digest());
        hex(&hash.finalize()[..12])
    }
}

/// `target/<profile>/probes`, beside the test binaries.
fn probes_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let profile = exe.ancestors().find(|dir| dir.join("deps").is_dir());
    profile.expect("tests run from cargo's target directory").join("probes")
}

fn headers_digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| hash_of_directory(&include_dir(workspace_root())))
}

/// Hashes every C source and header below `dir`.
fn hash_of_directory(dir: &Path) -> String {
    let mut hash = Sha256::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "h" || extension == "c") {
                hash.update(path.to_string_lossy().as_bytes());
                hash.update(fs::read(&path).unwrap_or_default());
            }
        }
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(number: u32) -> Probe {
        Probe::new("answer").source(&format!("int _init(void) {{ return ({number}); }}"))
    }

    #[test]
    fn probe_is_built_once_per_content() {
        let first = answering(1).build();
        let built = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(answering(1).build(), first);
        assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), built);
        assert_ne!(answering(2).build(), first);
        assert_ne!(answering(1).depends("misc/mac").build(), first);
    }

    #[test]
    fn probe_records_its_dependencies_in_order() {
        let image = fs::read(answering(3).depends("misc/mac").depends("drv/ip").build()).unwrap();
        let wanted = b"misc/mac drv/ip\0";
        assert!(image.windows(wanted.len()).any(|bytes| bytes == wanted));
    }

    #[test]
    #[should_panic(expected = "no_such_header.h")]
    fn probe_that_does_not_compile_says_why() {
        Probe::new("broken").source("#include <sys/no_such_header.h>").build();
    }
}
