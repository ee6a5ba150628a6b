//! The record of what a real kernel answered about a link (`tests/data/kernel-answers.toml`), and how whoever is held to it is asked:
//! the kernel by `metal run --case answers`, the lab by the conformance test `link answers`.
//!
//! A question is a line of the words that `tools/metal/agent` knows. What differs from run to run and says nothing has a name in
//! capitals, in questions and in answers.

#![forbid(unsafe_code)]

mod answer;
mod interview;

use std::fmt::Write as _;

use serde::Deserialize;

pub use answer::refusal;
pub use interview::{Interview, Link};

const TEXT: &str = include_str!("../../data/kernel-answers.toml");

/// All of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Record {
    /// In the order in which they are asked.
    pub subject: Vec<Subject>,
}

/// Questions about one thing; a subject leaves the link as it was for the next one.
#[derive(Clone, Debug, Deserialize)]
pub struct Subject {
    /// What it is about.
    pub name: String,
    /// The identity of the driver that alone is asked, if only one is.
    pub identity: Option<String>,
    /// In order.
    pub question: Vec<Question>,
}

/// A question and its answers.
#[derive(Clone, Debug, Deserialize)]
pub struct Question {
    /// What is asked.
    pub ask: String,
    /// What the kernel answers.
    pub kernel: String,
    /// What the lab answers, where that is something else; [`NOT_ASKED`] where it has nobody to ask. Each has a row in
    /// docs/fidelity.md.
    pub lab: Option<String>,
}

/// The lab's answer to a question for which it has no layer.
pub const NOT_ASKED: &str = "-";

/// Whose answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A kernel's.
    Kernel,
    /// The lab's.
    Lab,
}

impl Record {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// It is not as it should be.
    pub fn read() -> Result<Self, toml::de::Error> {
        toml::from_str(TEXT)
    }

    /// What a driver of this identity is asked.
    pub fn subjects(&self, identity: &str) -> impl Iterator<Item = &Subject> {
        self.subject.iter().filter(move |one| one.identity.as_deref().is_none_or(|only| only == identity))
    }

    /// The same record with other answers of the kernel, as a file: what a person compares, and keeps.
    pub fn with(&self, answers: &[(String, Vec<String>)]) -> String {
        let mut text: String =
            TEXT.lines().take_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
        for subject in &self.subject {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, "\n\n[[subject]]\nname = {:?}\n", subject.name);
            if let Some(identity) = &subject.identity {
                let _ = writeln!(text, "identity = {identity:?}");
            }
            text.push_str("question = [\n");
            let seen = answers.iter().find(|(name, _)| *name == subject.name).map(|(_, seen)| seen);
            for (index, question) in subject.question.iter().enumerate() {
                let kernel = seen.and_then(|seen| seen.get(index)).unwrap_or(&question.kernel);
                let _ = write!(text, "    {{ ask = {}, kernel = {}", quoted(&question.ask), quoted(kernel));
                if let Some(lab) = &question.lab {
                    let _ = write!(text, ", lab = {}", quoted(lab));
                }
                text.push_str(" },\n");
            }
            text.push(']');
        }
        text + "\n"
    }
}

impl Question {
    /// The answer that is expected, or nothing if nobody is asked.
    pub fn expected(&self, who: Who) -> Option<&str> {
        match (who, self.lab.as_deref()) {
            (Who::Lab, Some(NOT_ASKED)) => None,
            (Who::Lab, Some(lab)) => Some(lab.trim()),
            _ => Some(self.kernel.trim()),
        }
    }
}

fn quoted(text: &str) -> String {
    if text.contains('\n') { format!("\"\"\"\n{text}\"\"\"") } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_written_as_it_is_read() {
        let record = Record::read().expect("the record");
        assert!(record.subject.iter().any(|subject| subject.name == "partitions"));
        assert_eq!(record.with(&[]), TEXT);
    }

    /// What kind of question it is, as docs/metal.md counts them; nothing for what is merely done.
    fn kind(ask: &str) -> Option<&'static str> {
        let words = ask.split_once(" = ").map_or(ask, |(_, words)| words);
        Some(match words.split(' ').next().unwrap_or_default() {
            "statistics" | "kstat-form" => "statistics",
            "tree" => "nodes",
            "dl-notify" | "dl-notes" => "notices",
            "wait" | "cable" | "close" => return None,
            word if word.starts_with("prop-") => "properties",
            word if word.starts_with("part-") || word.starts_with("port-") => "ioctls",
            _ => "requests of DLPI",
        })
    }

    #[test]
    fn the_page_says_how_much_is_compared_and_how_much_differs() {
        let page = include_str!("../../../docs/metal.md");
        let record = Record::read().expect("the record");
        let questions: Vec<&Question> = record.subject.iter().flat_map(|subject| &subject.question).collect();
        let rows = ["statistics", "nodes", "ioctls", "properties", "requests of DLPI", "notices"];
        for row in rows {
            let of_kind = questions.iter().filter(|question| kind(&question.ask) == Some(row));
            let (all, differ) =
                (of_kind.clone().count(), of_kind.filter(|question| question.lab.is_some()).count());
            let line =
                page.lines().find(|line| line.starts_with(&format!("| {row}"))).expect("a row of the page");
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!([cells[2], cells[5]], [all.to_string(), differ.to_string()], "{line}");
        }
    }

    #[test]
    fn the_lab_is_held_to_the_kernel_s_answer_unless_it_is_known_to_differ() {
        let question = |lab: Option<&str>| Question {
            ask: String::new(),
            kernel: "\nEINVAL\n".into(),
            lab: lab.map(str::to_owned),
        };
        assert_eq!(question(None).expected(Who::Lab), Some("EINVAL"));
        assert_eq!(question(Some("ok")).expected(Who::Lab), Some("ok"));
        assert_eq!(question(Some("ok")).expected(Who::Kernel), Some("EINVAL"));
        assert_eq!(question(Some(NOT_ASKED)).expected(Who::Lab), None);
    }
}
