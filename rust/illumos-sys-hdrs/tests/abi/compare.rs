//! The comparison itself: every difference is one line that names what differs.

use std::collections::BTreeSet;

use crate::ctype::{Canonical, Parser};
use crate::measure;
use crate::rust_side::RustSide;
use crate::table::{Field, Record, Symbol, Tables};

/// What the compiler measured, and what the source of the bindings says.
pub struct Crate {
    pub records: Vec<measure::Record>,
    pub constants: Vec<measure::Constant>,
    pub source: RustSide,
}

/// Declared here and absent from the tables, each for its reason.
///
/// `__va_list_tag` is the compiler's; of `sys/proc.h` the tables keep a few symbols, and `thread_exit` is none of them.
const NOT_IN_THE_TABLES: &[&str] = &["__va_list_tag", "thread_exit"];

/// Macros of headers that the tables do not cover. The data models are those of `DDI_MODEL_*`, which they do cover;
/// `FKIOCTL` and the length of a link's name are documented in ioctl(9E) and dladm(8).
const BEYOND_THE_TABLES: &[(&str, i64)] = &[
    ("DATAMODEL_ILP32", 0x0010_0000),
    ("DATAMODEL_LP64", 0x0020_0000),
    ("FKIOCTL", 0x8000_0000),
    ("FMODELS", 0x0ff0_0000),
    ("GLOBAL_ZONEID", 0),
    ("MAXLINKNAMELEN", 32),
];

/// All differences between the crate and the tables; none when the crate is right.
pub fn differences(krate: &Crate, tables: &Tables) -> Vec<String> {
    let mut found = Vec::new();
    nothing_unmeasured(krate, &mut found);
    krate.records.iter().for_each(|record| compare_record(record, krate, tables, &mut found));
    krate.constants.iter().for_each(|constant| compare_constant(constant, tables, &mut found));
    krate.source.symbol_names().for_each(|name| compare_symbol(name, krate, tables, &mut found));
    found
}

/// The measured list is generated: hold it against the source, so that nothing declared goes unmeasured.
fn nothing_unmeasured(krate: &Crate, found: &mut Vec<String>) {
    let measured: BTreeSet<&str> = krate.records.iter().map(|r| r.name).collect();
    for name in krate.source.records.iter().filter(|n| !is_machinery(n) && !is_excused(n)) {
        if !measured.contains(name.as_str()) {
            found.push(format!("{name}: declared but not measured"));
        }
    }
    let measured: BTreeSet<&str> = krate.constants.iter().map(|c| c.name).collect();
    for name in krate.source.constants.iter().filter(|n| !measured.contains(n.as_str())) {
        found.push(format!("{name}: declared but not measured"));
    }
}

/// Names that bindgen makes up for unnamed members and for bit-field storage. The members that have these types are
/// compared by offset and size.
fn is_machinery(name: &str) -> bool {
    name.contains("__bindgen_ty_") || name.starts_with("__Bindgen")
}

fn is_excused(name: &str) -> bool {
    NOT_IN_THE_TABLES.contains(&name)
}

fn compare_record(record: &measure::Record, krate: &Crate, tables: &Tables, found: &mut Vec<String>) {
    let name = record.name;
    let Some(expected) = tables.record(name) else {
        found.push(format!("{name}: not in the tables"));
        return;
    };
    if (record.size, record.align) != (expected.size, expected.align) {
        found.push(format!(
            "{name}: size {} align {}, the tables say {} and {}",
            record.size, record.align, expected.size, expected.align
        ));
    }
    compare_field_names(record, expected, found);
    for field in &expected.fields {
        match field.bits {
            Some(bits) => compare_bit_field(record, field, bits, found),
            None => compare_field(record, field, krate, tables, found),
        }
    }
}

fn compare_field_names(record: &measure::Record, expected: &Record, found: &mut Vec<String>) {
    let known: BTreeSet<&str> = expected.fields.iter().map(|f| f.name.as_str()).collect();
    let declared = record.fields.iter().map(|f| f.name).chain(record.bit_fields.iter().map(|f| f.name));
    for name in declared.filter(|n| !known.contains(n)) {
        found.push(format!("{}.{name}: the tables have no such field", record.name));
    }
}

fn compare_field(
    record: &measure::Record,
    expected: &Field,
    krate: &Crate,
    tables: &Tables,
    found: &mut Vec<String>,
) {
    let at = format!("{}.{}", record.name, expected.name);
    let Some(field) = record.fields.iter().find(|f| f.name == expected.name) else {
        found.push(format!("{at}: missing"));
        return;
    };
    if (field.offset, field.size) != (expected.offset, expected.size) {
        found.push(format!(
            "{at}: offset {} size {}, the tables say {} and {}",
            field.offset, field.size, expected.offset, expected.size
        ));
    }
    if !expected.ctype.contains("(anonymous)") {
        let declared = krate.source.field(record.name, &expected.name);
        compare_types(&at, declared, Parser { typedefs: &tables.typedefs }.parse(&expected.ctype), found);
    }
}

fn compare_bit_field(record: &measure::Record, expected: &Field, bits: usize, found: &mut Vec<String>) {
    let at = format!("{}.{}", record.name, expected.name);
    let (Some(field), Some(first)) =
        (record.bit_fields.iter().find(|f| f.name == expected.name), expected.bit)
    else {
        found.push(format!("{at}: no accessor"));
        return;
    };
    let wanted: Vec<usize> = (first..first + bits).collect();
    if field.ones != wanted {
        found.push(format!("{at}: ones set bits {:?}, the tables say {wanted:?}", field.ones));
    }
}

fn compare_constant(constant: &measure::Constant, tables: &Tables, found: &mut Vec<String>) {
    let beyond =
        || BEYOND_THE_TABLES.iter().find(|(name, _)| *name == constant.name).map(|(_, value)| *value);
    match tables.constant(constant.name).or_else(beyond) {
        Some(expected) if expected == constant.value => {}
        Some(expected) => {
            found.push(format!("{}: {}, the tables say {expected}", constant.name, constant.value))
        }
        None => found.push(format!("{}: not in the tables", constant.name)),
    }
}

fn compare_symbol(name: &str, krate: &Crate, tables: &Tables, found: &mut Vec<String>) {
    match tables.functions.get(name) {
        Some(symbol) => {
            let parser = Parser { typedefs: &tables.typedefs };
            compare_types(name, krate.source.symbol(name), expected_type(symbol, &parser), found);
        }
        None if is_excused(name) => {}
        None => found.push(format!("{name}: not in the tables")),
    }
}

fn expected_type(symbol: &Symbol, parser: &Parser<'_>) -> Result<Canonical, String> {
    if let Some(data) = &symbol.data {
        return parser.parse(data);
    }
    let args =
        symbol.args.iter().map(|(_, ty)| Ok(parser.parse(ty)?.decayed())).collect::<Result<_, String>>()?;
    let ret = Box::new(parser.parse(&symbol.ret)?);
    Ok(Canonical::Function { args, variadic: symbol.variadic, ret })
}

fn compare_types(
    at: &str,
    declared: Result<Canonical, String>,
    expected: Result<Canonical, String>,
    found: &mut Vec<String>,
) {
    match (declared, expected) {
        (Ok(declared), Ok(expected)) if declared == expected => {}
        (Ok(declared), Ok(expected)) => {
            found.push(format!("{at}: {declared:?}, the tables say {expected:?}"))
        }
        (Err(why), _) => found.push(format!("{at}: cannot read the declaration: {why}")),
        (_, Err(why)) => found.push(format!("{at}: cannot read the table: {why}")),
    }
}
