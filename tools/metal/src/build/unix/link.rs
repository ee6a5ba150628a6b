//! The link of unix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use kmod::elf::Elf;
use object::LittleEndian as LE;
use object::elf::{FileHeader64, ProgramHeader64};
use object::pod::{from_bytes, slice_from_bytes_mut};

use super::dynamic::Room;
use super::multiboot;
use crate::build::facts::PADDR_RAISE;
use crate::build::tools;

/// The layout.
pub const SCRIPT: &str = include_str!("unix.ld");

/// Links `objects`, the first of which begins the text, and the object `dboot`; intermediate files go to `dir`.
///
/// # Errors
///
/// ld fails, or what comes out is not what krtld or a loader can read.
pub fn link(objects: &[PathBuf], dboot: &Path, dir: &Path) -> Result<Vec<u8>> {
    let file = |name: &str| dir.join(name);
    fs::write(file("unix.ld"), SCRIPT).context("unix.ld")?;
    tools::run(Command::new("ld").args(["-r", "-d", "-o"]).arg(file("unix.o")).args(objects))?;
    let room = Room::new(&parse(&file("unix.o"))?.1);
    tools::assemble(&room.assembly(), &file("kdyn.o"))?;
    // Twice: only the link that keeps its relocations says which are against undefined names, and only the other is a
    // kernel's file.
    for (name, options) in [("unix.emitted", &["-q"][..]), ("unix.plain", &[])] {
        let mut ld = Command::new("ld");
        ld.args(["-m", "elf_x86_64", "-static", "-no-pie", "--no-relax", "--build-id=none"]);
        ld.args(["-z", "max-page-size=4096", "-z", "noexecstack", "--no-warn-rwx-segments"]);
        ld.arg("--unresolved-symbols=ignore-all").args(options).arg("-T").arg(file("unix.ld"));
        tools::run(ld.arg("-o").arg(file(name)).arg(dboot).arg(file("unix.o")).arg(file("kdyn.o")))?;
    }
    let (mut image, plain) = parse(&file("unix.plain"))?;
    room.fill_in(&mut image, &plain, &parse(&file("unix.emitted"))?.1)?;
    lower(&mut image)?;
    let dboot =
        plain.sections.iter().find(|section| section.name == ".dboot").context("unix has no .dboot")?;
    multiboot::fill_in(&mut image, dboot.contents.start)?;
    Ok(image)
}

fn parse(path: &Path) -> Result<(Vec<u8>, Elf)> {
    let image = fs::read(path).with_context(|| path.display().to_string())?;
    let elf = Elf::parse(&image).with_context(|| path.display().to_string())?;
    Ok((image, elf))
}

