//! A relocatable object as plain tables, the view the GOT rewriting and the audit share.

use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use object::LittleEndian as LE;
use object::elf::{FileHeader64, Rela64, SHT_NOBITS, SHT_REL, SHT_SYMTAB};
use object::read::elf::{FileHeader, SectionHeader, Sym};

type Header = FileHeader64<LE>;

/// A parsed ELF64 little-endian file.
pub struct Elf {
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// In header order; index 0 is the null section.
    pub sections: Vec<Section>,
    /// In table order; index 0 is the null symbol. Of several tables, the last, as krtld does it.
    pub symbols: Vec<Symbol>,
    /// Of all `SHT_RELA` sections, in file order.
    pub relocations: Vec<Relocation>,
}

/// A section header, and where its contents are.
pub struct Section {
    /// The name.
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub addr: u64,
    /// `sh_size`, bytes.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// The contents in the file; empty for `SHT_NOBITS`.
    pub contents: Range<usize>,
}

/// A symbol table entry.
pub struct Symbol {
    /// The name.
    pub name: String,
    /// `STB_*`.
    pub bind: u8,
    /// `STT_*`.
    pub kind: u8,
    /// `st_shndx`: a section index or `SHN_*`.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`, bytes.
    pub size: u64,
}

/// An `Elf64_Rela`.
pub struct Relocation {
    /// Where the entry itself is in the file.
    pub entry: usize,
    /// The index of the section it applies to.
    pub section: usize,
    /// The index of the section of entries it is from.
    pub table: usize,
    /// The offset of the field within that section.
    pub offset: u64,
    /// `R_X86_64_*`.
    pub kind: u32,
    /// The index into [`Elf::symbols`].
    pub symbol: usize,
    /// `r_addend`.
    pub addend: i64,
}

impl Elf {
    /// Parses `image`.
    ///
    /// # Errors
    ///
    /// `image` is no ELF64 little-endian file, or a header points outside the file.
    pub fn parse(image: &[u8]) -> Result<Elf> {
        let header = Header::parse(image).map_err(|e| anyhow!("not an ELF64 object: {e}"))?;
        let endian = header.endian().context("not a little-endian object")?;
        let table = header.sections(endian, image)?;
        let mut elf = Elf {
            kind: header.e_type.get(endian).0,
            machine: header.e_machine.get(endian).0,
            sections: Vec::new(),
            symbols: Vec::new(),
            relocations: Vec::new(),
        };
        for (index, section) in table.iter().enumerate() {
            let name = String::from_utf8_lossy(table.section_name(endian, section)?).into_owned();
            elf.sections.push(
                Section::read(endian, image, section, &name).with_context(|| format!("section {name}"))?,
            );
            if section.sh_type(endian) == SHT_SYMTAB {
                let symbols = table.symbols(endian, image, SHT_SYMTAB)?;
                elf.symbols = symbols
                    .iter()
                    .map(|symbol| {
                        let name = symbols.symbol_name(endian, symbol)?;
                        Ok(Symbol::read(endian, symbol, name))
                    })
                    .collect::<Result<_>>()?;
            }
            if let Some((entries, _)) = section.rela(endian, image)? {
                let start = section.sh_offset(endian) as usize;
                let target = section.sh_info(endian) as usize;
                elf.relocations.extend(entries.iter().enumerate().map(|(i, rela)| Relocation {
                    entry: start + i * size_of::<Rela64<LE>>(),
                    section: target,
                    table: index,
                    offset: rela.r_offset.get(endian),
                    kind: rela.r_type(endian, false).0,
                    symbol: rela.r_sym(endian, false) as usize,
                    addend: rela.r_addend.get(endian),
                }));
            }
        }
        Ok(elf)
    }

    /// The symbol a relocation is against; a section symbol has its section's name.
    pub fn target(&self, relocation: &Relocation) -> &str {
        let Some(symbol) = self.symbols.get(relocation.symbol) else { return "?" };
        match self.sections.get(usize::from(symbol.section)) {
            Some(section) if symbol.name.is_empty() => &section.name,
            _ => &symbol.name,
        }
    }
}

impl Section {
    fn read(
        endian: LE,
        image: &[u8],
        header: &<Header as FileHeader>::SectionHeader,
        name: &str,
    ) -> Result<Section> {
        let contents = if header.sh_type(endian) == SHT_NOBITS {
            0..0
        } else {
            header.data(endian, image)?;
            let start = header.sh_offset(endian) as usize;
            start..start + header.sh_size(endian) as usize
        };
        Ok(Section {
            name: name.to_owned(),
            kind: header.sh_type(endian).0,
            flags: header.sh_flags(endian).0,
            addr: header.sh_addr(endian),
            size: header.sh_size(endian),
            link: header.sh_link(endian),
            contents,
        })
    }

    /// Whether krtld loads this section (`SHF_ALLOC`).
    pub fn is_loaded(&self) -> bool {
        self.flags & object::elf::SHF_ALLOC.0 != 0
    }

    /// Whether it holds relocations without addends.
    pub fn is_rel(&self) -> bool {
        self.kind == SHT_REL.0
    }
}

impl Symbol {
    fn read(endian: LE, symbol: &<Header as FileHeader>::Sym, name: &[u8]) -> Symbol {
        Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            bind: symbol.st_bind().0,
            kind: symbol.st_type().0,
            section: symbol.st_shndx(endian).0,
            value: symbol.st_value(endian),
            size: symbol.st_size(endian),
        }
    }
}
