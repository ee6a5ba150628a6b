//! What a file of declarations declares, by name.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use syn::{Fields, ForeignItem, Item, Type};

/// A `struct` or `union` with a layout of its own.
pub struct Record {
    /// Rust name, which is the C tag.
    pub name: String,
    /// Named fields in order, without padding and bit-field storage.
    pub fields: Vec<String>,
    /// Bit fields: name and the type its accessor takes.
    pub bit_fields: Vec<(String, String)>,
}

/// A constant or enumerator; `newtype` tells that its value is a field of a tuple struct.
pub struct Constant {
    pub name: String,
    pub newtype: bool,
}

/// Everything that has something to compare with the ABI tables.
#[derive(Default)]
pub struct Declared {
    pub records: Vec<Record>,
    pub constants: Vec<Constant>,
    pub functions: BTreeSet<String>,
    pub types: BTreeSet<String>,
}

/// Prefix of the names bindgen gives to unnamed members and to its own machinery.
const OWN: &str = "__";

impl Declared {
    /// Reads Rust source as bindgen writes it.
    pub fn read(source: &str) -> Result<Self> {
        let file = syn::parse_file(source).context("bindgen's output is not Rust")?;
        let newtypes: BTreeSet<String> = file.items.iter().filter_map(newtype_name).collect();
        let aliases = renames(&file.items);
        let is_newtype = |ty: &Type| {
            let name = path_name(ty);
            newtypes.contains(aliases.iter().find(|(_, new)| *new == name).map_or(&name, |(old, _)| old))
        };
        let mut declared = Self::default();
        for item in &file.items {
            match item {
                Item::Const(c)
                    if !c.ident.to_string().starts_with("__") && !matches!(*c.ty, Type::Reference(_)) =>
                {
                    declared
                        .constants
                        .push(Constant { name: c.ident.to_string(), newtype: is_newtype(&c.ty) });
                }
                Item::Struct(s) => declared.record(s.ident.to_string(), &s.fields),
                Item::Union(u) => declared.record(u.ident.to_string(), &Fields::Named(u.fields.clone())),
                Item::ForeignMod(block) => {
                    declared.functions.extend(block.items.iter().filter_map(foreign_name))
                }
                Item::Type(t) => _ = declared.types.insert(t.ident.to_string()),
                _ => {}
            }
        }
        declared.types.extend(aliases.into_iter().map(|(_, new)| new));
        declared.bit_fields(&file.items);
        Ok(declared)
    }

    fn record(&mut self, name: String, fields: &Fields) {
        let Fields::Named(named) = fields else { return };
        self.types.insert(name.clone());
        let fields: Vec<String> =
            named.named.iter().filter_map(|f| f.ident.as_ref()).map(|i| i.to_string()).collect();
        let opaque = matches!(fields.as_slice(), [only] if only == "_unused" || only == "_address");
        if opaque || name.starts_with(OWN) || name.contains("__bindgen") {
            return;
        }
        let fields = fields
            .into_iter()
            .filter(|f| !f.starts_with("_bitfield") && !f.starts_with("__bindgen"))
            .collect();
        self.records.push(Record { name, fields, bit_fields: Vec::new() });
    }

    /// Bit fields exist only as methods: `set_NAME(&mut self, val: T)`.
    fn bit_fields(&mut self, items: &[Item]) {
        for item in items {
            let Item::Impl(block) = item else { continue };
            let owner = path_name(&block.self_ty);
            let Some(record) = self.records.iter_mut().find(|r| r.name == owner) else { continue };
            for method in &block.items {
                let syn::ImplItem::Fn(method) = method else { continue };
                let name = method.sig.ident.to_string();
                let Some(field) = name.strip_prefix("set_") else { continue };
                let mut inputs = method.sig.inputs.iter();
                if let (Some(syn::FnArg::Receiver(_)), Some(syn::FnArg::Typed(value))) =
                    (inputs.next(), inputs.next())
                {
                    record.bit_fields.push((field.to_string(), path_name(&value.ty)));
                }
            }
        }
    }
}

/// The last segment of a type's path, empty for any other type.
fn path_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn newtype_name(item: &Item) -> Option<String> {
    match item {
        Item::Struct(s) if matches!(s.fields, Fields::Unnamed(_)) => Some(s.ident.to_string()),
        _ => None,
    }
}

/// `pub use self::OLD as NEW`, bindgen's form of a typedef to an enumeration.
fn renames(items: &[Item]) -> Vec<(String, String)> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Use(u) => rename(&u.tree),
            _ => None,
        })
        .collect()
}

fn rename(tree: &syn::UseTree) -> Option<(String, String)> {
    match tree {
        syn::UseTree::Path(path) => rename(&path.tree),
        syn::UseTree::Rename(r) => Some((r.ident.to_string(), r.rename.to_string())),
        _ => None,
    }
}

fn foreign_name(item: &ForeignItem) -> Option<String> {
    match item {
        ForeignItem::Fn(f) => Some(f.sig.ident.to_string()),
        ForeignItem::Static(s) => Some(s.ident.to_string()),
        _ => None,
    }
}
