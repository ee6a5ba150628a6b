//! `/etc/dladm/datalink.conf`: what the link management daemon keeps for good. One line a link: name, tab, and
//! `key=type,value;` for each attribute.

use crate::system::{FileError, System, change_both};

pub(crate) const FILE: &str = "etc/dladm/datalink.conf";

/// `DATALINK_CLASS_PHYS` and `DATALINK_CLASS_PART`.
pub(crate) const CLASS_PHYSICAL: u64 = 1;
/// See [`CLASS_PHYSICAL`].
pub(crate) const CLASS_PARTITION: u64 = 256;
/// `DL_IB`.
pub(crate) const MEDIA_IB: u64 = 26;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(u64),
    Boolean(bool),
    Text(String),
}

/// A link's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// In the order of the file.
    pub(crate) attributes: Vec<(String, Value)>,
}

impl Line {
    pub(crate) fn new(name: &str, class: u64) -> Self {
        let attributes = vec![("class".into(), Value::Int(class)), ("media".into(), Value::Int(MEDIA_IB))];
        Self { name: name.to_owned(), attributes }
    }

    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.trim_end().split_once(char::is_whitespace)?;
        let attributes = rest.trim().split_terminator(';').map(|item| {
            let (key, typed) = item.split_once('=')?;
            let value = match typed.split_once(',')? {
                ("int", value) => Value::Int(value.parse().ok()?),
                ("boolean", value) => Value::Boolean(value == "1" || value == "true"),
                ("string", value) => Value::Text(value.to_owned()),
                _ => return None,
            };
            Some((key.trim().to_owned(), value))
        });
        let attributes: Vec<_> = attributes.collect::<Option<_>>()?;
        // A link has a class at least.
        (!attributes.is_empty()).then(|| Self { name: name.to_owned(), attributes })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\t", self.name);
        for (key, value) in &self.attributes {
            text += &match value {
                Value::Int(value) => format!("{key}=int,{value};"),
                Value::Boolean(value) => format!("{key}=boolean,{};", u8::from(*value)),
                Value::Text(value) => format!("{key}=string,{value};"),
            };
        }
        text
    }

    fn find(&self, key: &str) -> Option<&Value> {
        self.attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub(crate) fn int(&self, key: &str) -> Option<u64> {
        if let Some(Value::Int(value)) = self.find(key) { Some(*value) } else { None }
    }

    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        if let Some(Value::Text(value)) = self.find(key) { Some(value) } else { None }
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        matches!(self.find(key), Some(Value::Boolean(true)))
    }

    pub(crate) fn class(&self) -> u64 {
        self.int("class").unwrap_or(0)
    }

    /// Sets an attribute: class and media stay first, then the one set last.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.clear(key);
        let first = self.attributes.iter().take_while(|(key, _)| key == "class" || key == "media").count();
        self.attributes.insert(first, (key.to_owned(), value));
    }

    pub(crate) fn clear(&mut self, key: &str) {
        self.attributes.retain(|(known, _)| known != key);
    }

    /// The link's properties: text attributes that are not the link's own.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = ["linkover", "devname", "zone"];
        self.attributes.iter().filter_map(move |(key, value)| match value {
            Value::Text(value) if !own.contains(&key.as_str()) => Some((key.as_str(), value.as_str())),
            _ => None,
        })
    }
}

pub(crate) fn parse(text: &str) -> Vec<Line> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(Line::parse).collect()
}

/// Every link there is a line for.
pub(crate) fn lines(system: &dyn System) -> Vec<Line> {
    system.read_file(FILE).map_or_else(Vec::new, |text| parse(&text))
}

/// Changes the lines as one step; comments, and what is no line of a link, stay.
pub(crate) fn change(system: &dyn System, change: impl Fn(&mut Vec<Line>)) -> Result<(), FileError> {
    system.change_file(FILE, &mut |text| changed(&text, &change))
}

/// Changes the lines and does `act`: both, or neither.
///
/// # Errors
///
/// Those of `act`, or `unwritable`.
pub(crate) fn change_and<E>(
    system: &dyn System,
    change: impl Fn(&mut Vec<Line>),
    act: impl FnOnce() -> Result<(), E>,
    unwritable: E,
) -> Result<(), E> {
    change_both(system, FILE, &mut |text| changed(&text, &change), act, unwritable)
}

fn changed(text: &str, change: impl Fn(&mut Vec<Line>)) -> String {
    let mut lines = parse(text);
    change(&mut lines);
    let others = text.lines().filter(|line| line.starts_with('#') || Line::parse(line).is_none());
    others.map(str::to_owned).chain(lines.iter().map(Line::text)).map(|line| line + "\n").collect()
}

/// Puts a line in the place of the one with its name, or at the end.
pub(crate) fn put(system: &dyn System, line: &Line) -> Result<(), FileError> {
    change(system, |lines| match lines.iter_mut().find(|known| known.name == line.name) {
        Some(known) => known.clone_from(line),
        None => lines.push(line.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the original, in its order of attributes.
    const PLAIN: &str = "pFFFF.ibp0\tclass=int,256;media=int,26;pkey=int,65535;linkover=string,ibp0;";
    const FORCED: &str =
        "pFFFF.ibp1\tclass=int,256;media=int,26;force=boolean,1;pkey=int,65535;linkover=string,ibp1;";

    #[test]
    fn lines_are_written_as_the_daemon_writes_them() {
        for (name, force, expected) in [("pFFFF.ibp0", false, PLAIN), ("pFFFF.ibp1", true, FORCED)] {
            let mut line = Line::new(name, CLASS_PARTITION);
            line.set("linkover", Value::Text(name[6..].to_owned()));
            line.set("pkey", Value::Int(0xffff));
            if force {
                line.set("force", Value::Boolean(true));
            }
            assert_eq!(line.text(), expected);
            assert_eq!(Line::parse(expected), Some(line));
        }
    }

    #[test]
    fn a_damaged_line_is_no_link() {
        for bad in ["x0", "x0\tclass", "x0\tclass=int,zwei;", "x0\tclass=float,1.0;", "x0\tclass=int;"] {
            assert_eq!(Line::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_line_of_a_link_is_kept() {
        let text = format!("# mine\n{PLAIN}\n\nx0\tclass=float,1.0;\n");
        let kept = changed(&text, |lines| lines.retain(|line| line.name != "pFFFF.ibp0"));
        assert_eq!(kept, "# mine\n\nx0\tclass=float,1.0;\n");
    }
}
