//! The constants: a program of the gate's prints `#define NAME 0x..` lines. It could not be run here, as it is compiled from
//! kernel headers; but what it would print are constants, so its `printf` calls become the items of a table.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{C, define, text};

/// What the program `path` would print.
///
/// # Errors
///
/// It is another kind of program than was thought.
pub fn header(c: &C<'_>, path: &Path) -> Result<String> {
    let program = text(path)?;
    // The conditions of the program decide which names are there, so they are put in, too.
    let (names, table) = (as_table(&program, Part::Names)?, as_table(&program, Part::Values)?);
    let names: Vec<String> = c.preprocessed(&names)?.lines().filter_map(name).collect();
    let values = c.table(&table, names.len())?;
    Ok(names.iter().zip(values).map(|(name, value)| define(name, value)).collect())
}

fn name(line: &str) -> Option<String> {
    line.strip_prefix(MARK)?.split('"').nth(1).map(String::from)
}

/// Begins a line with a name in quotes: it is a macro's, too, and the preprocessor leaves strings alone.
const MARK: &str = "@name";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Names,
    Values,
}

/// The program with a table in the place of its `main`.
fn as_table(program: &str, part: Part) -> Result<String> {
    let main = program.find("\nmain(").or_else(|| program.find("\nmain (")).context("no main")?;
    let (head, body) = program.split_at(main);
    let head = head.trim_end().strip_suffix("int").context("main is no int")?;
    // Traps for whoever would print an offset; nobody here does.
    let trap = |line: &&str| !line.starts_with("#define\tstruct") && !line.starts_with("#define\tOFFSET");
    let head: Vec<&str> = head.lines().filter(trap).collect();
    let mut out = head.join("\n") + "\n";
    if part == Part::Values {
        out += "const unsigned long long table[] = {\n";
    }
    let mut rest = body;
    while let Some(at) = rest.find("printf(") {
        out.extend(conditions(&rest[..at]));
        let (name, value, after) = call(&rest[at + "printf(".len()..])?;
        match part {
            Part::Names => out += &format!("{MARK} \"{name}\"\n"),
            Part::Values => out += &format!("{value},\n"),
        }
        rest = after;
    }
    out.extend(conditions(rest));
    if part == Part::Values {
        out += "0 };\n";
    }
    Ok(out)
}

/// The preprocessor's lines in `text`.
fn conditions(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n"))
}

/// `"#define\tNAME 0x%x\n", VALUE);` and what is behind it: the name, the value as it would be printed, the rest.
fn call(text: &str) -> Result<(&str, String, &str)> {
    let end = text.find(");\n").context("a printf that does not end")?;
    let (format, value) = text[..end].split_once(',').context("a printf without a value")?;
    let inside = format.trim().strip_prefix("\"#define\\t").and_then(|rest| rest.strip_suffix("\\n\""));
    let Some((words, kind)) = inside.and_then(|rest| rest.split_once("0x%")) else {
        bail!("printf({format}: no #define of a hexadecimal number");
    };
    let words = words.strip_suffix("\\t").unwrap_or(words);
    let printed = if kind == "x" { "unsigned int" } else { "unsigned long long" };
    Ok((words.trim(), format!("({printed})({})", value.trim()), &text[end + 3..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "#define\texit\tkern_exit\n#include \"small.h\"\n#define\tstruct\tstruct...\n\nint\n\
        main(int argc, char *argv[])\n{\n\tprintf(\"#define\\tONE 0x%x\\n\", ONE);\n#ifdef ABSENT\n\
        \tprintf(\"#define\\tABSENT 0x%x\\n\", ABSENT);\n#endif\n\
        \tprintf(\"#define\\tLONG\\t0x%llx\\n\",\n\t    LONG / 2);\n\tprintf(\"#define\\tMINUS 0x%x\\n\", (int)MINUS);\n\
        \treturn (0);\n}\n";

    #[test]
    fn constants_are_what_the_program_would_print() {
        let dir = tempfile::tempdir().unwrap();
        let header_text = "#define ONE 1\n#define LONG 0x100000000ull\nenum { MINUS = -1 };\n";
        std::fs::write(dir.path().join("small.h"), header_text).unwrap();
        let path = dir.path().join("program.c");
        std::fs::write(&path, PROGRAM).unwrap();
        let made = header(&C::new(&[], dir.path().into()), &path).unwrap();
        assert_eq!(made, "#define\tONE\t0x1\n#define\tLONG\t0x80000000\n#define\tMINUS\t0xffffffff\n");
    }

    #[test]
    fn a_program_of_another_kind_is_refused() {
        let error =
            as_table("\nint\nmain(void)\n{\n\tprintf(\"hello %d\\n\", 1);\n}\n", Part::Values).unwrap_err();
        assert!(error.to_string().contains("no #define"), "{error}");
    }
}
