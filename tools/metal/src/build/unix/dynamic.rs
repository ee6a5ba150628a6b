//! What krtld finds in unix to link genunix to it: symbols, relocations and a dynamic section. illumos's ld makes them
//! (`-dy -b`); GNU's has nothing like it, so room is reserved in a link and filled in behind it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use kmod::elf::Elf;
use object::LittleEndian as LE;
use object::elf::{self, Dyn64, Rela64, Sym64};
use object::pod::bytes_of_slice;
use object::{I64, U16, U32, U64};

/// Modules that unix asks for: krtld loads them before it starts the kernel.
const NEEDED: [&str; 2] = ["genunix", "dtracestubs"];
/// Symbols that the linker makes and krtld looks for.
const MADE: [&str; 7] = ["dboot_image", "_edata", "_end", "_etext", "edata", "etext", "end"];
/// Calls of these krtld replaces as it comes to them, with functions of unix that may themselves call what genunix has (since 2020
/// `memset`): they have to be relocated by then.
const REPLACED: [&str; 3] = ["smap_enable", "smap_disable", "__dtrace_"];
/// The entries of the dynamic section that there is room for.
const ENTRIES: usize = 16;
/// krtld takes the number of symbols from the hash table and nothing else.
const BUCKETS: u32 = 1021;

/// What there has to be room for.
#[derive(Debug)]
pub struct Room {
    /// The global names, in the order of the symbol table, each with its place in the string table.
    names: BTreeMap<String, u32>,
    /// The string table.
    strings: Vec<u8>,
    /// The most relocations against what unix does not define.
    relocations: usize,
}

fn is_global(symbol: &kmod::elf::Symbol) -> bool {
    !symbol.name.is_empty() && (symbol.bind == elf::STB_GLOBAL.0 || symbol.bind == elf::STB_WEAK.0)
}

impl Room {
    /// For the joined objects `unix`.
    pub fn new(unix: &Elf) -> Room {
        let globals =
            unix.symbols.iter().filter(|symbol| is_global(symbol)).map(|symbol| symbol.name.as_str());
        let sorted: BTreeSet<&str> = globals.chain(MADE).collect();
        let mut strings = vec![0];
        let mut add = |name: &str| {
            let at = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            at
        };
        let names = sorted.into_iter().map(|name| (name.to_string(), add(name))).collect();
        NEEDED.iter().for_each(|name| {
            add(name);
        });
        Room { names, strings, relocations: against_nothing(unix).count() }
    }

    /// Assembly that reserves it, for the layout `unix.ld`.
    pub fn assembly(&self) -> String {
        let symbols = self.names.len() + 1;
        format!(
            "\t.section .k_hash,\"a\",@progbits\n\t.long {BUCKETS}, {symbols}\n\
             \t.section .k_dynsym,\"a\",@progbits\n\t.align 8\n\t.zero {}\n\
             \t.section .k_dynstr,\"a\",@progbits\n\t.zero {}\n\
             \t.section .k_rela,\"a\",@progbits\n\t.align 8\n\t.zero {}\n\
             \t.section .k_dynamic,\"aw\",@progbits\n\t.align 8\n\t.zero {}\n\
             # krtld keeps the end of the data segment here: a variable, while edata is a place.\n\
             \t.data\n\t.align 8\n\t.globl _edata\n_edata:\t.quad 0\n",
            symbols * size_of::<Sym64<LE>>(),
            self.strings.len(),
            self.relocations * size_of::<Rela64<LE>>(),
            ENTRIES * size_of::<Dyn64<LE>>(),
        )
    }

    /// Fills it in: `image` is the linked file, `plain` its tables, and `emitted` those of the same link with its relocations.
    pub fn fill_in(&self, image: &mut [u8], plain: &Elf, emitted: &Elf) -> Result<()> {
        let symbols = self.symbols(plain, emitted)?;
        let relocations = self.relocations(image, plain, emitted)?;
        let symbols = put(image, plain, ".dynsym", bytes_of_slice(&symbols))?;
        let strings = put(image, plain, ".dynstr", &self.strings)?;
        let rela = put(image, plain, ".rela.dyn", bytes_of_slice(&relocations))?;
        let hash = section(plain, ".hash")?.addr;
        let length = |bytes: usize| bytes as u64;
        let name = |at: usize| {
            length(self.strings.len() - NEEDED[at..].iter().map(|name| name.len() + 1).sum::<usize>())
        };
        let entries = [
            (elf::DT_NEEDED, name(0)),
            (elf::DT_NEEDED, name(1)),
            (elf::DT_HASH, hash),
            (elf::DT_STRTAB, strings),
            (elf::DT_SYMTAB, symbols),
            (elf::DT_STRSZ, length(self.strings.len())),
            (elf::DT_SYMENT, length(size_of::<Sym64<LE>>())),
            (elf::DT_RELA, rela),
            (elf::DT_RELASZ, length(size_of_val(&*relocations))),
            (elf::DT_RELAENT, length(size_of::<Rela64<LE>>())),
            (elf::DT_NULL, 0),
        ];
        let entries =
            entries.map(|(tag, value)| Dyn64 { d_tag: I64::new(LE, tag), d_val: U64::new(LE, value) });
        put(image, plain, ".dynamic", bytes_of_slice(&entries))?;
        Ok(())
    }

