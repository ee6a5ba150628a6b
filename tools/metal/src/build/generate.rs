//! Headers and sources that a gate makes with programs: the same programs, or Linux's of the same name.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::fresh;
use super::place::Place;
use super::tools;

/// XDR descriptions that the kernel's headers come from, below `usr/src/uts/common`; rpcgen's flags; the header.
const XDR: &[(&str, &[&str], &str)] = &[
    ("rpc/rpc_sztypes.x", &["-C"], "rpc/rpc_sztypes.h"),
    ("rpc/rpcb_prot.x", &["-M"], "rpc/rpcb_prot.h"),
    ("rpc/key_prot.x", &["-C"], "rpc/key_prot.h"),
    ("rpcsvc/autofs_prot.x", &["-C", "-M"], "rpcsvc/autofs_prot.h"),
    ("rpcsvc/nlm_prot.x", &["-C", "-M"], "rpcsvc/nlm_prot.h"),
    ("rpcsvc/sm_inter.x", &["-C", "-M"], "rpcsvc/sm_inter.h"),
    ("rpcsvc/nsm_addr.x", &["-C", "-M"], "rpcsvc/nsm_addr.h"),
];

/// What Linux's rpcgen makes of `pmap_prot.x` does not compile here; the kernel takes these three from it.
const PMAP: &str =
    "#define\tPMAPPORT\t((unsigned short)111)\n#define\tPMAPPROG\t100000\n#define\tPMAPVERS\t2\n";

/// A font with one blank glyph: unix wants one, and its console here is a serial line.
const FONT: &str = "#include <sys/types.h>\n#include <sys/font.h>\n\
    static uint8_t blank[16];\n\
    static struct font_map only[] = { { 0, 0, 1 } };\n\
    static struct font font = { .vf_map = { only, 0, 0, 0 }, .vf_bytes = blank,\n\
    \t.vf_width = 8, .vf_height = 16, .vf_map_count = { 1, 0, 0, 0 } };\n\
    bitmap_data_t font_data_8x16 = { .width = 8, .height = 16, .compressed_size = 0,\n\
    \t.uncompressed_size = 16, .compressed_data = blank, .font = &font };\n";

/// Makes all that is out of date of it.
///
/// # Errors
///
/// A program fails, or a file of the gate is not there.
pub fn all(place: &Place) -> Result<()> {
    let generated = place.generated();
    fresh::write(&generated.join("8x16.c"), FONT.as_bytes())?;
    fresh::write(&generated.join("rpc/pmap_prot.h"), PMAP.as_bytes())?;
    privileges(place)?;
    for (source, flags, header) in XDR {
        let source = place.uts().join("common").join(source);
        if source.is_file() {
            xdr(&source, flags, &generated.join(header))?;
        }
    }
    tokens(place)
}

/// The privileges' names and numbers, by the gate's own awk program.
fn privileges(place: &Place) -> Result<()> {
    let os = place.uts().join("common/os");
    let scratch = tempfile::tempdir().context("creating a scratch directory")?;
    let files =
        [("privhfile", "sys/priv_const.h"), ("pubhfile", "sys/priv_names.h"), ("cfile", "priv_const.c")];
    let mut awk = Command::new("awk");
    for (variable, file) in files {
        let path = scratch.path().join(Path::new(file).file_name().unwrap_or_default());
        awk.arg("-v").arg(format!("{variable}={}", path.display()));
    }
    let input = os.join("priv_defs");
    let input = File::open(&input).with_context(|| input.display().to_string())?;
    tools::run(awk.arg("-f").arg(os.join("privs.awk")).stdin(input))?;
    for (_, file) in files {
        let made = scratch.path().join(Path::new(file).file_name().unwrap_or_default());
        let bytes = fs::read(&made).with_context(|| format!("privs.awk made no {file}"))?;
        fresh::write(&place.generated().join(file), &bytes)?;
    }
    Ok(())
}

/// A header from an XDR description.
fn xdr(source: &Path, flags: &[&str], header: &Path) -> Result<()> {
    let key = flags.join(" ");
    if header.is_file() && !fresh::stale_from(header, &key, &[source]) {
        return Ok(());
    }
    let (dir, name) = (source.parent().unwrap_or(source), source.file_name().unwrap_or_default());
    let mut rpcgen = Command::new("rpcgen");
    // By its name alone: the name is in the header's guard.
    let text = tools::run(rpcgen.current_dir(dir).args(flags).arg("-h").arg(name))
        .with_context(|| source.display().to_string())?;
    remake(header, &key, for_illumos(&String::from_utf8_lossy(&text)).as_bytes())
}

/// What Linux's rpcgen writes for Linux's headers, for illumos's: its names of 64-bit integers, and no threads' header.
fn for_illumos(header: &str) -> String {
    let lines = header.lines().filter(|line| !line.contains("include <pthread.h>"));
    let lines = lines.map(|line| if line == "#ifdef 1" { "#if 1" } else { line });
    let words = |line: &str| {
        let mut out = String::new();
        let mut word = String::new();
        for c in line.chars().chain(['\n']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            out += match word.as_str() {
                "quad_t" => "longlong_t",
                "u_quad_t" => "u_longlong_t",
                other => other,
            };
            word.clear();
            out.push(c);
        }
        out
    };
    lines.map(words).collect()
}

/// The tokens of sockfs's HTTP cache, by the gate's own ksh program.
fn tokens(place: &Place) -> Result<()> {
    let dir = place.uts().join("common/fs/sockfs");
    let inputs = ["nl7ctokgen", "nl7ctokreq.txt", "nl7ctokres.txt"].map(|name| dir.join(name));
    let header = place.generated().join("nl7ctokgen.h");
    // Gates after 2020 may be without it.
    if !inputs[0].is_file() || !fresh::stale_from(&header, "ksh", &inputs) {
        return Ok(());
    }
    let text = tools::run(Command::new("ksh").args(&inputs).current_dir(place.generated()))?;
    remake(&header, "ksh", &text)
}

/// Assembly that a perl program of the gate's writes to `output`.
///
/// # Errors
///
/// perl fails.
pub fn by_perl(program: &Path, output: &Path) -> Result<()> {
    if !fresh::stale_from(output, "perl", &[program]) {
        return Ok(());
    }
    let mut perl = Command::new("perl");
    let said = tools::run(perl.arg(program).arg(output).current_dir(output.parent().unwrap_or(output)))?;
    // Some write to the file that they are given, and some only take from its name what to write to standard output.
    if fs::metadata(output).is_ok_and(|metadata| metadata.len() > 0) {
        return fresh::made(output, "perl");
    }
    remake(output, "perl", &said)
}

/// Writes what was made, newer than what it was made from even if it is the same as before.
fn remake(path: &Path, key: &str, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, bytes).with_context(|| path.display().to_string())?;
    fresh::made(path, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_linuxs_rpcgen_is_said_in_illumoss_words() {
        let header = "#include <pthread.h>\n#ifdef 1\nu_quad_t a; quad_t b; my_quad_t c;\n#endif\n";
        assert_eq!(for_illumos(header), "#if 1\nu_longlong_t a; longlong_t b; my_quad_t c;\n#endif\n");
    }
}
