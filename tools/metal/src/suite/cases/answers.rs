//! What the kernel answers about a link, question by question, against a record to which the lab is held as well.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, ensure};
use record::{Interview, Link, Record, Who, refusal};

use crate::machine::archive::Identity;
use crate::machine::options::Driver;
use crate::suite::bench::{Bench, CASE, Event};
use crate::suite::report::Findings;

/// A partition that nobody else has.
const LINK: u32 = 140;

fn link(bench: &Bench) -> Link {
    let driver = bench.identity.name().to_owned();
    match bench.identity {
        Identity::Ibp | Identity::Both => {
            Link { driver, id: LINK, name: format!("part{LINK}"), instance: None, own: LINK }
        }
        Identity::Ibd => {
            let side = &bench.sides[0];
            Link { driver, id: side.link, name: side.device.clone(), instance: Some(0), own: 0 }
        }
    }
}

/// Asks everything, keeps the answers beside the report, and compares them.
pub fn answers(bench: &mut Bench) -> Result<Findings> {
    let record = Record::read().context("the record")?;
    let mut interview = Interview::new(link(bench));
    let mut seen = Vec::new();
    for subject in record.subjects(bench.identity.name()) {
        let answers = interview.all(subject, |_| true, |words| answer(bench, words))?;
        let answers: Vec<String> = answers.iter().map(|answer| of_one_processor(answer)).collect();
        seen.push((subject.name.clone(), answers));
    }
    let file = bench.session.console().file().with_file_name("answers.toml");
    fs::write(&file, record.with(&seen)).with_context(|| file.display().to_string())?;
    let (mut asked, mut differences) = (0, String::new());
    for (subject, (_, answers)) in record.subjects(bench.identity.name()).zip(&seen) {
        for (question, seen) in subject.question.iter().zip(answers) {
            asked += 1;
            if let Some(expected) = question.expected(Who::Kernel).filter(|expected| expected != seen) {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    differences,
                    "{}: {}\n  record: {expected}\n  seen:   {seen}",
                    subject.name, question.ask
                );
            }
        }
    }
    // The record is of our driver; what the other one answers is kept all the same.
    let differ = differences.lines().filter(|line| line.starts_with("  record: ")).count();
    ensure!(
        differences.is_empty() || bench.driver == Driver::C,
        "{differ} of {asked} differ:\n{differences}"
    );
    Ok(Findings::new(format!("{} of {asked} as in the record", asked - differ))
        .fact("asked", asked)
        .fact("different", differences))
}

/// Without what mac makes for each further processor: where packets that came are spread.
fn of_one_processor(answer: &str) -> String {
    let further = |line: &&str| {
        let number = line.rsplit_once("_fanout").and_then(|(_, number)| number.parse::<u32>().ok());
        number.is_some_and(|number| number > 0)
    };
    answer.lines().filter(|line| !further(line)).collect::<Vec<_>>().join("\n")
}

/// One question in the words of the record.
fn answer(bench: &mut Bench, words: &str) -> Result<String> {
    match words {
        "cable off" => return bench.event(Event::PortDown, &[1]).map(|_| "ok".to_owned()),
        "cable on" => return bench.event(Event::PortUp, &[1]).map(|_| "ok".to_owned()),
        _ => {}
    }
    let adapter = format!("nodes /{}", bench.adapter);
    let words = if words == "tree" { &adapter } else { words };
    let of_a_stream = words.starts_with("dl-") || words.starts_with("open ") || words.starts_with("close ");
    // A link takes longer to come up where several processors share those of the host.
    let sleep =
        |ms: &str| ms.parse::<u32>().map_or(words.to_owned(), |ms| format!("sleep {}", ms * bench.cpus));
    let words = words.strip_prefix("wait ").map_or(words.to_owned(), sleep);
    Ok(match bench.ask(if of_a_stream { CASE } else { "0" }, &words)? {
        Ok(fields) => fields.text,
        // The call's name says nothing that was not asked.
        Err(no) => refusal(no.errno, no.what.split_once(' ').map_or("", |(_, besides)| besides)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_further_processors_are_left_out() {
        let four = "+ NAME:0:mac_rx_swlane0\n+ NAME:0:mac_rx_swlane0_fanout0\n+ NAME:0:mac_rx_swlane0_fanout3\n+ NAME:0:link";
        let one = "+ NAME:0:mac_rx_swlane0\n+ NAME:0:mac_rx_swlane0_fanout0\n+ NAME:0:link";
        assert_eq!((of_one_processor(four), of_one_processor(one)), (one.to_owned(), one.to_owned()));
        assert_eq!(of_one_processor("value=16 permission=rw"), "value=16 permission=rw");
    }
}
