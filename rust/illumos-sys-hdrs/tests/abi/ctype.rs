//! C type names, reduced to a form that has one spelling.
//!
//! Typedefs are resolved, arguments decay as in C, and only what the calling convention and the type system of both
//! languages see is kept: width and sign of integers, tags, pointees and their `const`, prototypes.

use std::collections::BTreeMap;

use crate::table::Typedef;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Canonical {
    Void,
    /// Width in bits.
    Signed(u32),
    Unsigned(u32),
    Struct(String),
    Union(String),
    Enum(String),
    Pointer {
        to_const: bool,
        to: Box<Canonical>,
    },
    Array(Box<Canonical>, usize),
    Function {
        args: Vec<Canonical>,
        variadic: bool,
        ret: Box<Canonical>,
    },
}

impl Canonical {
    pub fn pointer(to: Canonical, to_const: bool) -> Self {
        Self::Pointer { to_const, to: Box::new(to) }
    }

    /// What is left of an argument of this type after C's conversions.
    pub fn decayed(self) -> Self {
        match self {
            Self::Array(of, _) => Self::pointer(*of, false),
            function @ Self::Function { .. } => Self::pointer(function, false),
            other => other,
        }
    }
}

/// Parses type names against a set of typedefs.
pub struct Parser<'a> {
    pub typedefs: &'a BTreeMap<String, Typedef>,
}

impl Parser<'_> {
    /// `name` is a C type name as in a cast, for example `int (*)(void *, char **)`.
    pub fn parse(&self, name: &str) -> Result<Canonical, String> {
        let tokens = tokens(name);
        let mut input = Input { tokens: &tokens, at: 0 };
        let (ty, _) = self.type_name(&mut input)?;
        if input.at == tokens.len() {
            Ok(ty)
        } else {
            Err(format!("`{name}`: rest after token {}", input.at))
        }
    }

    /// The type, and whether its outermost level is `const`.
    fn type_name(&self, input: &mut Input<'_>) -> Result<(Canonical, bool), String> {
        let (base, is_const) = self.specifiers(input)?;
        self.declarator(input, base, is_const)
    }

    fn specifiers(&self, input: &mut Input<'_>) -> Result<(Canonical, bool), String> {
        let (mut words, mut is_const) = (Vec::new(), false);
        while let Some(token) = input.peek() {
            match token {
                "const" => is_const = true,
                "volatile" | "restrict" => {}
                "struct" | "union" | "enum" => {
                    words.push(token);
                    input.next();
                    words.push(input.peek().ok_or("a tag is missing")?);
                }
                _ if is_word(token)
                    && (words.is_empty() || is_builtin(token) && words.iter().all(|w| is_builtin(w))) =>
                {
                    words.push(token)
                }
                _ => break,
            }
            input.next();
        }
        let (base, typedef_const) = self.base(&words)?;
        Ok((base, is_const || typedef_const))
    }

    fn base(&self, words: &[&str]) -> Result<(Canonical, bool), String> {
        if let [kind @ ("struct" | "union" | "enum"), tag] = words {
            let tag = tag.to_string();
            return Ok(match *kind {
                "struct" => (Canonical::Struct(tag), false),
                "union" => (Canonical::Union(tag), false),
                _ => (Canonical::Enum(tag), false),
            });
        }
        if let Some(builtin) = builtin(words) {
            return Ok((builtin, false));
        }
        let [name] = words else { return Err(format!("no type: {words:?}")) };
        let listed = self.typedefs.get(*name).map(|t| t.ctype.as_str());
        let unlisted = || UNLISTED.iter().find(|(unlisted, _)| unlisted == name).map(|(_, ty)| *ty);
        let ty = listed.or_else(unlisted).ok_or_else(|| format!("typedef {name} is not in the tables"))?;
        let tokens = tokens(ty);
        self.type_name(&mut Input { tokens: &tokens, at: 0 })
    }

    /// Pointers first, then `[n]` and `(...)`; a parenthesised inner declarator applies to the outcome.
    fn declarator(
        &self,
        input: &mut Input<'_>,
        mut ty: Canonical,
        mut is_const: bool,
    ) -> Result<(Canonical, bool), String> {
        while input.eat("*") {
            ty = Canonical::pointer(ty, is_const);
            is_const = false;
            while let Some("const" | "volatile" | "restrict") = input.peek() {
                is_const |= input.next() == Some("const");
            }
        }
        let inner = (input.peek() == Some("(") && input.peek_at(1) == Some("*")).then(|| input.skip_group());
        ty = self.suffixes(input, ty)?;
        match inner {
            Some(tokens) => self.declarator(&mut Input { tokens, at: 0 }, ty, is_const),
            None => Ok((ty, is_const)),
        }
    }

    fn suffixes(&self, input: &mut Input<'_>, ty: Canonical) -> Result<Canonical, String> {
        if input.eat("[") {
            let length = input.next().and_then(|n| n.parse().ok()).ok_or("an array needs a length")?;
            input.eat("]");
            return Ok(Canonical::Array(Box::new(self.suffixes(input, ty)?), length));
        }
        if input.peek() == Some("(") {
            let group = input.skip_group();
            return self.function(group, ty);
        }
        Ok(ty)
    }

    fn function(&self, tokens: &[&str], ret: Canonical) -> Result<Canonical, String> {
        let (mut args, mut variadic) = (Vec::new(), false);
        if tokens != ["void"] {
            let mut input = Input { tokens, at: 0 };
            while input.peek().is_some() {
                if input.eat("...") {
                    variadic = true;
                } else {
                    args.push(self.type_name(&mut input)?.0.decayed());
                }
                input.eat(",");
            }
        }
        Ok(Canonical::Function { args, variadic, ret: Box::new(ret) })
    }
}

