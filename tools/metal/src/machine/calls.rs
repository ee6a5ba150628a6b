//! The calls between mac and the driver, as a kernel makes them: gdb stops at each, notes it, and lets the kernel go on.
//!
//! A line for each: `link1 mc_multicst(1, ff12401b...) = 0` is a call of the driver's, written when it returns; `mac_link_update(1)` is
//! one of the driver's. Links are numbered as they are first called. Calls for packets are left out.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use object::{Object as _, ObjectSymbol as _};
use rustc_demangle::demangle;

use super::debugger::Debugger;

/// The part that gdb runs.
const SCRIPT: &str = include_str!("calls.py");

/// A callback's name in ours, in the C driver, and in `mac_callbacks_t`; how its arguments are shown; whether it returns a value.
const CALLBACKS: [(&str, &str, &str, &str, bool); 10] = [
    ("start", "ibd_m_start", "mc_start", "", true),
    ("stop", "ibd_m_stop", "mc_stop", "", false),
    ("setpromisc", "ibd_m_promisc", "mc_setpromisc", "on", true),
    ("multicst", "ibd_m_multicst", "mc_multicst", "on-address", true),
    ("unicst", "ibd_m_unicst", "mc_unicst", "address", true),
    ("ioctl", "", "mc_ioctl", "", false),
    ("getcapab", "ibd_m_getcapab", "mc_getcapab", "capability", true),
    ("setprop", "ibd_m_setprop", "mc_setprop", "property", true),
    ("getprop", "ibd_m_getprop", "mc_getprop", "property", true),
    ("propinfo", "ibd_m_propinfo", "mc_propinfo", "property", false),
];

/// What a driver calls, and how the arguments behind the handle are shown.
const UPCALLS: [(&str, &str); 6] = [
    ("mac_register", ""),
    ("mac_unregister", ""),
    ("mac_link_update", "number"),
    ("mac_unicst_update", "address"),
    ("mac_maxsdu_update2", "numbers"),
    ("mac_capab_update", ""),
];

/// How long gdb may take to reach the machine.
const PATIENCE: usize = 300;

/// gdb at work.
pub struct Tracer {
    gdb: Child,
    file: PathBuf,
}

impl Tracer {
    /// Begins to write the calls of a driver to `file`. The debugger has learned where it is loaded.
    ///
    /// # Errors
    ///
    /// gdb is not there or cannot read the machine; the driver's object has none of the callbacks.
    pub fn begin(debugger: &Debugger, driver: &str, file: &Path) -> Result<Self> {
        fs::write(file, "").with_context(|| file.display().to_string())?;
        let file = file.canonicalize()?;
        let script = file.with_extension("gdb.py");
        let object = debugger.object(driver).with_context(|| format!("{driver} has no file"))?;
        let callbacks = callbacks(&fs::read(&object)?).with_context(|| object.display().to_string())?;
        fs::write(&script, script_for(&file, &callbacks))?;
        let commands = file.with_extension("gdb");
        fs::write(&commands, format!("{}source {}\n", debugger.commands(), script.display()))?;
        let log = fs::File::create(file.with_extension("gdb.log"))?;
        let gdb = Command::new("gdb")
            .args(["-q", "-batch", "-nx", "-x"])
            .arg(&commands)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("gdb is not there: tools/setup.sh metal installs it")?;
        let mut tracer = Self { gdb, file };
        tracer.wait_until_it_runs()?;
        Ok(tracer)
    }

