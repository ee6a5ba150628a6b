//! What a real kernel was seen to answer about a link (`metal run --case answers`) the lab answers as well, or in its own way where that is
//! known.

mod links;
mod statistics;
mod streams;

use std::collections::BTreeMap;

use fabric::{Guid, LinkSpeed, PKey, PortConfig};
use fakekernel::{Errno, Nanos};
use record::{Interview, Link, Record, Subject, Who, refusal};
use sm::Partition;
use sm::partition::{GroupParams, Membership, Ports};

use crate::bench::{Bench, Driver, Host, LINK, Setup, partition};
use streams::Opened;

/// The least that is waited where the record waits: in some orders of threads a link asks before `ibcm` has heard that its port is active
/// (docs/fidelity.md), and asks again after a second.
const PATIENCE: Nanos = Nanos::from_secs(3);

/// Who answers: a host, in the words of the record.
struct Lab<'a> {
    bench: &'a Bench,
    host: &'a Host,
    /// The link that is asked about.
    link: Link,
    /// The lab's ids of the links that the record knows by a number.
    ids: BTreeMap<u32, u32>,
    streams: Vec<Option<Opened>>,
}

/// An answer, or a refusal as the record has it.
type Answer = Result<String, String>;

/// Why a question of the record's was not understood; the record is wrong then, or this file.
fn unknown(words: &[&str]) -> Answer {
    panic!("nobody here understands {words:?}")
}

fn of(errno: Errno) -> String {
    refusal(errno.0 as u32, "")
}

fn number(word: &str) -> u32 {
    let parsed =
        word.strip_prefix("0x").map_or_else(|| word.parse(), |digits| u32::from_str_radix(digits, 16));
    parsed.unwrap_or_else(|_| panic!("{word} is no number"))
}

impl Lab<'_> {
    fn answer(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[0] {
            "kstats" | "kstat-form" | "tree" => self.about_the_host(&words),
            "cable" => Ok(self.cable(words[1] == "on")),
            "wait" => {
                fakekernel::sleep(PATIENCE.max(Nanos::from_millis(number(words[1]).into())));
                Ok(String::new())
            }
            "open" | "close" => self.open_or_close(&words),
            word if word.starts_with("dl-") => self.about_a_stream(&words),
            word if word.starts_with("prop-") => self.about_a_property(&words),
            _ => self.about_partitions(&words),
        };
        answer.unwrap_or_else(|refused| refused)
    }

    fn cable(&self, plugged: bool) -> String {
        // Whoever asks a real kernel takes longer than an answer of the SA: no leave is lost that went before.
        self.bench.settle();
        assert!(self.bench.world.set_cable(self.host.port(), plugged), "the port is there");
        fakekernel::sleep(Nanos::from_millis(500));
        String::new()
    }
}

/// What the record says and the lab does not, as a person reads it.
fn differences(subject: &Subject, seen: &[String]) -> Vec<String> {
    let pairs = subject.question.iter().zip(seen);
    let differs = pairs.filter(|(question, seen)| {
        question.expected(Who::Lab).is_some_and(|expected| expected != seen.as_str())
    });
    differs
        .map(|(question, seen)| {
            format!("{}: {}\n  kernel: {}\n  lab:    {seen}", subject.name, question.ask, question.kernel)
        })
        .collect()
}

fn hold(bench: &Bench, link: Link) {
    let record = Record::read().expect("the record");
    let mut interview = Interview::new(link.clone());
    let mut lab =
        Lab { bench, host: &bench.alpha, link: link.clone(), ids: BTreeMap::new(), streams: Vec::new() };
    let mut different = Vec::new();
    for subject in record.subjects(&link.driver) {
        let asked = |index: usize| subject.question[index].expected(Who::Lab).is_some();
        let seen =
            interview.all(subject, asked, |words| Ok::<_, std::convert::Infallible>(lab.answer(words)));
        let Ok(seen) = seen;
        different.extend(differences(subject, &seen));
    }
    assert!(different.is_empty(), "{} answers differ:\n{}", different.len(), different.join("\n"));
    lab.forget_ids();
}

/// The adapter of the real kernel's machine, `swhca`: two ports, 4x QDR.
fn adapter(config: &mut fabric::HcaConfig) {
    (config.attr.vendor_id, config.attr.device_id, config.attr.version_id) = (0x02_5357, 1, 1);
    let second = Guid(config.guid.0 + 2);
    config.ports.push(PortConfig::new(second));
    for port in &mut config.ports {
        port.speed = LinkSpeed::Qdr;
    }
}

/// And its subnet: a second partition of which all are members.
fn subnet(bench: &Bench) {
    let second = Partition::new("second", sm::PKey(0x8001)).with_members(Ports::All, Membership::Full);
    bench.sm.set_partitions(vec![partition(true), second.with_ipoib(GroupParams::default())]);
    bench.settle();
}

fn setup(driver: Driver) -> Setup {
    Setup { driver, hca: adapter, seeds: 2, ..Setup::default() }
}

#[test]
fn the_lab_answers_about_a_partition_as_a_kernel_was_seen_to() {
    setup(Driver::Ibp).run(|bench| {
        subnet(bench);
        let second = Guid(bench.alpha.port().0 + 1);
        bench.alpha.attach_port(second);
        bench.alpha.try_delete_partition().expect("nobody uses it");
        hold(bench, Link { driver: "ibp".into(), id: 140, name: "part140".into(), instance: None, own: 140 });
    });
}

#[test]
fn the_lab_answers_about_a_link_of_the_nexus_as_a_kernel_was_seen_to() {
    setup(Driver::Ibd).run(|bench| {
        subnet(bench);
        let (first, second) = (bench.alpha.port(), Guid(bench.alpha.port().0 + 1));
        for (port, pkey) in [(first, 0x8001), (second, 0xffff), (second, 0x8001)] {
            bench.alpha.attach_node(port, PKey(pkey));
        }
        hold(bench, Link { driver: "ibd".into(), id: 1, name: LINK.into(), instance: Some(0), own: 0 });
    });
}
