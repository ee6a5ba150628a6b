//! `kstat(8)`: `-p`, which scripts read, and the plain form.

use std::time::Duration;

use fakekernel::genunix::{KstatId, KstatValue};

use crate::date;
use crate::getopt::Options;
use crate::pattern::Pattern;
use crate::session::{Exit, Failure, Session};
use crate::system::Kstat;

const OPTIONS: Options = Options { short: "?hCjpqlc:m:i:n:s:T:", long: &[], operands_end: true };

const USAGE: &str = "Usage:
kstat [ -Clpq ] [ -T d|u ] [ -c class ]
      [ -m module ] [ -i instance ] [ -n name ] [ -s statistic ]
      [ interval [ count ] ]
kstat [ -Clpq ] [ -T d|u ] [ -c class ]
      [ module[:instance[:name[:statistic]]] ... ]
      [ interval [ count ] ]
";

/// What is asked for: every part that is said must be as said.
#[derive(Clone, Default)]
struct Wanted {
    class: Option<Pattern>,
    module: Option<Pattern>,
    instance: Option<Pattern>,
    name: Option<Pattern>,
    statistic: Option<Pattern>,
}

impl Wanted {
    /// `module:instance:name:statistic`, of which the last ones may be left out, and each may be empty.
    fn parse(operand: &str, class: Option<Pattern>) -> Result<Self, Failure> {
        let mut parts = operand.split(':').map(|part| match part {
            "" => Ok(None),
            part => pattern(part).map(Some),
        });
        let mut next = || parts.next().unwrap_or(Ok(None));
        let wanted = Self { class, module: next()?, instance: next()?, name: next()?, statistic: next()? };
        if parts.next().is_some() { Err(usage("")) } else { Ok(wanted) }
    }

    fn is_of(&self, id: &KstatId) -> bool {
        matches(&self.module, &id.module)
            && matches(&self.instance, &id.instance.to_string())
            && matches(&self.name, &id.name)
    }

    /// Says any of the parts that an operand would say?
    fn is_selector(&self) -> bool {
        [&self.module, &self.instance, &self.name, &self.statistic].iter().any(|part| part.is_some())
    }
}

fn matches(pattern: &Option<Pattern>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_like(text))
}

fn pattern(text: &str) -> Result<Pattern, Failure> {
    Pattern::parse(text).map_err(|why| usage(&format!("kstat: {why}\n")))
}

/// The usage, behind what was wrong.
fn usage(why: &str) -> Failure {
    Failure { text: format!("{why}{USAGE}"), exit: Exit::USAGE }
}

#[derive(Clone, Copy, Default)]
struct Style {
    parsable: bool,
    /// A colon between a name and its value.
    colons: bool,
    quiet: bool,
    list: bool,
    stamp: Option<Stamp>,
}

/// What stands in front of each round.
#[derive(Clone, Copy)]
enum Stamp {
    Date,
    Seconds,
}

impl Stamp {
    fn parse(text: &str) -> Option<Self> {
        match text.chars().next()? {
            'd' => Some(Self::Date),
            'u' => Some(Self::Seconds),
            _ => None,
        }
    }

    fn line(self, time: Duration) -> String {
        match self {
            Self::Date => date::text(time) + "\n",
            Self::Seconds => format!("{}\n", time.as_secs()),
        }
    }
}

/// A command line.
struct Asked {
    style: Style,
    wanted: Vec<Wanted>,
    /// Between two rounds.
    interval: Duration,
    rounds: u64,
}

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    match Asked::parse(arguments).map(|asked| run(session, &asked)) {
        // Nothing that matched is told by the exit code alone.
        Ok(true) => Exit::OK,
        Ok(false) => Exit::FAILURE,
        Err(failure) => session.end(Err(failure)),
    }
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let (parsed, operands) = OPTIONS.parse(arguments);
        let (mut style, mut wanted) = (Style::default(), Wanted::default());
        for option in parsed {
            let (letter, value) = option.map_err(|_| usage(""))?;
            match letter {
                'p' => style.parsable = true,
                'C' => (style.parsable, style.colons) = (true, true),
                'q' => style.quiet = true,
                'l' => (style.parsable, style.list) = (true, true),
                'T' => style.stamp = Some(Stamp::parse(&value).ok_or_else(|| usage(""))?),
                'c' => wanted.class = Some(pattern(&value)?),
                'm' => wanted.module = Some(pattern(&value)?),
                'i' => wanted.instance = Some(pattern(&value)?),
                'n' => wanted.name = Some(pattern(&value)?),
                's' => wanted.statistic = Some(pattern(&value)?),
                'j' => return Err(usage("kstat: the lab prints no JSON (-j)\n")),
                // `h` and `?`.
                _ => return Err(Failure { exit: Exit::OK, ..usage("") }),
            }
        }
        if style.quiet && style.parsable {
            return Err(usage("-q and -lpj are mutually exclusive\n"));
        }
        Self::with_operands(style, wanted, &operands)
    }

    /// Numbers are the interval and the count, wherever they stand.
    fn with_operands(style: Style, wanted: Wanted, operands: &[String]) -> Result<Self, Failure> {
        let (mut numbers, mut selectors) = (Vec::new(), Vec::new());
        for operand in operands {
            match (operand.parse::<u64>(), numbers.len()) {
                (Err(_), _) => selectors.push(Wanted::parse(operand, wanted.class.clone())?),
                (Ok(0), 0) => return Err(usage("Interval must be an integer >= 1\n")),
                (Ok(0), 1) => return Err(usage("Count must be an integer >= 1\n")),
                (Ok(number), 0 | 1) => numbers.push(number),
                (Ok(_), _) => return Err(usage("")),
            }
        }
        if !selectors.is_empty() && wanted.is_selector() {
            let why = "[module[:instance[:name[:statistic]]]] and -m -i -n -s are mutually exclusive\n";
            return Err(usage(why));
        }
        let (interval, rounds) = match numbers[..] {
            [] => (0, 1),
            [interval] => (interval, u64::MAX),
            [interval, rounds, ..] => (interval, rounds),
        };
        let wanted = if selectors.is_empty() { vec![wanted] } else { selectors };
        Ok(Self { style, wanted, interval: Duration::from_secs(interval), rounds })
    }
}

fn run(session: &mut Session<'_>, asked: &Asked) -> bool {
    let mut rounds = asked.rounds;
    loop {
        if let Some(stamp) = asked.style.stamp {
            let line = stamp.line(session.system.time());
            session.out(line);
        }
        let found = show(session, asked.style, &asked.wanted);
        rounds -= 1;
        if !found || rounds == 0 || session.system.wait(asked.interval) {
            return found;
        }
        session.out("\n");
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
                if style.parsable { parsable(&id, &values, style) } else { plain(&id, &kstat, &values) };
            session.out(text);
        }
    }
    found
}

/// Every value as text, by name, with what the framework adds.
fn values(kstat: &Kstat) -> Vec<(String, String)> {
    let time = |time: Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
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

fn parsable(id: &KstatId, values: &[(String, String)], style: Style) -> String {
    let between = if style.colons { ':' } else { '\t' };
    let line = |(name, value): &(String, String)| {
        let name = format!("{}:{}:{}:{name}", id.module, id.instance, id.name);
        if style.list { name + "\n" } else { format!("{name}{between}{value}\n") }
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
