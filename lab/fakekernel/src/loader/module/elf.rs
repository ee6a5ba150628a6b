//! Reading a kernel module object, as strictly as the kernel's loader and the audit of shipped objects together.

use std::collections::BTreeMap;

use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, SectionIndex, SymbolIndex};

type Header = elf::FileHeader64<LittleEndian>;

/// Relocation types the kernel's loader handles sanely.
pub(super) const ALLOWED: [elf::RelocationType; 5] =
    [elf::R_X86_64_64, elf::R_X86_64_PC32, elf::R_X86_64_PLT32, elf::R_X86_64_32S, elf::R_X86_64_PC64];
/// Symbol ids are 16 bits wide.
const MAX_SYMBOLS: usize = 65536;
/// What a module may take of memory, in bytes: sixteen times the largest one that illumos has.
const MAX_SIZE: usize = 64 << 20;
/// A section may begin where a page does; no compiler asks for more.
const MAX_ALIGN: usize = 1 << 16;
/// Dependencies are kept in fixed arrays.
const MAX_DEPENDENCY: usize = 30;

/// An object file, checked and taken apart.
#[derive(Debug, Default)]
pub(super) struct ObjectFile {
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
    /// Which symbol is the first definition of a name.
    pub names: BTreeMap<String, usize>,
    pub relocations: Vec<Relocation>,
    pub depends_on: Vec<String>,
}

/// A section; those that are not loaded keep their place so that indices fit.
#[derive(Debug)]
pub(super) struct Section {
    pub alloc: bool,
    pub writable: bool,
    pub align: usize,
    pub size: usize,
    /// Empty for zero-filled sections.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Symbol {
    pub name: String,
    pub place: Place,
    pub size: usize,
    pub function: bool,
    pub local: bool,
    pub weak: bool,
}

impl Symbol {
    /// Is it a definition that has a name?
    pub(super) fn is_defined(&self) -> bool {
        self.place != Place::Undefined && !self.name.is_empty()
    }
}

/// Where a symbol lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Undefined,
    Absolute(usize),
    In { section: usize, offset: usize },
}

#[derive(Debug)]
pub(super) struct Relocation {
    pub kind: elf::RelocationType,
    pub section: usize,
    pub offset: usize,
    pub symbol: usize,
    pub addend: i64,
}

/// Reads `data`; every complaint is a line.
pub(super) fn read(name: &str, data: &[u8]) -> Result<ObjectFile, Vec<String>> {
    let mut reader = Reader { name, data, complaints: Vec::new(), file: ObjectFile::default(), size: 0 };
    match reader.read() {
        Ok(()) if reader.complaints.is_empty() => Ok(reader.file),
        Ok(()) => Err(reader.complaints),
        Err(fatal) => {
            reader.complaints.push(fatal);
            Err(reader.complaints)
        }
    }
}

struct Reader<'a> {
    name: &'a str,
    data: &'a [u8],
    complaints: Vec<String>,
    file: ObjectFile,
    /// Of the sections so far, with what may lie between them.
    size: usize,
}

