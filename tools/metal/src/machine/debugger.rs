//! gdb at a kernel that runs or hangs, with the symbols of unix and of every module that is loaded.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use object::elf::{SHF_ALLOC, SHF_WRITE};
use object::{Object as _, ObjectSection as _, SectionFlags};

use super::owners::reference;
use super::session::{Fields, Session};
use super::symbols::demangled;
use super::{Options, Trouble};

/// How long the agent may take to list the modules, and gdb to walk the stacks.
const QUIET: Duration = Duration::from_secs(30);

/// Directories of a root in which modules lie.
const PLACES: [&str; 14] = [
    "kernel/drv/amd64",
    "kernel/misc/amd64",
    "kernel/mac/amd64",
    "kernel/strmod/amd64",
    "kernel/fs/amd64",
    "kernel/sys/amd64",
    "kernel/sched/amd64",
    "kernel/dacf/amd64",
    "kernel/exec/amd64",
    "kernel/amd64",
    "usr/kernel/drv/amd64",
    "platform/i86pc/kernel/misc/amd64",
    "platform/i86pc/kernel/drv/amd64",
    "platform/i86pc/kernel/mach/amd64",
];

/// The command `ibd-links`.
const LINKS: &str = include_str!("../../../gdb/ibd_links.py");

/// What gdb needs to know of a machine.
pub struct Debugger {
    /// Keeps the sockets.
    sockets: tempfile::TempDir,
    socket: &'static str,
    trees: Vec<PathBuf>,
    /// What gdb is told about symbols, as of the last list of modules.
    symbols: String,
}

impl Debugger {
    pub(super) fn new(sockets: tempfile::TempDir, socket: &'static str, trees: Vec<PathBuf>) -> Self {
        Self { sockets, socket, trees, symbols: String::new() }
    }

    /// Learns which modules are loaded and where; a kernel that hangs cannot be asked any more.
    ///
    /// # Errors
    ///
    /// The machine is in trouble.
    pub fn learn(&mut self, session: &mut Session) -> Result<(), Trouble> {
        if let Ok(modules) = session.ask("0", "modules", QUIET)? {
            self.symbols = symbols(&modules, &self.trees);
        }
        Ok(())
    }

