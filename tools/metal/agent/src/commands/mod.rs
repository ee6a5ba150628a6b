//! The words a process understands. Each group has a module; [`HELP`] lists them all.

use core::ffi::CStr;
use core::fmt::Write as _;

use crate::abi::text;
use crate::answer::{Answer, Text};
use crate::router::CONSOLE;
use crate::sys::files::{Open, close, names, open, write_all};
use crate::sys::{self, Errno};
use crate::words::{Unreadable, Words};

/// Why a command was not done.
pub enum Failure {
    /// A call that was refused: which, and its errno.
    Call(&'static str, Errno),
    /// What was asked cannot be read, or what came cannot be understood.
    Words(&'static str),
}

/// What a command gives; the answer is written on the way.
pub type Outcome = Result<(), Failure>;

impl From<Unreadable> for Failure {
    fn from(Unreadable(why): Unreadable) -> Self {
        Self::Words(why)
    }
}

/// Names the call in its failure.
pub trait Named<T> {
    /// The same, with the call's name.
    ///
    /// # Errors
    ///
    /// The call failed.
    fn named(self, call: &'static str) -> Result<T, Failure>;
}

impl<T> Named<T> for sys::Result<T> {
    fn named(self, call: &'static str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::Call(call, errno))
    }
}

/// A path as the kernel takes it.
pub struct Path(Text<256>);

impl Path {
    /// `text` with a zero behind it.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn new(text: &str) -> Result<Self, Failure> {
        let mut path = Text::of(text);
        path.push(&[0]);
        if path.is_cut() { Err(Failure::Words("a path is too long")) } else { Ok(Self(path)) }
    }

    /// As the kernel takes it.
    pub fn c(&self) -> &CStr {
        CStr::from_bytes_until_nul(self.0.bytes()).unwrap_or_default()
    }
}

/// Does one command.
///
/// # Errors
///
/// It cannot be read, or a call failed.
pub fn run(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    match words.word()? {
        "hello" => Ok(()),
        "say" => say(words.rest()),
        "sleep" => {
            sys::sleep(words.number()?);
            Ok(())
        }
        "load" => load(words, answer),
        "unload" => unload(words),
        "modules" => modules(answer),
        "list" => list(words, answer),
        _ => Err(Failure::Words("no such word; see metal shell, help")),
    }
}

fn say(what: &str) -> Outcome {
    let console = open(CONSOLE, Open::Write).named("open")?;
    let mut line = Text::<512>::default();
    // Writing to a Text cannot fail.
    let _ = writeln!(line, "{what}");
    let written = write_all(console, line.bytes()).named("write");
    let _ = close(console);
    written
}

fn load(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let id = sys::load(Path::new(words.word()?)?.c()).named("modload")?;
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " id={id}");
    Ok(())
}

/// Unloads a module by its name.
fn unload(words: &mut Words<'_>) -> Outcome {
    let name = words.word()?;
    let mut previous = None;
    while let Ok(info) = sys::module_after(previous) {
        if text(&info.name) == name {
            sys::unload(info.id).named("modunload")?;
            return Ok(());
        }
        previous = Some(info.id);
    }
    Err(Failure::Call("modinfo", Errno(2)))
}

fn modules(answer: &mut Answer) -> Outcome {
    let mut previous = None;
    while let Ok(info) = sys::module_after(previous) {
        let _ = write!(answer, " {}={}:{:x}+{:x}", text(&info.name), info.id, info.base, info.size);
        previous = Some(info.id);
    }
    Ok(())
}

fn list(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let path = Path::new(words.word()?)?;
    let listed = names(path.c(), |name| {
        if name != b"." && name != b".." {
            answer.push(b" ");
            answer.push(name);
        }
    });
    listed.named("getdents")
}
