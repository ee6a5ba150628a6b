//! From an object file to text and data in windows: layout, symbols, relocation.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use object::elf;
use sim::Contexts;

use crate::loader::gate::{self, Import, STUB_SIZE};
use crate::loader::kernel::{Between, Kernel, Resolved};
use crate::loader::module::Module;
use crate::loader::module::elf::{ObjectFile, Place, Relocation, width};
use crate::loader::module::names::interned;
use crate::loader::module::symbols::Symbols;
use crate::loader::module::window::{Access, Window};
use crate::loader::sdt;

/// What the kernel's loader lets a module define for itself.
const PRIVATE_COPIES: [&str; 10] =
    ["memcpy", "memmove", "memset", "memcmp", "memchr", "strncat", "strlcat", "strlcpy", "strspn", "strstr"];
const NOP: u8 = 0x90;
const CALL: u8 = 0xe8;

/// A module's memory, ready to run.
pub(super) struct Linked {
    pub text: Window,
    pub data: Window,
    pub imports: Vec<Arc<Import>>,
    pub symbols: Symbols,
    /// Address of each section of the file; 0 if not loaded.
    pub addresses: Vec<usize>,
}

/// A module that may be searched for symbols.
pub(crate) enum Dependency {
    /// Provided by the lab, by path.
    Provided(String),
    /// A loaded object.
    Loaded(Module),
}

struct Linker<'a> {
    kernel: &'a Kernel,
    name: &'a str,
    file: &'a ObjectFile,
    /// Address of each section; 0 if not loaded.
    addresses: Vec<usize>,
    text: Segment,
    data: Segment,
    imports: Vec<Arc<Import>>,
    complaints: Vec<String>,
}

/// Bytes being prepared for a window.
#[derive(Default)]
struct Segment {
    base: usize,
    bytes: Vec<u8>,
}

impl Segment {
    fn place(&mut self, align: usize, size: usize, bytes: &[u8]) -> usize {
        let offset = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(offset + size, 0);
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        offset
    }

    fn field(&mut self, addr: usize, len: usize) -> &mut [u8] {
        let offset = addr - self.base;
        &mut self.bytes[offset..offset + len]
    }
}

/// Lays out, resolves and relocates; every complaint is a line.
pub(super) fn link(
    kernel: &Kernel,
    name: &str,
    ordinal: usize,
    file: &Arc<ObjectFile>,
    dependencies: &[Dependency],
) -> Result<Linked, Vec<String>> {
    let mut linker = Linker {
        kernel,
        name,
        file,
        addresses: vec![0; file.sections.len()],
        text: Segment::default(),
        data: Segment::default(),
        imports: Vec::new(),
        complaints: Vec::new(),
    };
    let (text, data) = linker.lay_out().map_err(|error| vec![format!("{name}: {error}")])?;
    linker.refuse_doubles();
    let values = linker.resolve(ordinal, dependencies);
    if linker.complaints.is_empty() {
        linker.relocate(&values);
    }
    if !linker.complaints.is_empty() {
        return Err(linker.complaints);
    }
    text.write(&linker.text.bytes);
    data.write(&linker.data.bytes);
    let sealed = text.protect(Access::ReadExecute).and_then(|()| data.protect(Access::ReadWrite));
    sealed.map_err(|error| vec![format!("{name}: {error}")])?;
    let symbols = Symbols::new(file.clone(), values);
    Ok(Linked { text, data, imports: linker.imports, symbols, addresses: linker.addresses })
}

