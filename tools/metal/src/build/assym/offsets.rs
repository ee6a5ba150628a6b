//! The lists of offsets. A type on a line of its own (perhaps with a name for its size, and one for the logarithm of that),
//! then its members, indented (perhaps with a name; else it is the member's in capitals); an empty line between types.
//! `\#` is copied, `\` begins a comment, and the rest is the preprocessor's.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{C, define, text};

/// What a list asks for.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// A line for the header as it is.
    Copied(String),
    /// The size of type `name`, and its logarithm, under these names.
    Type { name: String, size: Option<String>, shift: Option<String> },
    /// The offset of `member` in type `of`, as `label`.
    Member { of: String, member: String, label: String },
}

/// What the list `path` says.
///
/// # Errors
///
/// It asks for what is not there.
pub fn header(c: &C<'_>, path: &Path) -> Result<String> {
    let list = text(path)?;
    let directives = list.lines().filter(|line| line.starts_with('#'));
    let head: String = directives.map(|line| format!("{line}\n")).collect();
    // Without the includes: only the conditions are wanted here.
    let kept = list.lines().filter(|line| !line.starts_with("#include"));
    let kept = kept.filter(|line| !line.starts_with('\\') || line.starts_with("\\#"));
    let items = items(&c.preprocessed(&kept.map(|line| format!("{line}\n")).collect::<String>())?)?;
    lines(c, &head, &items)
}

fn items(text: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut current: Option<String> = None;
    let mut after_blank = true;
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with('#') {
            after_blank = true;
            continue;
        }
        if let Some(copied) = line.strip_prefix('\\') {
            items.push(Item::Copied(copied.to_string()));
            continue;
        }
        let mut words = line.split_whitespace().map(String::from);
        let first = words.next().unwrap_or_default();
        // Not every list indents: within a paragraph, only the first line can be a type.
        if after_blank && !line.starts_with([' ', '\t']) {
            current = Some(first.clone());
            items.push(Item::Type { name: first, size: words.next(), shift: words.next() });
        } else {
            let of = current.clone().with_context(|| format!("{first}: a member of nothing"))?;
            let label = words.next().unwrap_or_else(|| last_name(&first).to_uppercase());
            items.push(Item::Member { of, member: first, label });
        }
        after_blank = false;
    }
    Ok(items)
}

/// `a.b` is called `b`.
fn last_name(member: &str) -> &str {
    member.rsplit('.').next().unwrap_or(member)
}

/// The header's lines for `items`.
fn lines(c: &C<'_>, head: &str, items: &[Item]) -> Result<String> {
    let spelled = spellings(c, head, items)?;
    let spell = |name: &str| spelled.iter().find(|(n, _)| n == name).map_or("", |(_, full)| full.as_str());
    // Two values an item; the second says of a member whether it is an array.
    let values = items.iter().flat_map(|item| match item {
        Item::Copied(_) => ["0".to_string(), "0".to_string()],
        Item::Type { name, .. } => [format!("sizeof ({})", spell(name)), "0".into()],
        Item::Member { of, member, .. } => {
            let it = format!("(({} *)0)->{member}", spell(of));
            let decays =
                format!("__builtin_types_compatible_p(__typeof__({it}), __typeof__(((void)0, {it})))");
            [format!("__builtin_offsetof({}, {member})", spell(of)), format!("!{decays}")]
        }
    });
    let values = c.values(head, &values.collect::<Vec<_>>())?;
    let values: Vec<(u64, bool)> = values.chunks_exact(2).map(|pair| (pair[0], pair[1] != 0)).collect();
    let arrays = items.iter().zip(&values).filter(|(_, (_, array))| *array);
    let strides = arrays.filter_map(|(item, _)| match item {
        Item::Member { of, member, .. } => Some(format!("sizeof (*(({} *)0)->{member})", spell(of))),
        _ => None,
    });
    let mut strides = c.values(head, &strides.collect::<Vec<_>>())?.into_iter();
    let mut out = String::new();
    for (item, (value, array)) in items.iter().zip(values) {
        match item {
            Item::Copied(line) => out += &format!("{line}\n"),
            Item::Type { name, size, shift } => {
                out += &sizes(name, size.as_deref(), shift.as_deref(), value)?
            }
            Item::Member { label, .. } => out += &define(label, value),
        }
        if let (true, Item::Member { label, .. }) = (array, item) {
            out += &define(&format!("{label}_INCR"), strides.next().unwrap_or_default());
        }
    }
    Ok(out)
}

