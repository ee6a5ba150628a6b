//! The grammar: one action a line (a backslash continues it), an optional macro in front, then `key=value` words.

/// A manifest.
#[derive(Debug, Default)]
pub struct Manifest {
    /// Its actions, in order.
    pub actions: Vec<Action>,
    /// Whether it is included elsewhere or includes or transforms itself.
    pub directives: usize,
}

/// One action.
#[derive(Debug)]
pub struct Action {
    /// The line it begins on, from 1.
    pub line: usize,
    /// A macro in front, `$(i386_ONLY)`, that makes it a comment on some machines; empty if there is none.
    pub only: String,
    /// `file`, `driver`, ...
    pub name: String,
    /// What has no key: the hash, or where the content is.
    pub payload: Vec<String>,
    /// In order; a key may repeat.
    pub attributes: Vec<(String, String)>,
}

impl Action {
    /// The first value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// All values of a key.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Reads a manifest.
///
/// # Errors
///
/// A line is none of the grammar; the error says which.
pub fn parse(text: &str) -> Result<Manifest, String> {
    let mut manifest = Manifest::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let mut whole = line.to_string();
        while let Some(start) = whole.trim_end().strip_suffix('\\').map(String::from) {
            let Some((_, next)) = lines.next() else {
                return Err(format!("line {}: continued by nothing", at + 1));
            };
            whole = format!("{start} {}", next.trim_start());
        }
        if directive(&whole).map_err(|error| format!("line {}: {error}", at + 1))? {
            manifest.directives += 1;
        } else {
            manifest
                .actions
                .push(action(at + 1, &whole).map_err(|error| format!("line {}: {error}", at + 1))?);
        }
    }
    Ok(manifest)
}

/// `<include FILE>` and `<transform ...>`, with a macro in front or not.
fn directive(line: &str) -> Result<bool, String> {
    let line = without_macro(line.trim()).1;
    let Some(inside) = line.strip_prefix('<') else { return Ok(false) };
    let inside = inside.strip_suffix('>').ok_or("a `>` is missing")?;
    match inside.split_whitespace().next() {
        Some("include" | "transform") => Ok(true),
        other => Err(format!("<{}> is neither include nor transform", other.unwrap_or_default())),
    }
}

fn without_macro(line: &str) -> (&str, &str) {
    match line.strip_prefix("$(").and_then(|rest| rest.find(')')) {
        Some(end) => line.split_at(end + 3),
        None => ("", line),
    }
}

fn action(line: usize, text: &str) -> Result<Action, String> {
    let (only, rest) = without_macro(text.trim());
    let mut words = words(rest)?.into_iter();
    let name = words.next().ok_or("nothing but a macro")?;
    let mut action = Action { line, only: only.into(), name, payload: Vec::new(), attributes: Vec::new() };
    for word in words {
        match word.split_once('=') {
            Some(("", _)) => return Err(format!("`{word}` has no key")),
            Some((_, "")) => return Err(format!("`{word}` has no value")),
            Some((key, value)) => action.attributes.push((key.into(), value.into())),
            None => action.payload.push(word),
        }
    }
    Ok(action)
}

/// Blank-separated words; quotes around a value or a part of one go.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.push(c),
            // Inside a value an apostrophe is one.
            None if (c == '"' || c == '\'') && word.ends_with('=') => quote = Some(c),
            None if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            None => word.push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}