impl Linker<'_> {
    /// Sections in header order, read-only ones into text, the others into data; stubs behind the text.
    fn lay_out(&mut self) -> std::io::Result<(Window, Window)> {
        let mut offsets = vec![None; self.file.sections.len()];
        for (index, section) in self.file.sections.iter().enumerate().filter(|(_, s)| s.alloc) {
            let segment = if section.writable { &mut self.data } else { &mut self.text };
            offsets[index] = Some(segment.place(section.align, section.size, &section.bytes));
        }
        let undefined = self.file.symbols.iter().filter(|s| s.place == Place::Undefined).count();
        let stubs = self.text.place(16, undefined * STUB_SIZE, &[]);
        let text = Window::new(self.text.bytes.len())?;
        let data = Window::new(self.data.bytes.len())?;
        self.text.bytes.truncate(stubs);
        (self.text.base, self.data.base) = (text.start(), data.start());
        for (index, section) in self.file.sections.iter().enumerate() {
            let base = if section.writable { self.data.base } else { self.text.base };
            self.addresses[index] = offsets[index].map_or(0, |offset| base + offset);
        }
        Ok((text, data))
    }

    /// The kernel's loader warns of a global that the kernel has too, and goes on; whoever searches the kernel then finds one of
    /// the two.
    fn refuse_doubles(&mut self) {
        for symbol in &self.file.symbols {
            let global = symbol.place != Place::Undefined && !symbol.local && !symbol.weak;
            if global
                && !PRIVATE_COPIES.contains(&symbol.name.as_str())
                && self.kernel.resolve(&symbol.name, &[]).is_some()
            {
                self.complaints.push(format!("{} symbol {} multiply defined", self.name, symbol.name));
            }
        }
    }

    /// The value of each symbol; complains about all that have none.
    fn resolve(&mut self, ordinal: usize, dependencies: &[Dependency]) -> Vec<usize> {
        let mut values = Vec::with_capacity(self.file.symbols.len());
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for symbol in &self.file.symbols {
            values.push(match symbol.place {
                Place::Absolute(value) => value,
                Place::In { section, offset } => self.addresses[section] + offset,
                Place::Undefined if symbol.name.starts_with(sdt::PREFIX) && !self.probes() => 0,
                Place::Undefined => match known.get(symbol.name.as_str()) {
                    Some(value) => *value,
                    None => {
                        let value = self.import(&symbol.name, ordinal, dependencies);
                        known.insert(&symbol.name, value);
                        value
                    }
                },
            });
        }
        values
    }

    fn import(&mut self, symbol: &str, ordinal: usize, dependencies: &[Dependency]) -> usize {
        if symbol.starts_with(sdt::PREFIX) {
            // The constants lie between the code and the stubs.
            let code = sdt::enable(self.kernel, self.name, symbol, (self.text.base, self.text.bytes.len()));
            return self.text.base + self.text.place(16, STUB_SIZE, &code);
        }
        if let Some(code) = thunk(symbol) {
            return self.text.base + self.text.place(16, STUB_SIZE, &code);
        }
        match self.kernel.resolve(symbol, dependencies) {
            Some(Resolved::Data(addr)) => addr,
            Some(Resolved::Function(addr, contexts, between)) => {
                let checks = self.kernel.machine().config().checks;
                let plain = if checks { None } else { self.kernel.services().plain(symbol) };
                let leaf = between != Between::Gate || plain.is_some();
                let direct = between == Between::Nothing || (!checks && leaf);
                let addr = plain.unwrap_or(addr);
                self.stub(symbol, ordinal, addr, contexts, direct)
            }
            None => {
                let hint = match self.kernel.exporter_of(symbol) {
                    Some(path) => format!(" (exported by {path}, which is not listed as a dependency)"),
                    None => String::new(),
                };
                self.complaints.push(format!("{}: undefined symbol '{symbol}'{hint}", self.name));
                0
            }
        }
    }

    fn stub(&mut self, symbol: &str, ordinal: usize, addr: usize, contexts: Contexts, direct: bool) -> usize {
        let position = self.imports.len();
        let offset = self.text.place(16, STUB_SIZE, &[]);
        let import = Arc::new(Import {
            addr,
            name: symbol.to_owned(),
            contexts,
            trace_id: (self.kernel.index() << 32 | ordinal << 16 | position) as u64,
            kernel: self.kernel.clone(),
            module: OnceLock::new(),
            module_name: interned(self.name),
            calls: AtomicU64::new(0),
            direct,
            stub: self.text.base + offset,
        });
        let at = import.stub;
        self.text.field(at, STUB_SIZE).copy_from_slice(&gate::stub(&import));
        self.imports.push(import);
        at
    }

    fn relocate(&mut self, values: &[usize]) {
        for relocation in &self.file.relocations {
            let symbol = &self.file.symbols[relocation.symbol];
            if symbol.place == Place::Undefined && symbol.name.starts_with(sdt::PREFIX) {
                if self.is_called(relocation) {
                    self.place_probe(relocation, values[relocation.symbol]);
                }
            } else {
                self.apply(relocation, values[relocation.symbol]);
            }
        }
    }

    fn apply(&mut self, relocation: &Relocation, value: usize) {
        let Relocation { kind, section, offset, addend, symbol } = *relocation;
        let place = self.addresses[section] + offset;
        let absolute = (value as i64).wrapping_add(addend);
        let relative = absolute.wrapping_sub(place as i64);
        let value = match kind {
            elf::R_X86_64_64 | elf::R_X86_64_32S => absolute,
            _ => relative,
        };
        let checked = kind == elf::R_X86_64_PC32 || kind == elf::R_X86_64_32S || kind == elf::R_X86_64_PLT32;
        if checked && i32::try_from(value).is_err() {
            let name = &self.file.symbols[symbol].name;
            let kind = kind_name(kind);
            self.complaints.push(format!(
                "relocation error: {kind}: file {}: symbol {name}: value {value:#x} does not fit",
                self.name
            ));
            return;
        }
        let len = width(kind);
        let segment = if self.file.sections[section].writable { &mut self.data } else { &mut self.text };
        // Added to the field, as the kernel's loader does; the field was checked to be zero.
        segment.field(place, len).copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Whether probes are enabled.
    fn probes(&self) -> bool {
        self.kernel.machine().config().probes
    }

    /// A probe site is a call to a symbol nobody defines: the loader puts no-operations there, or has a stub called.
    fn place_probe(&mut self, relocation: &Relocation, stub: usize) {
        if self.probes() {
            self.apply(relocation, stub);
            return;
        }
        let place = self.addresses[relocation.section] + relocation.offset;
        self.text.field(place - 1, 5).fill(NOP);
    }

    /// Whether the site is a call; complains if not.
    fn is_called(&mut self, relocation: &Relocation) -> bool {
        let place = self.addresses[relocation.section] + relocation.offset;
        let segment = &mut self.text;
        let in_text = place > segment.base && place - segment.base < segment.bytes.len();
        let opcode = if in_text { segment.field(place - 1, 1)[0] } else { 0 };
        if opcode == CALL {
            return true;
        }
        let name = &self.file.symbols[relocation.symbol].name;
        let what =
            if opcode == 0xe9 { "is jumped to: the loader would fall through" } else { "is not called" };
        self.complaints.push(format!("{}: probe '{name}' {what}", self.name));
        false
    }
}

/// What compilers that avoid indirect branches import from `unix`: a jump through the register in the name. It is no kernel call,
/// and every register is in use, so it is put in the module's text as it is.
fn thunk(symbol: &str) -> Option<Vec<u8>> {
    const LOW: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
    let register = symbol.strip_prefix("__x86_indirect_thunk_")?;
    if let Some(number) = LOW.iter().position(|r| *r == register) {
        return Some(vec![0xff, 0xe0 + number as u8]);
    }
    let number: u8 = register.strip_prefix('r')?.parse().ok()?;
    (8..16).contains(&number).then(|| vec![0x41, 0xff, 0xe0 + number - 8])
}

fn kind_name(kind: elf::RelocationType) -> &'static str {
    match kind {
        elf::R_X86_64_64 => "R_AMD64_64",
        elf::R_X86_64_PC32 => "R_AMD64_PC32",
        elf::R_X86_64_PLT32 => "R_AMD64_PLT32",
        elf::R_X86_64_32S => "R_AMD64_32S",
        _ => "R_AMD64_PC64",
    }
}
