//! Somebody is asked, question by question.

use std::collections::{BTreeMap, BTreeSet};

use crate::Subject;
use crate::answer::common;

/// The link that the questions are about.
#[derive(Clone, Debug)]
pub struct Link {
    /// Who drives it.
    pub driver: String,
    /// Its data-link id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The number that mac gave it, if it is there already.
    pub instance: Option<u32>,
    /// The number under which the driver keeps its own statistics.
    pub own: u32,
}

/// What the questions call what they are about, and what has been learned on the way.
#[derive(Debug)]
pub struct Interview {
    link: Link,
    /// How many P_Keys a port has.
    size: Option<String>,
    /// What stayed open: `$a`, and the descriptor.
    open: BTreeMap<String, String>,
    /// The names of all statistics, when they were last listed.
    statistics: Option<BTreeSet<String>>,
}

impl Interview {
    /// Nobody has been asked yet.
    pub fn new(link: Link) -> Self {
        Self { link, size: None, open: BTreeMap::new(), statistics: None }
    }

    /// Asks all questions of a subject, or those for which `is_asked`; the answers in their order. `answer` has a line for a line: a list
    /// of `module:instance:name` to `kstats`, and `fd=` to what opens something.
    ///
    /// # Errors
    ///
    /// Those of `answer`.
    pub fn all<E>(
        &mut self,
        subject: &Subject,
        is_asked: impl Fn(usize) -> bool,
        mut answer: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<Vec<String>, E> {
        let mut answers = Vec::new();
        for (index, question) in subject.question.iter().enumerate() {
            answers.push(if is_asked(index) { self.one(&question.ask, &mut answer)? } else { String::new() });
        }
        Ok(answers)
    }

    fn one<E>(&mut self, ask: &str, answer: &mut impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        if ask == "statistics" {
            let now = answer("kstats")?.split_whitespace().map(str::to_owned).collect();
            return Ok(self.difference(now));
        }
        let (keep, ask) = ask.split_once(" = ").map_or((None, ask), |(name, rest)| (Some(name), rest));
        let given = answer(&self.meant(ask))?;
        let field =
            |name: &str| given.split_whitespace().find_map(|word| Some(word.strip_prefix(name)?.to_owned()));
        if let (Some(name), Some(fd)) = (keep, field("fd=")) {
            self.open.insert(format!("${name}"), fd);
        }
        if self.size.is_none() {
            self.size = field("size=");
        }
        let text = common(&given, &self.names());
        Ok(match ask.split(' ').next() {
            Some("kstat-form") => text.replace(' ', "\n"),
            Some("tree") => tree(&text),
            _ => text,
        })
    }

    /// The question in words that are understood.
    fn meant(&self, ask: &str) -> String {
        let of = |word: &str| match word {
            "LINK" => self.link.id.to_string(),
            "DRIVER" => self.link.driver.clone(),
            "INSTANCE" => self.link.instance.map(|number| number.to_string()).unwrap_or_default(),
            "OWN" => self.link.own.to_string(),
            "SIZE" => self.size.clone().unwrap_or_default(),
            "/dev/net/NAME" => format!("/dev/net/{}", self.link.name),
            "NAME" => self.link.name.clone(),
            word => self.open.get(word).cloned().unwrap_or_else(|| word.to_owned()),
        };
        ask.split(' ').map(of).collect::<Vec<_>>().join(" ")
    }

    /// Values that have a name in the record.
    fn names(&self) -> Vec<(String, &'static str)> {
        let size = self.size.as_ref().map(|size| (format!("size={size}"), "size=SIZE"));
        let link = (format!("link={}", self.link.id), "link=LINK");
        [(self.link.name.clone(), "NAME"), link].into_iter().chain(size).collect()
    }

    /// What statistics there are more and less than when they were listed before.
    fn difference(&mut self, now: BTreeSet<String>) -> String {
        let before = self.statistics.replace(now.clone()).unwrap_or_else(|| now.clone());
        let added: Vec<&String> = now.difference(&before).collect();
        let of_driver = |name: &String| {
            let (number, kind) = name.strip_prefix(&format!("{}:", self.link.driver))?.split_once(':')?;
            Some((number.parse().ok()?, kind.to_owned()))
        };
        if let Some((number, _)) =
            added.iter().find_map(|name| of_driver(name).filter(|(_, kind)| kind == "mac"))
        {
            self.link.instance = Some(number);
        }
        let gone = before.difference(&now).map(|name| ("-", name));
        let names = self.names();
        let Link { driver, instance, own, .. } = &self.link;
        let mac = instance.map(|number| format!("/{driver}{number}/")).unwrap_or_default();
        let called = |name: &String| match of_driver(name) {
            Some((number, kind)) if kind == "mac" && Some(number) == *instance => {
                "DRIVER:INSTANCE:mac".to_owned()
            }
            Some((number, kind)) if kind != "mac" && number == *own => format!("DRIVER:OWN:{kind}"),
            // A flow for a group is numbered as groups come.
            _ if name.contains(&mac) => {
                name.replace(&mac, "/MAC/").trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
            }
            _ => common(name, &names),
        };
        let changes = added.into_iter().map(|name| ("+", name)).chain(gone);
        let mut lines: Vec<String> = changes.map(|(sign, name)| format!("{sign} {}", called(name))).collect();
        lines.sort();
        if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
    }
}

/// Nodes of a device, a line for a node and one for each thing known of it: in the order of their names, as are their properties.
fn tree(text: &str) -> String {
    let mut nodes: Vec<Vec<&str>> = Vec::new();
    for word in text.split(' ') {
        match nodes.last_mut() {
            Some(node) if word.contains('=') => node.push(word),
            _ => nodes.push(vec![word]),
        }
    }
    nodes.sort();
    for node in &mut nodes {
        let properties = |word: &&str| word.starts_with("property=");
        let first = node.iter().position(properties).unwrap_or(node.len());
        let length = node[first..].iter().take_while(|word| properties(word)).count();
        node[first..first + length].sort_unstable();
    }
    nodes.concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::tree;

    #[test]
    fn nodes_and_their_properties_are_in_order_and_nothing_else_is_moved() {
        let text = "b@2 instance=1 property=y:int:4 property=x:int:4 minor=z:t a@1 compatible=q compatible=p";
        let lines = [
            "a@1",
            "compatible=q",
            "compatible=p",
            "b@2",
            "instance=1",
            "property=x:int:4",
            "property=y:int:4",
            "minor=z:t",
        ];
        assert_eq!(tree(text), lines.join("\n"));
    }
}
