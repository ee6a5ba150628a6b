//! The column engine that `dladm` and `ipadm` print with.

use crate::session::{Failure, Session};

/// A column: its name, and its width, the space behind it included.
pub(crate) type Field = (&'static str, usize);

/// A cell: text, or `None` when its value could not be had.
pub(crate) type Cell = Option<String>;

/// How the columns were chosen.
pub(crate) struct Choice<'a> {
    /// The command, for messages.
    pub(crate) command: &'a str,
    /// Every column there is, in order.
    pub(crate) fields: &'a [Field],
    /// Those shown when the person does not say.
    pub(crate) default: &'a [&'a str],
    /// `-o`.
    pub(crate) chosen: Option<&'a str>,
    /// Colons instead of columns.
    pub(crate) parsable: bool,
    /// Break long values at commas.
    pub(crate) wrap: bool,
}

/// Prints rows.
pub(crate) struct Table {
    /// Index into the command's fields, and the field.
    columns: Vec<(usize, Field)>,
    parsable: bool,
    wrap: bool,
    printed: usize,
}

impl Table {
    /// The columns that were chosen. Unknown names are warned of, and end a parsable command.
    pub(crate) fn new(session: &mut Session<'_>, choice: &Choice<'_>) -> Result<Self, Failure> {
        let Choice { command, fields, parsable, .. } = *choice;
        let fail = |text: String| Failure::line(format!("{command}: {text}"));
        let names: Vec<&str> = match choice.chosen {
            None => choice.default.to_vec(),
            Some(text) if text.eq_ignore_ascii_case("all") => {
                if parsable {
                    return Err(fail("output field `all' invalid in parsable mode".into()));
                }
                fields.iter().map(|(name, _)| *name).collect()
            }
            Some(text) => text.split(',').collect(),
        };
        let (mut columns, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            match fields.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some(at) => columns.push((at, fields[at])),
                None => unknown.push(format!("`{name}'")),
            }
        }
        if !unknown.is_empty() {
            let text = format!(
                "unknown output field{} {}",
                if unknown.len() > 1 { "s:" } else { ":" },
                unknown.join(", ")
            );
            if parsable {
                return Err(fail(text));
            }
            session.err(format!("{command}: warning: ignoring {text}\n"));
        }
        if columns.is_empty() {
            return Err(fail("no valid output fields".into()));
        }
        Ok(Self { columns, parsable, wrap: choice.wrap, printed: 0 })
    }

    /// One row: a cell for each of the command's fields.
    pub(crate) fn row(&mut self, session: &mut Session<'_>, cells: &[Cell]) {
        let text = if self.parsable { self.parsable_row(cells) } else { self.human(session, cells) };
        session.out(text);
    }

    fn parsable_row(&self, cells: &[Cell]) -> String {
        let several = self.columns.len() > 1;
        let texts = self.columns.iter().map(|(at, _)| {
            let text = cells[*at].clone().unwrap_or_else(|| "?".to_owned());
            if several { text.replace('\\', "\\\\").replace(':', "\\:") } else { text }
        });
        texts.collect::<Vec<_>>().join(":") + "\n"
    }

    fn human(&mut self, session: &Session<'_>, cells: &[Cell]) -> String {
        let mut text = String::new();
        let page = session.terminal.rows().saturating_sub(1).max(1);
        if self.printed.is_multiple_of(page) {
            text += &self.line(
                &self.columns.iter().map(|(_, (name, _))| vec![(*name).to_owned()]).collect::<Vec<_>>(),
                0,
            );
        }
        self.printed += 1;
        let parts: Vec<Vec<String>> =
            self.columns.iter().map(|(at, (_, width))| self.parts(&cells[*at], *width)).collect();
        let lines = parts.iter().map(Vec::len).max().unwrap_or(0);
        (0..lines).for_each(|line| text += &self.line(&parts, line));
        text
    }

    /// A cell's text, in as many lines as it takes.
    fn parts(&self, cell: &Cell, width: usize) -> Vec<String> {
        let text = match cell {
            None => "?",
            Some(text) if text.is_empty() => "--",
            Some(text) => text,
        };
        if self.wrap { wrapped(text, width) } else { vec![text.to_owned()] }
    }

    fn line(&self, parts: &[Vec<String>], line: usize) -> String {
        let (mut text, mut overflow) = (String::new(), 0);
        let last = parts.len() - 1;
        for (at, (part, (_, (_, width)))) in parts.iter().zip(&self.columns).enumerate() {
            let value = part.get(line).map_or("", String::as_str);
            let len = value.chars().count();
            if at == last {
                text += value;
            } else if len + overflow >= *width {
                text += value;
                text.push(' ');
                overflow += len + 1;
                overflow -= *width;
            } else {
                let taken = overflow.min(width - len);
                overflow -= taken;
                text += &format!("{value:<room$}", room = width - taken);
            }
        }
        text.push('\n');
        text
    }
}

/// Breaks a list at its commas so that lines keep to the width if their items do.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut tokens = text.split(',').peekable();
    let mut line = String::new();
    while let Some(token) = tokens.next() {
        if !line.is_empty() && line.chars().count() + token.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        line += token;
        if tokens.peek().is_some() {
            line.push(',');
        }
    }
    lines.push(line);
    lines
}