    /// Everything gdb has to be told before it can be used.
    pub(super) fn commands(&self) -> String {
        let socket = self.sockets.path().join(self.socket);
        let mut text = String::from("set pagination off\nset confirm off\nset architecture i386:x86-64\n");
        if let Some(unix) = find(&self.trees, "platform/i86pc/kernel/amd64/unix") {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "file {}", unix.display());
        }
        text.push_str(&self.symbols);
        let _ = writeln!(text, "target remote {}", socket.display());
        text
    }

    /// Where the text of a module is, as a number in hexadecimal.
    pub(super) fn text_of(&self, module: &str) -> Option<&str> {
        let end = format!("/{module}");
        self.symbols
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .find(|(file, _)| file.ends_with(&end))
            .map(|(_, at)| at)
    }

    /// The file of a module.
    pub(super) fn object(&self, module: &str) -> Option<PathBuf> {
        PLACES.iter().find_map(|directory| find(&self.trees, &format!("{directory}/{module}")))
    }

    /// The stack of each processor, as gdb prints them with the names of the source.
    ///
    /// # Errors
    ///
    /// gdb is not there, or cannot read the machine.
    pub fn stacks(&self) -> Result<String> {
        let said = self.ask_gdb("thread apply all bt 25\n")?;
        let frames: Vec<String> = said.lines().filter(|line| is_of_a_stack(line)).map(demangled).collect();
        ensure!(!frames.is_empty(), "gdb prints no stack");
        Ok(frames.join("\n"))
    }

    /// All links of the driver and what they count that is not 0: a line for each, as gdb's command `ibd-links` writes them.
    ///
    /// # Errors
    ///
    /// gdb is not there, or cannot read the machine; no driver of ours is loaded.
    pub fn links(&self) -> Result<Vec<String>> {
        let said = self.ask_gdb(&format!("source {}\nibd-links\n", self.links_script()?.display()))?;
        let is_ours = |line: &&str| line.starts_with("link ") || line.starts_with("  ");
        Ok(said.lines().filter(is_ours).map(str::to_owned).collect())
    }

    /// The file that defines `ibd-links`, with where each driver of ours has its `ibd_root`.
    fn links_script(&self) -> Result<PathBuf> {
        let mut text = String::from("import gdb, struct\nIBD_ROOTS = []\n");
        for driver in ["ibd", "ibp"] {
            let (Some(begins), Some(object)) = (self.text_of(driver), self.object(driver)) else { continue };
            // The C driver has none.
            let Ok((at, addend)) = reference(&fs::read(object)?, "ibd_root") else { continue };
            let _ = writeln!(
                text,
                "IBD_ROOTS.append(struct.unpack('<i', bytes(gdb.selected_inferior().read_memory({begins} + {at}, 4)))[0] - {addend} & (1 << 64) - 1)"
            );
        }
        let file = self.place().join("links.py");
        fs::write(&file, text + LINKS)?;
        Ok(file)
    }

    /// Where files for gdb may be written.
    pub(super) fn place(&self) -> &Path {
        self.sockets.path()
    }

    /// Stops the machine, has gdb do this, and lets it run again; what gdb printed.
    pub(super) fn ask_gdb(&self, commands: &str) -> Result<String> {
        let file = self.place().join("commands.gdb");
        fs::write(&file, self.commands() + commands + "detach\n")?;
        let output = Command::new("timeout")
            .args(["120", "gdb", "-q", "-batch", "-nx", "-x"])
            .arg(&file)
            .output()
            .context("gdb is not there: tools/setup.sh metal installs it")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "gdb: {}", errors.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A frame, or the line that says whose frames follow.
fn is_of_a_stack(line: &str) -> bool {
    line.starts_with('#') || line.starts_with("Thread ")
}

/// The first of the trees that has the file.
fn find(trees: &[PathBuf], file: &str) -> Option<PathBuf> {
    trees.iter().map(|tree| tree.join(file)).find(|path| path.is_file())
}

/// A command for each module whose file is found. A module's text is one section; krtld says where the memory for it begins, and puts
/// the section on the next address that is aligned enough.
fn symbols(modules: &Fields, trees: &[PathBuf]) -> String {
    let mut text = String::new();
    for (name, place) in modules.pairs().filter(|(name, _)| *name != "unix") {
        let base = place.split_once(':').and_then(|(_, place)| place.split_once('+')).map(|(base, _)| base);
        let file = PLACES.iter().find_map(|directory| find(trees, &format!("{directory}/{name}")));
        let base = base.and_then(|base| u64::from_str_radix(base, 16).ok());
        if let (Some(base), Some(file)) = (base, file) {
            let begins = base.next_multiple_of(text_alignment(&fs::read(&file).unwrap_or_default()));
            let _ = writeln!(text, "add-symbol-file {} {begins:#x}", file.display());
        }
    }
    text
}

/// The text goes on an address that suits every section that is loaded with it: what is only read.
fn text_alignment(module: &[u8]) -> u64 {
    let Ok(object) = object::File::parse(module) else { return 1 };
    let is_read_only = |flags| match flags {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & (SHF_ALLOC.0 | SHF_WRITE.0) == SHF_ALLOC.0,
        _ => false,
    };
    let loaded = object.sections().filter(|section| is_read_only(section.flags()));
    loaded.map(|section| section.align()).max().map_or(1, |align| align.max(1))
}

/// Boots, lets the driver attach, and gives a person gdb.
///
/// # Errors
///
/// The machine could not be booted, or gdb is not there.
pub fn run(options: &Options) -> Result<bool> {
    let (mut session, mut debugger) = options.boot()?.apart();
    let driver = options.identity.name();
    for words in ["router spawn dls", "dls dls-serve", "0 dls-start", &format!("0 load drv/{driver}")] {
        let (process, words) = words.split_once(' ').unwrap_or_default();
        session.ask(process, words, QUIET)?.with_context(|| words.to_owned())?;
    }
    debugger.learn(&mut session)?;
    let file = options.work.join("commands.gdb");
    let commands = debugger.commands() + &format!("source {}\n", debugger.links_script()?.display());
    fs::write(&file, commands).with_context(|| file.display().to_string())?;
    println!("The kernel is stopped; its console is kept in {}.", session.console().file().display());
    println!("continue lets it run, ^C stops it, quit ends it; ibd-links prints the driver's links.");
    let ended = Command::new("gdb").args(["-q", "-nx", "-x"]).arg(&file).status();
    session.end();
    Ok(ended.context("gdb is not there: tools/setup.sh metal installs it")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_that_has_a_file_is_told_where_its_text_is() -> Result<()> {
        let place = tempfile::tempdir()?;
        let (over, root) = (place.path().join("over"), place.path().join("root"));
        for file in [
            over.join("kernel/drv/amd64/ibp"),
            root.join("kernel/drv/amd64/ibp"),
            root.join("kernel/amd64/genunix"),
        ] {
            fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
            fs::write(file, "")?;
        }
        let modules = Fields { text: "unix=0:ff00+10 genunix=1:ff10+20 ibp=7:ff80+300 gone=8:ff90+1".into() };
        let told = symbols(&modules, &[over.clone(), root.clone()]);
        let ours = format!("add-symbol-file {} 0xff80\n", over.join("kernel/drv/amd64/ibp").display());
        let genunix = format!("add-symbol-file {} 0xff10\n", root.join("kernel/amd64/genunix").display());
        assert_eq!(told, genunix + &ours);
        Ok(())
    }

    #[test]
    fn the_text_of_a_module_begins_where_its_constants_are_aligned_too() -> Result<()> {
        let place = tempfile::tempdir()?;
        let object = place.path().join("module.o");
        let sections = [
            "\t.text\n\t.balign 16\n\tret\n",
            "\t.section .rodata\n\t.balign 32\n\t.long 1\n",
            "\t.data\n\t.balign 128\n\t.long 1\n",
        ];
        crate::build::tools::assemble(&sections.concat(), &object)?;
        assert_eq!(text_alignment(&fs::read(&object)?), 32);
        assert_eq!(text_alignment(b"no object"), 1);
        Ok(())
    }

    #[test]
    fn of_what_gdb_says_the_frames_are_kept() {
        assert!(
            is_of_a_stack("#0  0xffff in _RNvNtCs1_3ibd4ring5close ()")
                && is_of_a_stack("Thread 1 (Thread 1.1):")
        );
        assert!(!is_of_a_stack("Reading symbols from unix..."));
    }
}