/// Puts the real physical addresses into the program headers: see `unix.ld`.
fn lower(image: &mut [u8]) -> Result<()> {
    let bad = |()| anyhow!("unix has no program headers");
    let (header, _) = from_bytes::<FileHeader64<LE>>(image).map_err(bad)?;
    let (at, count) = (usize::try_from(header.e_phoff.get(LE))?, header.e_phnum.get(LE).into());
    let headers = image.get_mut(at..).context("unix is short")?;
    let (headers, _) = slice_from_bytes_mut::<ProgramHeader64<LE>>(headers, count).map_err(bad)?;
    for header in headers {
        let raised = header.p_paddr.get(LE);
        header.p_paddr.set(LE, raised.checked_sub(PADDR_RAISE).unwrap_or(raised));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use object::elf::{self, Rela64, Sym64};
    use object::pod::slice_from_all_bytes;

    use super::*;

    const FIRST: &str =
        "\t.text\n\t.globl _locore_start\n_locore_start:\n\tcall smap_enable\n\tcall elsewhere\n\tret\n";
    const SECOND: &str = "\t.text\n\t.globl second\nsecond:\n\tret\n\
        \t.data\n\t.globl table\ntable:\t.quad elsewhere + 8\n\t.quad second\n\t.comm zeroes,64\n";
    const DBOOT: &str = "\t.section .dboot,\"aw\",@progbits\n\t.globl dboot_image\ndboot_image:\n\tjmp .\n\t.align 4\n\
        \t.long 0x1BADB002\n\t.zero 44\n\t.zero 5000\n";

    /// A small unix, linked: its bytes and tables. The first object is in the second place.
    fn linked() -> (Vec<u8>, Elf) {
        linked_with(SECOND)
    }

    fn linked_with(second: &str) -> (Vec<u8>, Elf) {
        let dir = tempfile::tempdir().unwrap();
        let made = |name: &str, text: &str| {
            let object = dir.path().join(name);
            tools::assemble(text, &object).unwrap();
            object
        };
        let objects = [made("locore.o", FIRST), made("second.o", second)];
        let image = link(&objects, &made("image.o", DBOOT), dir.path()).unwrap();
        let elf = Elf::parse(&image).unwrap();
        (image, elf)
    }

    fn section<'a>(elf: &'a Elf, name: &str) -> &'a kmod::elf::Section {
        elf.sections.iter().find(|section| section.name == name).unwrap()
    }

    fn address(elf: &Elf, name: &str) -> u64 {
        elf.symbols.iter().find(|symbol| symbol.name == name).unwrap().value
    }

    #[test]
    fn dboot_is_first_in_the_file_and_segments_are_where_the_gate_has_them() {
        let (mut image, elf) = linked();
        let (headers, _) = slice_from_bytes_mut::<ProgramHeader64<LE>>(&mut image[64..], 4).unwrap();
        let seen: Vec<_> =
            headers.iter().map(|h| (h.p_type.get(LE), h.p_vaddr.get(LE), h.p_paddr.get(LE))).collect();
        assert_eq!(seen[0], (elf::PT_LOAD, 0xC0_0000, 0xC0_0000));
        assert_eq!(seen[1], (elf::PT_LOAD, 0xFFFF_FFFF_FB80_0000, 0x40_0000));
        assert_eq!(seen[2], (elf::PT_LOAD, 0xFFFF_FFFF_FBC0_0000, 0x80_0000));
        assert_eq!(seen[3].0, elf::PT_DYNAMIC);
        let offsets: Vec<u64> = headers.iter().map(|header| header.p_offset.get(LE)).collect();
        assert!(offsets[0] < 8192 && offsets[0] < offsets[1] && offsets[1] < offsets[2], "{offsets:x?}");
        let data = &headers[2];
        let bss = data.p_vaddr.get(LE) + data.p_filesz.get(LE);
        assert_eq!(bss, section(&elf, ".bss").addr, ".bss does not follow the bytes of the file");
        assert_eq!(address(&elf, "_locore_start"), 0xFFFF_FFFF_FB80_0000);
        assert_ne!(address(&elf, "_edata"), address(&elf, "edata"));
    }

    #[test]
    fn a_set_has_a_beginning_and_an_end_in_the_text_segment() {
        let set = "\t.section set_things,\"a\",@progbits\n\t.quad one, two\n\t.data\n\
            \t.weak __start_set_things\n\t.weak __stop_set_things\n\t.globl one\none:\t.quad __start_set_things\n\
            \t.globl two\ntwo:\t.quad __stop_set_things\n";
        let (image, elf) = linked_with(&format!("{SECOND}{set}"));
        let [data, things] = [".data", "set_things"].map(|name| section(&elf, name));
        let word = |name: &str| {
            let at = data.contents.start + (address(&elf, name) - data.addr) as usize;
            u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
        };
        assert_eq!((word("one"), word("two")), (things.addr, things.addr + 16));
        assert!((0xFFFF_FFFF_FB80_0000..0xFFFF_FFFF_FBC0_0000).contains(&things.addr), "{:x}", things.addr);
        assert_eq!(image[things.contents.start..][..8], address(&elf, "one").to_le_bytes());
    }

    #[test]
    fn the_multiboot_header_says_where_the_file_goes() {
        let (image, elf) = linked();
        let dboot = section(&elf, ".dboot").contents.start;
        let word = |at: usize| u32::from_le_bytes(image[dboot + at..dboot + at + 4].try_into().unwrap());
        assert_eq!(word(4), 0x1BAD_B002);
        assert_eq!(
            (word(4 + 12), word(4 + 16), word(4 + 28)),
            (0xC0_0004, 0xC0_0000 - dboot as u32, 0xC0_0000)
        );
    }

    #[test]
    fn what_unix_does_not_define_is_left_to_krtld() {
        let (image, elf) = linked();
        let bytes = |name: &str| &image[section(&elf, name).contents.clone()];
        let symbols = slice_from_all_bytes::<Sym64<LE>>(bytes(".dynsym")).unwrap();
        let name = |symbol: &Sym64<LE>| {
            let rest = &bytes(".dynstr")[symbol.st_name.get(LE) as usize..];
            String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap()).into_owned()
        };
        let named: Vec<String> = symbols.iter().map(name).collect();
        assert!(
            ["second", "table", "zeroes", "_edata", "dboot_image"]
                .iter()
                .all(|n| named.contains(&(*n).into()))
        );
        let relocations = slice_from_all_bytes::<Rela64<LE>>(bytes(".rela.dyn")).unwrap();
        let seen: Vec<_> = relocations
            .iter()
            .map(|r| {
                let symbol = &symbols[(r.r_info.get(LE) >> 32) as usize];
                assert_eq!(symbol.st_shndx.get(LE), elf::SHN_UNDEF);
                (name(symbol), r.r_info.get(LE) as u32, r.r_offset.get(LE), r.r_addend.get(LE))
            })
            .collect();
        let call = address(&elf, "_locore_start") + 6;
        let table = address(&elf, "table");
        let mut expected = vec![
            ("elsewhere".to_string(), elf::R_X86_64_PC32.0, call, -4),
            ("elsewhere".to_string(), elf::R_X86_64_64.0, table, 8),
        ];
        expected.sort_by_key(|entry| seen.iter().position(|other| other == entry));
        // The call that krtld replaces is the last, wherever it stands in the text.
        expected.push(("smap_enable".to_string(), elf::R_X86_64_PC32.0, call - 5, -4));
        assert_eq!(seen, expected);
        let at = section(&elf, ".data").contents.start + (table - section(&elf, ".data").addr) as usize;
        assert_eq!(image[at..at + 8], [0; 8], "krtld adds to what is there");
        assert_eq!(image[at + 8..at + 16], address(&elf, "second").to_le_bytes());
    }

    #[test]
    fn the_dynamic_section_asks_for_genunix() {
        let (image, elf) = linked();
        let bytes = |name: &str| &image[section(&elf, name).contents.clone()];
        let entries = bytes(".dynamic").chunks_exact(16);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let entries: Vec<(u64, u64)> = entries.map(|e| (word(&e[..8]), word(&e[8..]))).collect();
        let value = |tag: u64| entries.iter().find(|(t, _)| *t == tag).unwrap().1;
        let rest = &bytes(".dynstr")[value(1) as usize..];
        assert!(rest.starts_with(b"genunix\0dtracestubs\0"));
        assert_eq!(value(6), section(&elf, ".dynsym").addr);
        assert_eq!(value(5), section(&elf, ".dynstr").addr);
        assert_eq!(value(10), section(&elf, ".dynstr").size);
        assert_eq!((value(7), value(8)), (section(&elf, ".rela.dyn").addr, 3 * 24));
    }
}
