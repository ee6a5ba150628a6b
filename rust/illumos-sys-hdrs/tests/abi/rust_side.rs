//! What `src/bindings.rs` declares, in the same form as the tables' C types.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Fields, ForeignItem, GenericArgument, Item, PathArguments, PointerMutability, ReturnType, Type};

use crate::ctype::Canonical;

/// The declarations, by name.
pub struct RustSide {
    aliases: BTreeMap<String, Type>,
    renames: BTreeMap<String, String>,
    newtypes: BTreeSet<String>,
    unions: BTreeSet<String>,
    pub records: BTreeSet<String>,
    pub opaque: BTreeSet<String>,
    pub constants: BTreeSet<String>,
    fields: BTreeMap<(String, String), Type>,
    symbols: BTreeMap<String, ForeignItem>,
}

impl RustSide {
    pub fn committed() -> Self {
        let file = syn::parse_file(include_str!("../../src/bindings.rs")).expect("the crate compiles");
        let mut side = Self {
            aliases: BTreeMap::new(),
            renames: BTreeMap::new(),
            newtypes: BTreeSet::new(),
            unions: BTreeSet::new(),
            records: BTreeSet::new(),
            opaque: BTreeSet::new(),
            constants: BTreeSet::new(),
            fields: BTreeMap::new(),
            symbols: BTreeMap::new(),
        };
        file.items.into_iter().for_each(|item| side.add(item));
        side
    }

    fn add(&mut self, item: Item) {
        match item {
            Item::Type(t) => _ = self.aliases.insert(t.ident.to_string(), *t.ty),
            Item::Use(u) => self.add_rename(&u.tree),
            Item::Const(c) if !matches!(*c.ty, Type::Reference(_)) => {
                _ = self.constants.insert(c.ident.to_string())
            }
            Item::Struct(s) if matches!(s.fields, Fields::Unnamed(_)) => {
                _ = self.newtypes.insert(s.ident.to_string())
            }
            Item::Struct(s) => self.add_record(s.ident.to_string(), &s.fields),
            Item::Union(u) => {
                self.unions.insert(u.ident.to_string());
                self.add_record(u.ident.to_string(), &Fields::Named(u.fields));
            }
            Item::ForeignMod(block) => block.items.into_iter().for_each(|symbol| self.add_symbol(symbol)),
            _ => {}
        }
    }

