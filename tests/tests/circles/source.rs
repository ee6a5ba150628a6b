//! What one file of a crate names: its modules, what it makes known under other names, and the paths it uses.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Names from the root of a crate on: `crate::a::b` is `["a", "b"]`.
pub type Path = Vec<String>;

/// A file, read. The modules that it has inside itself are in it too.
#[derive(Debug, Default)]
pub struct Source {
    /// What each of its modules imports or makes known, by the name used there: (module, name) and what that is.
    pub names: BTreeMap<(Path, String), Path>,
    /// Modules that it has inside itself.
    pub inside: Vec<Path>,
    /// Modules that are imported whole, with a star.
    pub stars: Vec<(Path, Path)>,
    /// Every path of two names or more, `crate`, `self` and `super` followed.
    pub paths: Vec<Path>,
    /// The types that it has inherent `impl`s for, where, and with which functions.
    pub methods: Vec<Methods>,
    /// Names of all functions it defines.
    pub functions: Vec<String>,
    /// Every `.name(`.
    pub calls: Vec<String>,
}

/// The functions of an inherent `impl`.
#[derive(Debug)]
pub struct Methods {
    pub module: Path,
    pub of: String,
    pub names: Vec<String>,
}

/// A token as far as anybody here looks at it.
enum Token {
    Word(String),
    Sign(char),
    Group(Delimiter, Vec<Token>),
    Other,
}

impl Token {
    fn all(stream: TokenStream) -> Vec<Self> {
        let one = |tree| match tree {
            TokenTree::Ident(word) => Self::Word(word.to_string()),
            TokenTree::Punct(sign) => Self::Sign(sign.as_char()),
            TokenTree::Group(group) => Self::Group(group.delimiter(), Self::all(group.stream())),
            TokenTree::Literal(_) => Self::Other,
        };
        stream.into_iter().map(one).collect()
    }

    fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }

    fn is(&self, sign: char) -> bool {
        matches!(self, Self::Sign(own) if *own == sign)
    }
}

