//! The multiboot headers in dboot: where a loader is to put the kernel file, which only the link decides.
//!
//! The file is loaded in one piece, so that dboot comes to lie where it was linked; it finds the other segments in front of
//! itself or behind, and moves them.

use anyhow::{Context, Result};

use crate::build::facts::DBOOT_ADDRESS;

const MAGIC_1: u32 = 0x1BAD_B002;
/// A loader looks no further.
const REACH_1: usize = 8 << 10;
const MAGIC_2: u32 = 0xE852_50D6;
const REACH_2: usize = 32 << 10;
/// The length of a header of version 1, with its address fields.
const LENGTH_1: usize = 48;
/// Tags of version 2.
const END: u16 = 0;
const ADDRESS: u16 = 2;
const ENTRY: u16 = 3;

/// Fills in the headers of the kernel file `image`, whose dboot begins at `dboot` in it.
///
/// # Errors
///
/// There is no header where a loader looks for it.
pub fn fill_in(image: &mut [u8], dboot: usize) -> Result<()> {
    let entry = u32::try_from(DBOOT_ADDRESS)?;
    let base = entry.checked_sub(u32::try_from(dboot)?).context("dboot is too far behind")?;
    let header = find(image, MAGIC_1, REACH_1 - LENGTH_1, 4);
    let header = header.context("no multiboot header in the first 8 KiB of unix")?;
    put(image, header + 12, base + u32::try_from(header)?)?;
    put(image, header + 16, base)?;
    put(image, header + 28, entry)?;
    // Not every gate has one of version 2.
    match find(image, MAGIC_2, REACH_2, 8) {
        Some(header) => fill_in_2(image, header, base, entry),
        None => Ok(()),
    }
}

fn fill_in_2(image: &mut [u8], header: usize, base: u32, entry: u32) -> Result<()> {
    let mut tag = header + 16;
    loop {
        let word = get(image, tag).context("a multiboot 2 header without an end")?;
        match word as u16 {
            END => return Ok(()),
            ADDRESS => {
                put(image, tag + 8, base + u32::try_from(header)?)?;
                put(image, tag + 12, base)?;
            }
            ENTRY => put(image, tag + 8, entry)?,
            _ => {}
        }
        let size =
            get(image, tag + 4).filter(|size| *size > 0).context("a multiboot 2 tag without a size")?;
        tag += usize::try_from(size)?.next_multiple_of(8);
    }
}

fn find(image: &[u8], magic: u32, reach: usize, step: usize) -> Option<usize> {
    (0..reach).step_by(step).find(|at| get(image, *at) == Some(magic))
}

fn get(image: &[u8], at: usize) -> Option<u32> {
    let word = image.get(at..at + 4)?;
    word.try_into().ok().map(u32::from_le_bytes)
}

fn put(image: &mut [u8], at: usize, value: u32) -> Result<()> {
    let word = image.get_mut(at..at + 4).context("a multiboot header at the end of the file")?;
    word.copy_from_slice(&value.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_is_told_to_put_dboot_where_it_was_linked() {
        let mut image = vec![0; 16 << 10];
        put(&mut image, 0x1010, MAGIC_1).unwrap();
        put(&mut image, 0x1100, MAGIC_2).unwrap();
        for (at, tag, size) in [(0x1110, 1, 12), (0x1120, 2, 24), (0x1138, 3, 12), (0x1148, 0, 8)] {
            put(&mut image, at, tag).unwrap();
            put(&mut image, at + 4, size).unwrap();
        }
        fill_in(&mut image, 0x1000).unwrap();
        let words = |ats: &[usize]| ats.iter().map(|at| get(&image, *at).unwrap()).collect::<Vec<_>>();
        assert_eq!(words(&[0x101c, 0x1020, 0x102c]), [0xBF_F000 + 0x1010, 0xBF_F000, 0xC0_0000]);
        assert_eq!(words(&[0x1128, 0x112c, 0x1140]), [0xBF_F000 + 0x1100, 0xBF_F000, 0xC0_0000]);
    }

    #[test]
    fn a_header_that_no_loader_finds_is_an_error() {
        let mut image = vec![0; 16 << 10];
        put(&mut image, 9 << 10, MAGIC_1).unwrap();
        assert!(fill_in(&mut image, 0x1000).unwrap_err().to_string().contains("8 KiB"));
    }

    #[test]
    fn a_tag_without_a_size_is_no_endless_loop() {
        let mut image = vec![0; 16 << 10];
        put(&mut image, 0x1010, MAGIC_1).unwrap();
        put(&mut image, 0x1100, MAGIC_2).unwrap();
        put(&mut image, 0x1110, 7).unwrap();
        assert!(fill_in(&mut image, 0x1000).unwrap_err().to_string().contains("without a size"));
    }
}