    fn add_rename(&mut self, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => self.add_rename(&path.tree),
            syn::UseTree::Rename(r) => _ = self.renames.insert(r.rename.to_string(), r.ident.to_string()),
            _ => {}
        }
    }

    fn add_record(&mut self, name: String, fields: &Fields) {
        let only = (fields.len() == 1).then(|| fields.iter().next()).flatten();
        let only = only.and_then(|f| f.ident.as_ref()).map(ToString::to_string).unwrap_or_default();
        if ["_unused", "_address"].contains(&only.as_str()) {
            self.opaque.insert(name);
            return;
        }
        for field in fields {
            let field_name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            self.fields.insert((name.clone(), field_name), field.ty.clone());
        }
        self.records.insert(name);
    }

    fn add_symbol(&mut self, symbol: ForeignItem) {
        let name = match &symbol {
            ForeignItem::Fn(f) => f.sig.ident.to_string(),
            ForeignItem::Static(s) => s.ident.to_string(),
            _ => return,
        };
        self.symbols.insert(name, symbol);
    }

    pub fn symbol_names(&self) -> impl Iterator<Item = &String> {
        self.symbols.keys()
    }

    /// The type of a function or variable.
    pub fn symbol(&self, name: &str) -> Result<Canonical, String> {
        match self.symbols.get(name).ok_or("not declared")? {
            ForeignItem::Fn(f) => {
                let args = f.sig.inputs.iter().map(|arg| match arg {
                    syn::FnArg::Typed(arg) => self.canonical(&arg.ty),
                    syn::FnArg::Receiver(_) => Err("a receiver".into()),
                });
                self.function(args.collect::<Result<_, _>>()?, f.sig.variadic.is_some(), &f.sig.output)
            }
            ForeignItem::Static(s) => self.canonical(&s.ty),
            _ => Err("neither function nor variable".into()),
        }
    }

    /// The type of a field that is no bit field.
    pub fn field(&self, record: &str, field: &str) -> Result<Canonical, String> {
        let ty = self.fields.get(&(record.into(), field.into())).ok_or("no such field")?;
        self.canonical(ty)
    }

    fn function(&self, args: Vec<Canonical>, variadic: bool, ret: &ReturnType) -> Result<Canonical, String> {
        let ret = match ret {
            ReturnType::Type(_, ty) if !matches!(**ty, Type::Never(_)) => self.canonical(ty)?,
            _ => Canonical::Void,
        };
        Ok(Canonical::Function { args, variadic, ret: Box::new(ret) })
    }

    fn canonical(&self, ty: &Type) -> Result<Canonical, String> {
        match ty {
            Type::Ptr(p) => Ok(Canonical::pointer(
                self.canonical(&p.elem)?,
                matches!(p.mutability, PointerMutability::Const(_)),
            )),
            Type::Array(a) => Ok(Canonical::Array(Box::new(self.canonical(&a.elem)?), array_length(&a.len)?)),
            Type::Path(path) => {
                let last = path.path.segments.last().ok_or("an empty path")?;
                match &last.arguments {
                    PathArguments::AngleBracketed(generic) if last.ident == "Option" => {
                        self.optional_function(generic.args.first())
                    }
                    _ => self.named(&last.ident.to_string()),
                }
            }
            _ => Err("a type C does not have".into()),
        }
    }

    /// `Option<unsafe extern "C" fn(..)>` is C's nullable pointer to a function.
    fn optional_function(&self, argument: Option<&GenericArgument>) -> Result<Canonical, String> {
        let Some(GenericArgument::Type(Type::FnPtr(f))) = argument else {
            return Err("Option of no function".into());
        };
        let args = f.inputs.iter().map(|arg| self.canonical(&arg.ty)).collect::<Result<_, _>>()?;
        Ok(Canonical::pointer(self.function(args, f.variadic.is_some(), &f.output)?, false))
    }

    fn named(&self, name: &str) -> Result<Canonical, String> {
        if let Some(integer) = integer(name) {
            return Ok(integer);
        }
        if let Some(original) = self.renames.get(name) {
            return self.named(original);
        }
        if let Some(ty) = self.aliases.get(name) {
            return self.canonical(ty);
        }
        // bindgen appends `_` to names that Rust reserved at some time, `proc` among them.
        let owned = name.strip_suffix('_').unwrap_or(name).to_string();
        if self.newtypes.contains(name) {
            Ok(Canonical::Enum(owned))
        } else if self.unions.contains(name) {
            Ok(Canonical::Union(owned))
        } else if self.records.contains(name) || self.opaque.contains(name) {
            Ok(Canonical::Struct(owned))
        } else {
            Err(format!("{name} is not declared"))
        }
    }
}

fn integer(name: &str) -> Option<Canonical> {
    use Canonical::{Signed, Unsigned};
    Some(match name {
        "c_void" => Canonical::Void,
        "i8" | "c_char" | "c_schar" => Signed(8),
        "u8" | "c_uchar" => Unsigned(8),
        "i16" | "c_short" => Signed(16),
        "u16" | "c_ushort" => Unsigned(16),
        "i32" | "c_int" => Signed(32),
        "u32" | "c_uint" => Unsigned(32),
        "i64" | "isize" | "c_long" | "c_longlong" => Signed(64),
        "u64" | "usize" | "c_ulong" | "c_ulonglong" => Unsigned(64),
        _ => return None,
    })
}

fn array_length(length: &syn::Expr) -> Result<usize, String> {
    match length {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(n), .. }) => {
            n.base10_parse().map_err(|e| e.to_string())
        }
        _ => Err("an array without a literal length".into()),
    }
}