fn sizes(name: &str, size: Option<&str>, shift: Option<&str>, value: u64) -> Result<String> {
    let mut out = String::new();
    if let Some(label) = size {
        out += &define(label, value);
    }
    if let Some(label) = shift {
        if !value.is_power_of_two() {
            bail!("the size of {name} is {value}, no power of two: {label} would be none");
        }
        out += &define(label, value.ilog2().into());
    }
    Ok(out)
}

/// How C says each type: by its name, or as a struct or union. Lists do not tell; gcc is asked for all three at once.
fn spellings(c: &C<'_>, head: &str, items: &[Item]) -> Result<Vec<(String, String)>> {
    let types = items.iter().filter_map(|item| match item {
        Item::Type { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let spelled: Vec<(&str, String)> =
        types.flat_map(|name| ["", "struct ", "union "].map(|tag| (name, format!("{tag}{name}")))).collect();
    let first = head.lines().count() + 1;
    let probes = spelled.iter().enumerate();
    let probes: String =
        probes.map(|(n, (_, full))| format!("char probe_{n}[sizeof (*({full} *)0)];\n")).collect();
    let wrong = c.lines_in_error(&format!("{head}{probes}"))?;
    let right = spelled.iter().enumerate().filter(|(n, _)| !wrong.contains(&(first + n)));
    let right: Vec<(String, String)> =
        right.map(|(_, (name, full))| (name.to_string(), full.clone())).collect();
    match spelled.iter().find(|(name, _)| !right.iter().any(|(known, _)| known == name)) {
        Some((name, _)) => bail!("the headers have no type {name}"),
        None => Ok(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\\ a comment\n#include \"small.h\"\n\\#define COPIED 7\n\n\
        pair_t\tPAIR_SIZE PAIR_SHIFT\n\tp_first\n\tp_second\tSECOND\n\n\
        outer\n\to_pairs\n\to_in.p_second\tDEEP\n\n#ifdef\tABSENT\nnothing\n\tn\n#endif\n";
    const HEADER: &str = "typedef struct pair { long p_first; int p_second; } pair_t;\n\
        struct outer { char o_pad[3]; pair_t o_in; pair_t o_pairs[4]; };\n";

    fn made(list: &str) -> Result<String> {
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("small.h"), HEADER)?;
        std::fs::write(dir.path().join("list.in"), list)?;
        header(&C::new(&[], dir.path().into()), &dir.path().join("list.in"))
    }

    #[test]
    fn sizes_offsets_and_strides_are_what_gcc_says() {
        let expected = "#define COPIED 7\n#define\tPAIR_SIZE\t0x10\n#define\tPAIR_SHIFT\t0x4\n#define\tP_FIRST\t0x0\n\
            #define\tSECOND\t0x8\n#define\tO_PAIRS\t0x18\n#define\tO_PAIRS_INCR\t0x10\n#define\tDEEP\t0x10\n";
        assert_eq!(made(LIST).unwrap(), expected);
    }

    #[test]
    fn a_type_that_no_header_has_is_named() {
        let error = made("#include \"small.h\"\n\nabsent_t\n\ta\n").unwrap_err();
        assert!(error.to_string().contains("absent_t"), "{error}");
    }

    #[test]
    fn a_size_that_is_no_power_of_two_has_no_shift() {
        let error = made("#include \"small.h\"\n\nouter SIZE SHIFT\n").unwrap_err();
        assert!(error.to_string().contains("no power of two"), "{error}");
    }
}
