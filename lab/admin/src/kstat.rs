//! `kstat(8)`: `-p`, which scripts read, and the plain form.

use fakekernel::genunix::{KstatId, KstatValue};

use crate::getopt::Options;
use crate::session::{Exit, Failure, Session};
use crate::system::Kstat;

const OPTIONS: Options = Options { short: "pqlc:m:i:n:s:T:", long: &[], operands_end: true };

const USAGE: &str = "Usage:
kstat [ -qlp ] [ -T d|u ] [ -c class ]
      [ -m module ] [ -i instance ] [ -n name ] [ -s statistic ]
      [ interval [ count ] ]
kstat [ -qlp ] [ -T d|u ] [ -c class ]
      [ module:instance:name:statistic ... ]
      [ interval [ count ] ]
";

/// What is asked for: every part that is said must be as said.
#[derive(Clone, Default)]
struct Wanted {
    class: Option<String>,
    module: Option<String>,
    instance: Option<String>,
    name: Option<String>,
    statistic: Option<String>,
}

impl Wanted {
    fn parse(operand: &str, class: Option<String>) -> Option<Self> {
        let mut parts = operand.split(':').map(|part| (!part.is_empty()).then(|| part.to_owned()));
        let wanted = Self {
            class,
            module: parts.next().flatten(),
            instance: parts.next().flatten(),
            name: parts.next().flatten(),
            statistic: parts.next().flatten(),
        };
        parts.next().is_none().then_some(wanted)
    }

    fn is_of(&self, id: &KstatId) -> bool {
        matches(&self.module, &id.module)
            && matches(&self.instance, &id.instance.to_string())
            && matches(&self.name, &id.name)
    }
}

fn matches(pattern: &Option<String>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| is_like(pattern.as_bytes(), text.as_bytes()))
}

/// Whether a text is like a pattern of the shell, with `*` and `?`.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut to) = (0, 0);
    // Behind the last `*`, and where what stands there was tried. An earlier `*` need not be tried again: the last one can take
    // whatever it would have taken more.
    let mut last: Option<(usize, usize)> = None;
    while to < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                last = Some((at, to));
            }
            Some(one) if *one == b'?' || *one == text[to] => (at, to) = (at + 1, to + 1),
            _ => {
                let Some((behind, tried)) = last else { return false };
                (at, to) = (behind, tried + 1);
                last = Some((at, to));
            }
        }
    }
    pattern[at..].iter().all(|one| *one == b'*')
}

#[derive(Clone, Copy, Default)]
struct Style {
    parsable: bool,
    quiet: bool,
    list: bool,
}

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    match run(session, arguments) {
        // Nothing that matched is told by the exit code alone.
        Ok(true) => Exit::OK,
        Ok(false) => Exit::FAILURE,
        Err(failure) => session.end(Err(failure)),
    }
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Result<bool, Failure> {
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::USAGE };
    let (parsed, mut operands) = OPTIONS.parse(arguments);
    let (mut style, mut wanted) = (Style::default(), Wanted::default());
    for option in parsed {
        let (letter, value) = option.map_err(|_| usage())?;
        match letter {
            'p' => style.parsable = true,
            'q' => style.quiet = true,
            'l' => (style.parsable, style.list) = (true, true),
            'c' => wanted.class = Some(value),
            'm' => wanted.module = Some(value),
            'i' => wanted.instance = Some(value),
            'n' => wanted.name = Some(value),
            's' => wanted.statistic = Some(value),
            _ => return Err(usage()),
        }
    }
    let number = |text: &String| text.parse::<u64>().ok().filter(|number| *number > 0);
    let mut repeat = Vec::new();
    while let Some(last) = operands.last().and_then(number).filter(|_| repeat.len() < 2) {
        repeat.insert(0, last);
        operands.pop();
    }
    let all = if operands.is_empty() {
        vec![wanted]
    } else {
        let class = wanted.class;
        operands
            .iter()
            .map(|operand| Wanted::parse(operand, class.clone()).ok_or_else(usage))
            .collect::<Result<_, _>>()?
    };
    let mut rounds = match repeat[..] {
        [] => 1,
        [_] => u64::MAX,
        [_, count, ..] => count,
    };
    loop {
        let found = show(session, style, &all);
        rounds -= 1;
        if !found || rounds == 0 || session.system.wait(std::time::Duration::from_secs(repeat[0])) {
            return Ok(found);
        }
        if style.parsable && !style.quiet {
            session.out("\n");
        }
    }
}

fn show(session: &mut Session<'_>, style: Style, wanted: &[Wanted]) -> bool {
    let mut found = false;
    for id in session.system.kstats() {
        let asked: Vec<&Wanted> = wanted.iter().filter(|wanted| wanted.is_of(&id)).collect();
        if asked.is_empty() {
            continue;
        }
        // One that goes meanwhile is not there.
        let Ok(kstat) = session.system.read_kstat(&id) else { continue };
        let is_asked = |name: &str| {
            asked
                .iter()
                .any(|wanted| matches(&wanted.class, &kstat.class) && matches(&wanted.statistic, name))
        };
        let values: Vec<(String, String)> =
            values(&kstat).into_iter().filter(|(name, _)| is_asked(name)).collect();
        found |= !values.is_empty();
        if !style.quiet && !values.is_empty() {
            let text =
                if style.parsable { parsable(&id, &values, style.list) } else { plain(&id, &kstat, &values) };
            session.out(text);
        }
    }
    found
}

/// Every value as text, by name, with what the framework adds.
fn values(kstat: &Kstat) -> Vec<(String, String)> {
    let time = |time: std::time::Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    let mut values: Vec<(String, String)> = kstat
        .values
        .iter()
        .map(|(name, value)| {
            let text = match value {
                KstatValue::Text(text) => text.clone(),
                KstatValue::I32(value) => value.to_string(),
                KstatValue::U32(value) => value.to_string(),
                KstatValue::I64(value) => value.to_string(),
                KstatValue::U64(value) => value.to_string(),
            };
            (name.clone(), text)
        })
        .collect();
    values.push(("class".into(), kstat.class.clone()));
    values.push(("crtime".into(), time(kstat.created)));
    values.push(("snaptime".into(), time(kstat.read)));
    values.sort();
    values
}

fn parsable(id: &KstatId, values: &[(String, String)], list: bool) -> String {
    let line = |(name, value): &(String, String)| {
        let name = format!("{}:{}:{}:{name}", id.module, id.instance, id.name);
        if list { name + "\n" } else { format!("{name}\t{value}\n") }
    };
    values.iter().map(line).collect()
}

fn plain(id: &KstatId, kstat: &Kstat, values: &[(String, String)]) -> String {
    let mut text = format!("module: {:<30}  instance: {:<6}\n", id.module, id.instance);
    text += &format!("name:   {:<30}  class:    {:<10}\n", id.name, kstat.class);
    for (name, value) in values.iter().filter(|(name, _)| name != "class") {
        text += &format!("\t{name:<30}  {value}\n");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_many_stars_is_answered_at_once() {
        let like = |pattern: &str, text: &str| is_like(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("ibp", "ibp"),
            ("i*p?000", "ibp1000"),
            ("*.ibp0", "p8001.ibp0.ibp0"),
            ("link_*a*", "link_state"),
            ("**?**", "x"),
        ] {
            assert!(like(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "x"), ("?", ""), ("ibp", "ibp0"), ("*0", "ibp1"), ("i?p*1", "ibbp1")] {
            assert!(!like(pattern, text), "{pattern} {text}");
        }
        assert!(!like(&("*a".repeat(60) + "b"), &"a".repeat(120)));
    }
}
