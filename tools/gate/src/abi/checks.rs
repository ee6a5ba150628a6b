//! The tables as C conditions.

use crate::abi::tables::{Symbol, Tables};

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Size,
    Alignment,
    Offset,
    FieldSize,
    FieldType,
    Value,
    Prototype,
}

impl Kind {
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Size => "the size",
            Kind::Alignment => "the alignment",
            Kind::Offset => "the offset",
            Kind::FieldSize => "the field's size",
            Kind::FieldType => "the type",
            Kind::Value => "the value",
            Kind::Prototype => "the prototype",
        }
    }
}

/// One condition.
pub struct Check {
    /// `struct X`, `struct X.field`, a constant, a function or variable.
    pub name: String,
    pub kind: Kind,
    /// What has to be equal to `ours`: an integer expression, or one whose type matters.
    pub expression: String,
    /// The number, or the type.
    pub ours: String,
}

impl Check {
    /// The condition as C has it.
    pub fn condition(&self) -> String {
        let Check { expression, ours, .. } = self;
        if self.is_type() {
            format!("__builtin_types_compatible_p(__typeof__({expression}), __typeof__({ours}))")
        } else {
            format!("(long)({expression}) == (long){ours}")
        }
    }

    pub fn is_type(&self) -> bool {
        matches!(self.kind, Kind::FieldType | Kind::Prototype)
    }
}

/// Every condition of the tables but those about bit fields, which C cannot ask about.
pub fn checks(tables: &Tables) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, record) in &tables.records {
        let c_name = tables.c_name(name);
        let mut push = |name: &str, kind, expression: String, ours: String| {
            checks.push(Check { name: name.into(), kind, expression, ours });
        };
        push(name, Kind::Size, format!("sizeof ({c_name})"), record.size.to_string());
        push(name, Kind::Alignment, format!("_Alignof({c_name})"), record.align.to_string());
        for field in record.fields.iter().filter(|field| field.bits.is_none()) {
            let at = format!("{name}.{}", field.name);
            let member = format!("(({c_name} *)0)->{}", field.name);
            let offset = format!("__builtin_offsetof({c_name}, {})", field.name);
            push(&at, Kind::Offset, offset, field.offset.to_string());
            push(&at, Kind::FieldSize, format!("sizeof ({member})"), field.size.to_string());
            if !field.ctype.contains("(anonymous)") {
                push(&at, Kind::FieldType, member, field.ctype.clone());
            }
        }
    }
    let enumerators = tables.enums.values().flatten().map(|(name, value)| (name, *value));
    let macros = tables.constants.iter().map(|(name, constant)| (name, constant.value));
    for (name, value) in enumerators.chain(macros) {
        // A hexadecimal literal has a type wide enough for INT64_MIN too.
        let ours = format!("{value:#x}");
        checks.push(Check { name: name.clone(), kind: Kind::Value, expression: name.clone(), ours });
    }
    for (name, symbol) in &tables.functions {
        let ours = declared_type(symbol);
        checks.push(Check { name: name.clone(), kind: Kind::Prototype, expression: name.clone(), ours });
    }
    checks
}

/// An attribute is no part of the type, and the compiler's own tag behind `va_list` has no name in gcc.
fn declared_type(symbol: &Symbol) -> String {
    let text = symbol.data.as_deref().unwrap_or(&symbol.proto);
    let text = text.split("__attribute__").next().unwrap_or(text);
    text.trim_end().replace("struct __va_list_tag *", "__va_list")
}