    /// The symbol table: what the link says of each name. Undefined ones are in that with relocations alone.
    fn symbols(&self, plain: &Elf, emitted: &Elf) -> Result<Vec<Sym64<LE>>> {
        let mut known = BTreeMap::new();
        for symbol in emitted.symbols.iter().chain(&plain.symbols).filter(|symbol| is_global(symbol)) {
            let before = known.insert(symbol.name.as_str(), symbol);
            if before.is_some_and(|before| before.value != symbol.value) {
                bail!("{} is elsewhere in the link with relocations", symbol.name);
            }
        }
        let empty = Sym64 {
            st_name: U32::new(LE, 0),
            st_info: elf::SymbolInfo(0),
            st_other: elf::SymbolOther(0),
            st_shndx: U16::new(LE, elf::SHN_UNDEF),
            st_value: U64::new(LE, 0),
            st_size: U64::new(LE, 0),
        };
        let mut table = vec![empty];
        for (name, at) in &self.names {
            let mut entry = empty;
            if let Some(symbol) = known.get(name.as_str()) {
                entry.st_name = U32::new(LE, *at);
                entry.st_info = elf::SymbolInfo(symbol.bind << 4 | symbol.kind);
                entry.st_shndx = U16::new(LE, elf::SymbolSection(symbol.section));
                entry.st_value = U64::new(LE, symbol.value);
                entry.st_size = U64::new(LE, symbol.size);
            }
            table.push(entry);
        }
        Ok(table)
    }

    /// The references to what unix does not define. krtld adds, so what the linker left in their places goes.
    fn relocations(&self, image: &mut [u8], plain: &Elf, emitted: &Elf) -> Result<Vec<Rela64<LE>>> {
        let places: BTreeMap<&str, u64> = self.names.keys().map(String::as_str).zip(1..).collect();
        let mut table = Vec::new();
        let named = |relocation: &kmod::elf::Relocation| emitted.symbols[relocation.symbol].name.as_str();
        let is_replaced = |name: &str| REPLACED.iter().any(|replaced| name.starts_with(replaced));
        let (last, first): (Vec<_>, Vec<_>) =
            against_nothing(emitted).partition(|relocation| is_replaced(named(relocation)));
        for relocation in first.into_iter().chain(last) {
            let name = named(relocation);
            let (kind, length) = match elf::RelocationType(relocation.kind) {
                elf::R_X86_64_64 => (elf::R_X86_64_64, 8),
                // There are no procedure linkage tables in a kernel.
                elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (elf::R_X86_64_PC32, 4),
                kind @ (elf::R_X86_64_32 | elf::R_X86_64_32S) => (kind, 4),
                kind => bail!("{name}: krtld does not know relocation {}", kind.0),
            };
            let at = in_file(plain, relocation.offset)
                .with_context(|| format!("{name} is referred to nowhere"))?;
            image.get_mut(at..at + length).context("unix is short")?.fill(0);
            let symbol = places.get(name).context("a name that was not there")?;
            table.push(Rela64 {
                r_offset: U64::new(LE, relocation.offset),
                r_info: U64::new(LE, symbol << 32 | u64::from(kind.0)),
                r_addend: I64::new(LE, relocation.addend),
            });
        }
        Ok(table)
    }
}

/// The relocations of what is loaded against symbols that are not defined.
fn against_nothing(elf: &Elf) -> impl Iterator<Item = &kmod::elf::Relocation> {
    elf.relocations.iter().filter(|relocation| {
        let symbol = &elf.symbols[relocation.symbol];
        let loaded = elf.sections[relocation.section].flags & elf::SHF_ALLOC.0 != 0;
        loaded && symbol.section == elf::SHN_UNDEF.0 && !symbol.name.is_empty()
    })
}

fn section<'a>(elf: &'a Elf, name: &str) -> Result<&'a kmod::elf::Section> {
    elf.sections.iter().find(|section| section.name == name).with_context(|| format!("unix has no {name}"))
}

/// Puts `bytes` into section `name`, and returns its address.
fn put(image: &mut [u8], elf: &Elf, name: &str, bytes: &[u8]) -> Result<u64> {
    let section = section(elf, name)?;
    let room = image.get_mut(section.contents.clone()).context("unix is short")?;
    let room = room.get_mut(..bytes.len()).with_context(|| format!("{name} needs {} bytes", bytes.len()))?;
    room.copy_from_slice(bytes);
    Ok(section.addr)
}

/// Where in the file the byte at `address` is.
fn in_file(elf: &Elf, address: u64) -> Option<usize> {
    let holds = |section: &&kmod::elf::Section| {
        section.flags & elf::SHF_ALLOC.0 != 0
            && address >= section.addr
            && address - section.addr < section.contents.len() as u64
    };
    let section = elf.sections.iter().find(holds)?;
    Some(section.contents.start + usize::try_from(address - section.addr).ok()?)
}
