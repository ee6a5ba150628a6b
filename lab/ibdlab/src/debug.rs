//! `ibdlab debug`: a scenario under gdb, which learns of the modules as they are loaded (see [`fakekernel::debugger`]).
//!
//! Functions to stop at are looked up in the objects first: so a name is refused that no module has, and gdb is given the symbol,
//! about which it cannot be of another opinion.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Error, Result, bail};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::cli::DebugArgs;
use crate::scenario::Scenario;

/// Set for a process that a debugger watches: the host whose modules it wants to know of, or nothing for all.
const TELL: &str = "IBDLAB_TELL_GDB";

/// The command `ibd-links`.
const LINKS: &str = include_str!("../../../tools/gdb/ibd_links.py");

/// How many functions a refusal proposes.
const PROPOSALS: usize = 8;

/// Tells the debugger of modules if the environment asks for it.
pub fn obey_environment() {
    if let Ok(host) = std::env::var(TELL) {
        fakekernel::debugger::tell_of(Some(host).filter(|host| !host.is_empty()));
    }
}

/// Makes this process gdb, with `ibdlab run` as its program; what it returns is why that failed.
///
/// # Errors
///
/// The scenario has no such host, an object is missing, or no function is called so.
pub fn become_gdb(args: &DebugArgs, scenario: Scenario) -> Result<Error> {
    let mut files = BTreeSet::new();
    let mut known = false;
    for host in scenario.host.iter().map(serde_spanned::Spanned::get_ref) {
        let wanted = args.host.as_ref().is_none_or(|name| name == host.name.get_ref());
        known |= wanted;
        if wanted {
            files.insert(args.proto.join("mac/amd64/mac_ib"));
            files.insert(args.proto.join("drv/amd64").join(host.driver.name()));
        }
    }
    if let Some(host) = args.host.as_ref().filter(|_| !known) {
        bail!("{} has no host `{host}`", args.scenario.display());
    }
    let functions = functions(files.iter().map(std::path::PathBuf::as_path))?;
    let mut gdb = Command::new("gdb");
    // Before the program is loaded; what is told of later is still to be found.
    gdb.args(["-q", "-iex", "set breakpoint pending on", "-iex", "set print thread-events off"]);
    gdb.arg("-iex").arg(format!("python exec({LINKS:?})"));
    for name in &args.breaks {
        for symbol in find(&functions, name)? {
            gdb.arg("-ex").arg(format!("break {symbol}"));
        }
    }
    gdb.args(&args.gdb).arg("--args").arg(std::env::current_exe()?).args(program(args));
    gdb.env(TELL, args.host.as_deref().unwrap_or(""));
    let error = gdb.exec();
    Ok(match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!("no gdb here: apt-get install gdb"),
        _ => Error::new(error).context("cannot run gdb"),
    })
}

/// The run that is debugged.
fn program(args: &DebugArgs) -> Vec<OsString> {
    let mut program: Vec<OsString> = vec!["run".into()];
    if let Some(seed) = args.seed {
        program.extend(["--seed".into(), seed.to_string().into()]);
    }
    program.extend(["--proto".into(), args.proto.clone().into(), args.scenario.clone().into()]);
    program
}

/// A function of a module.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    symbol: String,
    /// As people write it, without hash and type arguments.
    path: String,
}

fn functions<'a>(files: impl Iterator<Item = &'a Path>) -> Result<BTreeSet<Function>> {
    let mut functions = BTreeSet::new();
    for path in files {
        let data = fs::read(path)
            .with_context(|| format!("{}: no such object; `make modules` builds ours", path.display()))?;
        let file = object::File::parse(&*data).with_context(|| path.display().to_string())?;
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let symbol = symbol.name()?.to_owned();
            let path = plain(&format!("{:#}", rustc_demangle::demangle(&symbol)));
            functions.insert(Function { symbol, path });
        }
    }
    Ok(functions)
}

/// The symbols of all functions of that path, or whose path ends with it.
fn find<'a>(functions: &'a BTreeSet<Function>, name: &str) -> Result<Vec<&'a str>> {
    let end = format!("::{name}");
    let is = |function: &&Function| function.path == name || function.path.ends_with(&end);
    let found: Vec<&str> = functions.iter().filter(is).map(|function| function.symbol.as_str()).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    let like: BTreeSet<&str> =
        functions.iter().map(|f| f.path.as_str()).filter(|path| path.contains(last)).collect();
    let like: Vec<&str> = like.into_iter().take(PROPOSALS).collect();
    let proposed = if like.is_empty() { String::new() } else { format!("; there are: {}", like.join(", ")) };
    bail!("no function `{name}` in the modules (one that was inlined everywhere is in none){proposed}")
}

/// A demangled name without type arguments, and with the type in the place of `<Type as Trait>`.
fn plain(name: &str) -> String {
    let mut text = name.to_owned();
    while let Some(rest) = text.strip_prefix('<') {
        let Some(end) = closing(rest) else { break };
        let inner = &rest[..end];
        let of = inner.split(" as ").next().unwrap_or(inner);
        text = format!("{of}{}", &rest[end + 1..]);
    }
    let (mut bare, mut depth) = (String::new(), 0_usize);
    let mut before = ' ';
    for letter in text.chars() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
        before = letter;
    }
    bare.replace("::::", "::").trim_end_matches("::").to_owned()
}

/// Where the angle bracket ends that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut before) = (1_usize, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        before = letter;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_people_write() {
        for (demangled, written) in [
            ("ibd::link::worker::run", "ibd::link::worker::run"),
            ("<ibd::link::control::Control>::next_effect", "ibd::link::control::Control::next_effect"),
            ("<ibd::a::B as gldv3::provider::Provider>::start", "ibd::a::B::start"),
            ("<kernel::vec::KVec<core::option::Option<fn() -> u8>>>::push", "kernel::vec::KVec::push"),
            ("kernel::thread::run::<ibd::News, ibd::spawn::{closure#0}>", "kernel::thread::run"),
            ("_init", "_init"),
        ] {
            assert_eq!(plain(demangled), written);
        }
    }

    #[test]
    fn a_name_that_no_function_has_is_refused_with_those_that_are_like_it() {
        let function = |path: &str| Function { symbol: format!("_{path}"), path: path.into() };
        let all = BTreeSet::from([function("ibd::link::worker::run"), function("mac_ib::start")]);
        assert_eq!(find(&all, "worker::run").unwrap(), ["_ibd::link::worker::run"]);
        assert_eq!(find(&all, "mac_ib::start").unwrap(), ["_mac_ib::start"]);
        let refused = find(&all, "link::start").unwrap_err().to_string();
        assert!(
            refused.contains("`link::start`") && refused.ends_with("there are: mac_ib::start"),
            "{refused}"
        );
    }
}