impl Source {
    /// Reads the text of the file that is `module`.
    pub fn read(module: &[String], text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("no Rust: {error}"))?;
        let mut source = Self::default();
        source.scan(module, &Token::all(stream));
        Ok(source)
    }

    fn scan(&mut self, module: &[String], tokens: &[Token]) {
        let mut at = 0;
        while at < tokens.len() {
            at += self.step(module, &tokens[at..], at.checked_sub(1).map(|before| &tokens[before]));
        }
    }

    /// Reads what begins at the first of `tokens`; how many that was.
    fn step(&mut self, module: &[String], tokens: &[Token], before: Option<&Token>) -> usize {
        match tokens {
            [Token::Word(key), Token::Word(name), Token::Group(Delimiter::Brace, inside), ..]
                if key == "mod" =>
            {
                let inner = [module, std::slice::from_ref(name)].concat();
                self.scan(&inner, inside);
                self.inside.push(inner);
                3
            }
            // `impl Trait + use<'a>` imports nothing.
            [Token::Word(key), rest @ ..] if key == "use" && !before.is_some_and(|t| t.is('+')) => {
                let end = rest.iter().position(|t| t.is(';')).unwrap_or(rest.len());
                self.import(module, &[], &rest[..end]);
                end + 1
            }
            [Token::Word(key), rest @ ..] if key == "impl" && before.is_none_or(begins_an_item) => {
                self.implementation(module, rest);
                1
            }
            // One that is exported is known at the root; of the others nobody speaks by a path.
            [Token::Word(key), bang, Token::Word(name), ..] if key == "macro_rules" && bang.is('!') => {
                let here = [module, &[format!("{name}!")]].concat();
                self.names.insert((Path::new(), name.clone()), here);
                3
            }
            [Token::Word(key), Token::Word(name), ..] if key == "fn" => {
                self.functions.push(name.clone());
                2
            }
            [Token::Word(_), ..] => self.path(module, tokens, before),
            [Token::Group(_, inside), ..] => {
                self.scan(module, inside);
                1
            }
            _ => 1,
        }
    }

    /// A path, or a single word; how many tokens.
    fn path(&mut self, module: &[String], tokens: &[Token], before: Option<&Token>) -> usize {
        let mut words: Path = tokens[0].word().map(str::to_owned).into_iter().collect();
        let mut length = 1;
        while let [a, b, Token::Word(next), ..] = &tokens[length..]
            && a.is(':')
            && b.is(':')
        {
            words.push(next.clone());
            length += 3;
        }
        let called = matches!(tokens.get(length), Some(Token::Group(Delimiter::Parenthesis, _)))
            || matches!(&tokens[length..], [a, b, c, ..] if a.is(':') && b.is(':') && c.is('<'));
        match before {
            Some(dot) if dot.is('.') && called => self.calls.append(&mut words),
            Some(sign) if sign.is('.') || sign.is('\'') => {}
            _ if words.len() > 1 => self.paths.extend(followed(module, &words)),
            _ => {}
        }
        length
    }

    /// One tree of a `use`, below `above`.
    fn import(&mut self, module: &[String], above: &[String], tokens: &[Token]) {
        match tokens {
            [a, b, rest @ ..] if a.is(':') && b.is(':') => self.import(module, above, rest),
            [Token::Group(Delimiter::Brace, trees)] => {
                trees.split(|t| t.is(',')).for_each(|tree| self.import(module, above, tree));
            }
            [star] if star.is('*') => {
                self.stars.extend(followed(module, above).map(|path| (module.to_vec(), path)));
            }
            [Token::Word(name)] => self.name(module, above, name, name),
            [Token::Word(name), Token::Word(key), Token::Word(alias)] if key == "as" => {
                self.name(module, above, name, alias);
            }
            [Token::Word(name), rest @ ..] => {
                self.import(module, &[above, std::slice::from_ref(name)].concat(), rest);
            }
            _ => {}
        }
    }

    fn name(&mut self, module: &[String], above: &[String], name: &str, alias: &str) {
        let mut path = above.to_vec();
        if name != "self" || above.is_empty() {
            path.push(name.to_owned());
        }
        let alias = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_owned() };
        if let Some(path) = followed(module, &path) {
            self.names.insert((module.to_vec(), alias), path.clone());
            self.paths.push(path);
        }
    }

    /// `impl<...> Type<...> { ... }`; what is not inherent is not of interest.
    fn implementation(&mut self, module: &[String], tokens: &[Token]) {
        let Some(end) = tokens.iter().position(|t| matches!(t, Token::Group(Delimiter::Brace, _))) else {
            return;
        };
        let Token::Group(_, inside) = &tokens[end] else { return };
        let head = without_generics(&tokens[..end]);
        if head.iter().any(|t| t.word() == Some("for")) {
            return;
        }
        let Some(of) = head.iter().rev().find_map(|t| t.word()) else { return };
        let names = inside.windows(2).filter(|pair| pair[0].word() == Some("fn"));
        let names = names.filter_map(|pair| Some(pair[1].word()?.to_owned())).collect();
        self.methods.push(Methods { module: module.to_vec(), of: of.to_owned(), names });
    }
}

/// Whether an `impl` after this is an item, and not part of a type as in `-> impl Trait`.
fn begins_an_item(before: &Token) -> bool {
    matches!(before, Token::Group(..)) || before.is(';') || before.word() == Some("unsafe")
}

/// The tokens outside `<` and `>`, up to a `where`.
fn without_generics(tokens: &[Token]) -> Vec<&Token> {
    let mut depth = 0;
    let mut kept = Vec::new();
    for token in tokens.iter().take_while(|t| t.word() != Some("where")) {
        match token {
            Token::Sign('<') => depth += 1,
            Token::Sign('>') => depth -= 1,
            _ if depth == 0 => kept.push(token),
            _ => {}
        }
    }
    kept
}

/// The path from the crate's root on, where `crate`, `self` and `super` say it; otherwise as it stands, below the module. `None` if it
/// leads out of the crate.
fn followed(module: &[String], words: &[String]) -> Option<Path> {
    let (first, mut rest) = words.split_first()?;
    let mut base = match first.as_str() {
        "crate" => return Some(rest.to_vec()),
        "self" => module,
        "super" => &module[..module.len().checked_sub(1)?],
        "Self" => return None,
        _ => return Some([module, words].concat()),
    };
    while rest.first().is_some_and(|word| word == "super") {
        base = &base[..base.len().checked_sub(1)?];
        rest = &rest[1..];
    }
    Some([base, rest].concat())
}