struct Input<'a> {
    tokens: &'a [&'a str],
    at: usize,
}

impl<'a> Input<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn eat(&mut self, token: &str) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    /// Consumes `( ... )` and gives what is between.
    fn skip_group(&mut self) -> &'a [&'a str] {
        let (start, mut depth) = (self.at + 1, 0_usize);
        while let Some(token) = self.next() {
            match token {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        &self.tokens[start..self.at - 1]
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn is_builtin(token: &str) -> bool {
    ["void", "char", "short", "int", "long", "signed", "unsigned"].contains(&token)
}

/// Typedefs that the tables use and do not list: their headers were not among those read. Sizes as the manual and the
/// sizes of their users say (`ddi_model_convert_from`: 4 bytes; `ibt_ip_addr_t`: the union follows 2 bytes later).
const UNLISTED: &[(&str, &str)] = &[
    ("model_t", "unsigned int"),
    ("proc_t", "struct proc"),
    ("sa_family_t", "unsigned short"),
    ("uintmax_t", "unsigned long"),
    ("vmem_t", "struct vmem"),
];

/// Integers of the amd64 kernel (LP64, `char` signed), and the fixed-width names the tables leave unresolved.
fn builtin(words: &[&str]) -> Option<Canonical> {
    use Canonical::{Signed, Unsigned};
    let fixed = match words {
        ["void"] => Canonical::Void,
        ["int8_t"] => Signed(8),
        ["int16_t"] => Signed(16),
        ["int32_t"] => Signed(32),
        ["int64_t" | "intptr_t" | "ssize_t"] => Signed(64),
        ["uint8_t"] => Unsigned(8),
        ["uint16_t"] => Unsigned(16),
        ["uint32_t"] => Unsigned(32),
        ["uint64_t" | "uintptr_t"] => Unsigned(64),
        ["__va_list"] => Canonical::Array(Box::new(Canonical::Struct("__va_list_tag".into())), 1),
        _ => return plain_integer(words),
    };
    Some(fixed)
}

fn plain_integer(words: &[&str]) -> Option<Canonical> {
    if words.is_empty() || !words.iter().all(|w| is_builtin(w)) {
        return None;
    }
    let count = |word| words.iter().filter(|w| **w == word).count();
    let bits = match (count("char"), count("short"), count("long")) {
        (1, ..) => 8,
        (_, 1, _) => 16,
        (_, _, 0) => 32,
        _ => 64,
    };
    Some(if count("unsigned") == 1 { Canonical::Unsigned(bits) } else { Canonical::Signed(bits) })
}

/// Words, numbers, `...` and single punctuation marks; attributes are dropped.
fn tokens(text: &str) -> Vec<&str> {
    let text = text.split("__attribute__").next().unwrap_or(text);
    let (mut out, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = if rest.starts_with("...") { 3 } else { word.max(1) };
        out.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    out
}