    fn wait_until_it_runs(&mut self) -> Result<()> {
        for _ in 0..PATIENCE {
            if fs::read_to_string(&self.file)?.contains("== traced") {
                return Ok(());
            }
            if let Some(status) = self.gdb.try_wait()? {
                bail!("gdb ended ({status}): {}", self.file.with_extension("gdb.log").display());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("gdb does not reach the machine: {}", self.file.with_extension("gdb.log").display())
    }

    /// What was written so far.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn lines(&self) -> Result<Vec<String>> {
        Ok(fs::read_to_string(&self.file)?.lines().map(str::to_owned).collect())
    }

    /// Octets written so far.
    ///
    /// # Errors
    ///
    /// The file is gone.
    pub fn length(&self) -> Result<u64> {
        Ok(fs::metadata(&self.file)?.len())
    }

    /// A line of its own: what is done next.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn mark(&self, what: &str) -> Result<()> {
        let mut file = fs::File::options().append(true).open(&self.file)?;
        Ok(writeln!(file, "== {what}")?)
    }
}

/// gdb takes its breakpoints away when it is told to end; the kernel runs on.
impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-INT").arg(self.gdb.id().to_string()).status();
        for _ in 0..50 {
            if matches!(self.gdb.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.gdb.kill();
        let _ = self.gdb.wait();
    }
}

/// A callback in an object.
struct Callback {
    symbol: String,
    length: u64,
    /// `link`, or `port` for the links of physical ports that `ibp` has besides its partitions.
    whose: &'static str,
    name: &'static str,
    shape: &'static str,
    returns: bool,
}

fn callbacks(object: &[u8]) -> Result<Vec<Callback>> {
    let file = object::File::parse(object).context("no object")?;
    let mut found = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.size() > 0) {
        let Ok(mangled) = symbol.name() else { continue };
        if let Some((whose, (_, _, name, shape, returns))) = callback(mangled) {
            found.push(Callback {
                symbol: mangled.into(),
                length: symbol.size(),
                whose,
                name,
                shape,
                returns,
            });
        }
    }
    ensure!(!found.is_empty(), "none of mac's callbacks has a symbol");
    Ok(found)
}

type Row = (&'static str, &'static str, &'static str, &'static str, bool);

/// Which callback a symbol is, and of what kind of link.
fn callback(mangled: &str) -> Option<(&'static str, Row)> {
    let name = format!("{:#}", demangle(mangled));
    let row = |is: &dyn Fn(&Row) -> bool| CALLBACKS.iter().copied().find(is);
    let Some(ours) = name.strip_prefix("gldv3::table::") else {
        return Some(("link", row(&|row| !row.1.is_empty() && row.1 == name)?));
    };
    let (function, of) = ours.split_once("::<")?;
    let whose = if of.starts_with("ibd::port") { "port" } else { "link" };
    Some((whose, row(&|row| row.0 == function)?))
}

/// The script with what it is about; the literals are Python's as they are Rust's.
fn script_for(file: &Path, callbacks: &[Callback]) -> String {
    let mut text = format!("OUT = {:?}\nCALLBACKS = [\n", file.display().to_string());
    for Callback { symbol, length, whose, name, shape, returns } in callbacks {
        let returns = if *returns { "True" } else { "False" };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "    ({symbol:?}, {length}, {whose:?}, {name:?}, {shape:?}, {returns}),");
    }
    text.push_str("]\nUPCALLS = [\n");
    for (name, shape) in UPCALLS {
        let _ = writeln!(text, "    ({name:?}, {shape:?}),");
    }
    text + "]\n" + SCRIPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_known_by_its_name_in_either_driver() {
        let of = |symbol: &str| callback(symbol).map(|(whose, row)| (whose, row.2));
        assert_eq!(of("ibd_m_promisc"), Some(("link", "mc_setpromisc")));
        assert_eq!(of("ibd_m_tx"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn the_script_says_where_and_what() {
        let start = Callback {
            symbol: "ibd_m_start".into(),
            length: 40,
            whose: "link",
            name: "mc_start",
            shape: "",
            returns: true,
        };
        let text = script_for(Path::new("/tmp/calls"), &[start]);
        assert!(text.starts_with("OUT = \"/tmp/calls\"\n"));
        assert!(text.contains("(\"ibd_m_start\", 40, \"link\", \"mc_start\", \"\", True),"));
        assert!(text.contains("(\"mac_link_update\", \"number\"),"));
    }
}
