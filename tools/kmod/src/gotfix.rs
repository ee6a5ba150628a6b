//! Rewriting instructions that go through a global offset table into their direct forms.
//!
//! The prebuilt `core` and `compiler_builtins` are compiled for position-independent code, and their calls of `memcpy`
//! and its kin stay `call *memcpy@GOTPCREL(%rip)` whatever the relocation model of the final crate. krtld has no GOT: it
//! misapplies type 9 without a word and hangs on types 41 and 42. Each of the three instruction forms has a direct
//! equivalent of the same length; any other form fails the build.

use anyhow::{Context, Result, bail};
use object::elf::{
    R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_PC32, R_X86_64_PLT32, R_X86_64_REX_GOTPCRELX,
};

use crate::elf::{Elf, Relocation};

/// Rewrites every GOT relocation against a loaded section of the relocatable object `image` in place; returns how many
/// there were.
///
/// # Errors
///
/// `image` is no ELF64 relocatable object, or an instruction has no direct form (the error names section, offset and
/// symbol).
pub fn rewrite(image: &mut [u8]) -> Result<usize> {
    let elf = Elf::parse(image)?;
    let mut rewritten = 0;
    for relocation in elf.relocations.iter().filter(|relocation| is_got(relocation.kind)) {
        let section =
            elf.sections.get(relocation.section).context("relocation for a section that does not exist")?;
        if !section.is_loaded() {
            continue;
        }
        let code = image.get_mut(section.contents.clone()).unwrap_or_default();
        let (kind, field) = make_direct(code, relocation).with_context(|| {
            format!("{}+{:#x} ({})", section.name, relocation.offset, elf.target(relocation))
        })?;
        let info = (relocation.symbol as u64) << 32 | u64::from(kind);
        put(image, relocation.entry, field)?;
        put(image, relocation.entry + 8, info)?;
        rewritten += 1;
    }
    Ok(rewritten)
}

fn is_got(kind: u32) -> bool {
    [R_X86_64_GOTPCREL.0, R_X86_64_GOTPCRELX.0, R_X86_64_REX_GOTPCRELX.0].contains(&kind)
}

fn put(image: &mut [u8], at: usize, value: u64) -> Result<()> {
    let place = image.get_mut(at..at + 8).context("relocation entry outside the file")?;
    place.copy_from_slice(&value.to_le_bytes());
    Ok(())
}

/// Rewrites the instruction whose displacement `relocation` fills; returns the new relocation type and field offset.
fn make_direct(code: &mut [u8], relocation: &Relocation) -> Result<(u32, u64)> {
    if relocation.addend != -4 {
        bail!("addend {} instead of -4: not the displacement of a plain instruction", relocation.addend);
    }
    let at = usize::try_from(relocation.offset)?;
    let Some(start) = at.checked_sub(3).or_else(|| at.checked_sub(2)) else {
        bail!("no room for an instruction")
    };
    let Some(bytes) = code.get_mut(start..at + 4) else { bail!("outside the section") };
    let (before, field) = bytes.split_at_mut(at - start);
    if field != [0; 4] {
        bail!("the field is not zero");
    }
    match before {
        // call *sym@GOT(%rip): a direct call, padded to six bytes by a prefix that means nothing there.
        [.., op @ 0xff, modrm @ 0x15] => {
            (*op, *modrm) = (0x67, 0xe8);
            Ok((R_X86_64_PLT32.0, relocation.offset))
        }
        // jmp *sym@GOT(%rip): a direct jump is one byte shorter, so its field starts one byte earlier.
        [.., op @ 0xff, modrm @ 0x25] => {
            (*op, *modrm) = (0xe9, 0);
            field[3] = 0x90;
            Ok((R_X86_64_PLT32.0, relocation.offset - 1))
        }
        // mov sym@GOT(%rip),%reg (64 bits): the address itself, by lea.
        [0x48..=0x4f, op @ 0x8b, modrm] if *modrm & 0xc7 == 0x05 => {
            *op = 0x8d;
            Ok((R_X86_64_PC32.0, relocation.offset))
        }
        other => bail!("no direct form for the instruction ending in {other:02x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(offset: u64) -> Relocation {
        let kind = R_X86_64_GOTPCRELX.0;
        Relocation { entry: 0, section: 1, table: 2, offset, kind, symbol: 1, addend: -4 }
    }

    #[test]
    fn call_through_the_got_becomes_a_prefixed_direct_call() {
        let mut code = [0x90, 0xff, 0x15, 0, 0, 0, 0];
        assert_eq!(make_direct(&mut code, &got(3)).unwrap(), (R_X86_64_PLT32.0, 3));
        assert_eq!(code, [0x90, 0x67, 0xe8, 0, 0, 0, 0]);
    }

    #[test]
    fn jump_through_the_got_at_the_start_of_a_section_becomes_a_direct_jump() {
        let mut code = [0xff, 0x25, 0, 0, 0, 0];
        assert_eq!(make_direct(&mut code, &got(2)).unwrap(), (R_X86_64_PLT32.0, 1));
        assert_eq!(code, [0xe9, 0, 0, 0, 0, 0x90]);
    }

    #[test]
    fn load_from_the_got_becomes_lea() {
        let mut code = [0x4c, 0x8b, 0x3d, 0, 0, 0, 0];
        assert_eq!(make_direct(&mut code, &got(3)).unwrap(), (R_X86_64_PC32.0, 3));
        assert_eq!(code, [0x4c, 0x8d, 0x3d, 0, 0, 0, 0]);
    }

    #[test]
    fn comparison_with_a_got_slot_fails_the_build() {
        let mut code = [0x48, 0x3b, 0x05, 0, 0, 0, 0];
        let error = make_direct(&mut code, &got(3)).unwrap_err().to_string();
        assert!(error.contains("48, 3b, 05"), "{error}");
    }

    #[test]
    fn displacement_followed_by_an_immediate_fails_the_build() {
        let mut code = [0x90, 0xff, 0x15, 0, 0, 0, 0];
        let mut relocation = got(3);
        relocation.addend = -8;
        assert!(make_direct(&mut code, &relocation).is_err());
    }
}
