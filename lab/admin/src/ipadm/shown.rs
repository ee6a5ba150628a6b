//! What `show-addr` and `show-if` are asked: which fields, in which form, and about what.

use super::{die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Choice, Field};
use crate::session::Failure;

const OPTIONS: Options = Options {
    short: "po:",
    long: &[("parsable", 'p'), ("parseable", 'p'), ("output", 'o')],
    operands_end: false,
};

/// A question of either.
pub(super) struct Shown {
    parsable: bool,
    fields: Option<String>,
    /// The object that is asked about, if not all are.
    pub(super) name: Option<String>,
}

impl Shown {
    pub(super) fn read(arguments: &[String], line: &str) -> Result<Self, Failure> {
        let (options, operands) = parse(&OPTIONS, arguments, line)?;
        let parsable = options.iter().any(|(letter, _)| *letter == 'p');
        let fields = options.into_iter().rev().find(|(letter, _)| *letter == 'o').map(|(_, value)| value);
        if parsable && fields.is_none() {
            return Err(die("-p requires -o"));
        }
        let name = match &operands[..] {
            [] => None,
            [name] => Some(name.to_owned()),
            _ => return Err(usage()),
        };
        Ok(Self { parsable, fields, name })
    }

    /// The table's columns, `default` of `fields` if none were named.
    pub(super) fn choice<'a>(&'a self, fields: &'a [Field], default: &'a [&'a str]) -> Choice<'a> {
        let (chosen, parsable) = (self.fields.as_deref(), self.parsable);
        Choice { command: "ipadm", fields, default, chosen, parsable, wrap: false }
    }
}