impl Reader<'_> {
    fn complain(&mut self, what: impl std::fmt::Display) {
        self.complaints.push(format!("{}: {what}", self.name));
    }

    fn broken(&self, error: object::Error) -> String {
        format!("{}: malformed object: {error}", self.name)
    }

    fn read(&mut self) -> Result<(), String> {
        self.check_identity()?;
        let data = self.data;
        let header = Header::parse(data).map_err(|e| self.broken(e))?;
        let endian = LittleEndian;
        let sections = header.sections(endian, self.data).map_err(|e| self.broken(e))?;
        let tables = sections.iter().filter(|s| s.sh_type(endian) == elf::SHT_SYMTAB).count();
        if tables == 0 {
            return Err(format!("{} no SHT_SYMTAB symbol table found", self.name));
        }
        if tables > 1 {
            self.complain("more than one symbol table");
        }
        for section in sections.iter() {
            self.section(section)?;
        }
        let symbols = sections.symbols(endian, self.data, elf::SHT_SYMTAB).map_err(|e| self.broken(e))?;
        self.symbols(&symbols)?;
        self.depends_on();
        for section in sections.iter() {
            self.relocations(section, symbols.section())?;
            self.dynamic(section, &sections)?;
        }
        Ok(())
    }

    fn check_identity(&self) -> Result<(), String> {
        let name = self.name;
        if self.data.get(..4) != Some(&elf::ELFMAG) {
            return Err(format!("{name} not an elf module"));
        }
        if self.data.get(4..6) != Some(&[elf::ELFCLASS64.0, elf::ELFDATA2LSB.0]) {
            return Err(format!("{name} not an elf module for this ISA"));
        }
        let header = Header::parse(self.data).map_err(|e| self.broken(e))?;
        if header.e_machine(LittleEndian) != elf::EM_X86_64 {
            return Err(format!("{name} not an elf module for this ISA"));
        }
        if header.e_type(LittleEndian) != elf::ET_REL {
            return Err(format!("{name} isn't a relocatable (ET_REL) module"));
        }
        Ok(())
    }

    fn section(&mut self, header: &elf::SectionHeader64<LittleEndian>) -> Result<(), String> {
        let endian = LittleEndian;
        let flags = header.sh_flags(endian).0;
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let alloc = flags & elf::SHF_ALLOC.0 != 0;
        let bytes = if alloc && header.sh_type(endian) != elf::SHT_NOBITS {
            header.data(endian, self.data).map_err(|e| self.broken(e))?.to_vec()
        } else {
            Vec::new()
        };
        if alloc && header.sh_addr(endian) != 0 {
            self.complain("non-zero sect addr in input file");
        }
        if alloc && flags & elf::SHF_TLS.0 != 0 {
            self.complain("TLS section");
        }
        if header.sh_type(endian) == elf::SHT_REL {
            self.complain("can't process type SHT_REL");
        }
        let writable = flags & elf::SHF_WRITE.0 != 0;
        let (size, align) = (whole(header.sh_size(endian)), whole(header.sh_addralign(endian)));
        let (size, align) = if alloc { (size, align) } else { (0, 1) };
        self.place(Section { alloc, writable, align: align.max(1), size, bytes }).map(drop)
    }

    /// Takes a section in, and gives its number, if the module can still be laid out.
    fn place(&mut self, section: Section) -> Result<usize, String> {
        let Section { align, size, .. } = section;
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(format!("{}: a section is to be aligned to {align:#x}", self.name));
        }
        self.size = self.size.saturating_add(size).saturating_add(align);
        if self.size > MAX_SIZE {
            return Err(format!("{}: sections of more than {} MiB", self.name, MAX_SIZE >> 20));
        }
        self.file.sections.push(section);
        Ok(self.file.sections.len() - 1)
    }

    fn symbols(&mut self, table: &object::read::elf::SymbolTable<'_, Header>) -> Result<(), String> {
        if table.len() >= MAX_SYMBOLS {
            return Err(format!(
                "{}: {} symbols, at most {} are possible",
                self.name,
                table.len(),
                MAX_SYMBOLS - 1
            ));
        }
        for (index, symbol) in table.enumerate() {
            self.symbol(table, index, symbol)?;
        }
        for (number, symbol) in self.file.symbols.iter().enumerate().filter(|(_, symbol)| symbol.is_defined())
        {
            self.file.names.entry(symbol.name.clone()).or_insert(number);
        }
        Ok(())
    }

    fn symbol(
        &mut self,
        table: &object::read::elf::SymbolTable<'_, Header>,
        index: SymbolIndex,
        symbol: &elf::Sym64<LittleEndian>,
    ) -> Result<(), String> {
        let endian = LittleEndian;
        let name = table.symbol_name(endian, symbol).map_err(|e| self.broken(e))?;
        let name = String::from_utf8_lossy(name).into_owned();
        let (kind, value) = (symbol.st_type(), symbol.st_value(endian) as usize);
        let size = symbol.st_size(endian) as usize;
        let place = match symbol.st_shndx(endian) {
            // The empty symbol: relocations without a symbol refer to it.
            _ if index.0 == 0 => Place::Absolute(0),
            elf::SHN_UNDEF => Place::Undefined,
            elf::SHN_ABS => Place::Absolute(value),
            elf::SHN_COMMON => self.common(value, size)?,
            shndx if usize::from(shndx.0) < self.file.sections.len() => {
                Place::In { section: usize::from(shndx.0), offset: value }
            }
            _ => return Err(format!("{} bad shndx in symbol {}", self.name, index.0)),
        };
        let weak = symbol.st_bind() == elf::STB_WEAK;
        if kind == elf::STT_TLS {
            self.complain(format!("TLS symbol not supported: {name}"));
        }
        if kind == elf::STT_GNU_IFUNC {
            self.complain(format!("indirect function: {name}"));
        }
        if let Place::In { section, offset } = place
            && self.file.sections[section].alloc
            && offset > self.file.sections[section].size
        {
            self.complain(format!("symbol {name} lies outside its section"));
        }
        if weak && place == Place::Undefined {
            self.complain(format!("weak undefined symbol '{name}'"));
        }
        self.file.symbols.push(Symbol {
            name: if kind == elf::STT_FILE { String::new() } else { name },
            place,
            size,
            function: kind == elf::STT_FUNC,
            local: symbol.st_bind() == elf::STB_LOCAL,
            weak: symbol.st_bind() == elf::STB_WEAK,
        });
        Ok(())
    }

    /// A common symbol gets a zero-filled section of its own.
    fn common(&mut self, align: usize, size: usize) -> Result<Place, String> {
        let section = Section { alloc: true, writable: true, align: align.max(1), size, bytes: Vec::new() };
        Ok(Place::In { section: self.place(section)?, offset: 0 })
    }

    fn relocations(
        &mut self,
        header: &elf::SectionHeader64<LittleEndian>,
        symbol_table: SectionIndex,
    ) -> Result<(), String> {
        let endian = LittleEndian;
        let Some((entries, link)) = header.rela(endian, self.data).map_err(|e| self.broken(e))? else {
            return Ok(());
        };
        let target = header.sh_info(endian) as usize;
        if !self.file.sections.get(target).is_some_and(|s| s.alloc) {
            return Ok(());
        }
        if link != symbol_table {
            self.complain("reloc for non-default symtab");
            return Ok(());
        }
        for entry in entries {
            let relocation = Relocation {
                kind: entry.r_type(endian, false),
                section: target,
                offset: entry.r_offset(endian) as usize,
                symbol: entry.r_sym(endian, false) as usize,
                addend: entry.r_addend(endian),
            };
            self.relocation(relocation);
        }
        Ok(())
    }

    fn relocation(&mut self, relocation: Relocation) {
        let Relocation { kind, offset, .. } = relocation;
        if kind == elf::R_X86_64_NONE {
            return;
        }
        if !ALLOWED.contains(&kind) {
            self.complain(format!("krtld: invalid relocation type {} at {offset:#x}", kind.0));
            return;
        }
        let width = width(kind);
        let section = &self.file.sections[relocation.section];
        match section.bytes.get(offset..offset.saturating_add(width)) {
            None => self.complain(format!("relocation at {offset:#x} lies outside its section")),
            Some(field) if field.iter().any(|byte| *byte != 0) => {
                self.complain(format!("relocation at {offset:#x}: the field is not zero in the file"));
            }
            Some(_) if relocation.symbol >= self.file.symbols.len() => {
                self.complain(format!("relocation at {offset:#x} refers to symbol {}", relocation.symbol));
            }
            Some(_) => self.file.relocations.push(relocation),
        }
    }

    /// `_depends_on`: names separated by blanks, exactly as long as its symbol says, the last byte NUL.
    fn depends_on(&mut self) {
        let Some(symbol) = self.file.symbols.iter().find(|s| s.name == "_depends_on") else { return };
        let Place::In { section, offset } = symbol.place else { return };
        let size = symbol.size;
        let bytes =
            self.file.sections.get(section).and_then(|s| s.bytes.get(offset..offset.saturating_add(size)));
        match bytes.map(<[u8]>::split_last) {
            Some(Some((0, text))) if !text.contains(&0) => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.file.depends_on = text.split_ascii_whitespace().map(str::to_owned).collect();
            }
            _ => self.complain("_depends_on is not a string that fills its symbol"),
        }
        self.check_dependencies();
    }

    /// DT_NEEDED of an object linked on illumos; goes before `_depends_on`.
    fn dynamic(
        &mut self,
        header: &elf::SectionHeader64<LittleEndian>,
        sections: &object::read::elf::SectionTable<'_, Header>,
    ) -> Result<(), String> {
        let endian = LittleEndian;
        let Some((entries, link)) = header.dynamic(endian, self.data).map_err(|e| self.broken(e))? else {
            return Ok(());
        };
        let strings = sections.strings(endian, self.data, link).map_err(|e| self.broken(e))?;
        let mut needed = Vec::new();
        for entry in entries {
            use object::read::elf::Dyn;
            if entry.d_tag(endian) == elf::DT_NEEDED {
                let name = entry.string(endian, strings).map_err(|e| self.broken(e))?;
                needed.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        self.file.depends_on = needed;
        self.check_dependencies();
        Ok(())
    }

    fn check_dependencies(&mut self) {
        let long: Vec<String> =
            self.file.depends_on.iter().filter(|d| d.len() > MAX_DEPENDENCY).cloned().collect();
        for dependency in long {
            self.complain(format!("dependency '{dependency}' too long"));
        }
    }
}

/// Bytes of the field a relocation changes.
pub(super) fn width(kind: elf::RelocationType) -> usize {
    if kind == elf::R_X86_64_64 || kind == elf::R_X86_64_PC64 { 8 } else { 4 }
}
