//! One line of the table: a probe, what is done with it, and how the lab must answer.

use fakekernel::{Config, Ctx, Errno, FaultKind, FaultPlan, Halt, LoadError, Machine, Note, Rule, Violation};

use conformance::probe::shipped;
use fabric::{Guid, HcaAttr, HcaConfig};
use lab_ibtf::InfiniBand;

use crate::bench::{ADAPTER, Bench, HOST, built, built_over_gldv3, built_over_ibtf};

/// Each case is run with this many seeds: no interleaving may hide what it does.
const SEEDS: u64 = 4;

/// How the lab answers.
#[derive(Clone, Copy)]
enum Verdict {
    /// The machine halts with the rule, in this call (or on the return from this entry point), with these words.
    Halts { call: &'static str, words: &'static str },
    /// The rule is noted for this call, and the probe runs to its end.
    Notes { call: &'static str, words: &'static str },
    /// The module's own check panics with these words: what the lab does is to put it to the test.
    Panics { words: &'static str },
    /// The object is not loaded, with these words.
    Refused { words: &'static str },
    /// The rule is not mentioned, the probe returns 0, and its module unloads.
    Keeps,
}

#[derive(Clone, Copy)]
enum Act {
    Call(&'static str),
    Steps(fn(&Bench) -> i64),
}

/// Where a probe's source is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `probes/rules`: a module that needs the kernel alone.
    Kernel,
    /// `probes/gldv3`: a driver over mac, dls and dld, and the shipped plugin.
    Gldv3,
    /// `probes/ibtl`: a client of IBTF on a host with an adapter.
    Ibtf,
}

/// A case; made by [`broken`], [`noted`], [`refused`], [`panicked`] or [`kept`].
#[derive(Clone, Copy)]
pub struct Case {
    pub rule: Rule,
    source: &'static str,
    kind: Kind,
    defines: &'static [&'static str],
    ctx: Ctx,
    fault: Option<FaultKind>,
    configure: fn(&mut Config),
    act: Act,
    verdict: Verdict,
}

/// How the machine's first thread got to its end.
enum End {
    NotLoaded(LoadError),
    NotInstalled(Errno),
    NotUnloaded(Errno),
    Returned(i64),
}

const fn case(rule: Rule, source: &'static str, verdict: Verdict) -> Case {
    let act = Act::Steps(|_| 0);
    let (kind, defines, ctx) = (Kind::Kernel, &[] as &[_], Ctx::User);
    Case { rule, source, kind, defines, ctx, fault: None, configure: |_| (), act, verdict }
}

/// The lab halts in `call`.
pub const fn broken(rule: Rule, source: &'static str, call: &'static str) -> Case {
    case(rule, source, Verdict::Halts { call, words: "" })
}

/// The lab notes `call`.
pub const fn noted(rule: Rule, source: &'static str, call: &'static str) -> Case {
    case(rule, source, Verdict::Notes { call, words: "" })
}

/// The module is not loaded.
pub const fn refused(rule: Rule, source: &'static str) -> Case {
    case(rule, source, Verdict::Refused { words: "" })
}

/// The module finds out by itself.
pub const fn panicked(rule: Rule, source: &'static str) -> Case {
    case(rule, source, Verdict::Panics { words: "" })
}

/// The lab has nothing to say.
pub const fn kept(rule: Rule, source: &'static str) -> Case {
    case(rule, source, Verdict::Keeps)
}

impl Case {
    /// Calls this function of the probe.
    pub const fn calls(mut self, probe: &'static str) -> Self {
        self.act = Act::Call(probe);
        self
    }

    /// Does this with the probe; its value must be 0.
    pub const fn does(mut self, steps: fn(&Bench) -> i64) -> Self {
        self.act = Act::Steps(steps);
        self
    }

    /// The context of the call, otherwise a user's.
    pub const fn within(mut self, ctx: Ctx) -> Self {
        self.ctx = ctx;
        self
    }

    /// What the report must say.
    pub const fn saying(mut self, said: &'static str) -> Self {
        match &mut self.verdict {
            Verdict::Halts { words, .. } | Verdict::Notes { words, .. } => *words = said,
            Verdict::Panics { words } | Verdict::Refused { words } => *words = said,
            Verdict::Keeps => {}
        }
        self
    }

    /// The probe is a GLDv3 driver.
    pub const fn over_gldv3(mut self) -> Self {
        self.kind = Kind::Gldv3;
        self
    }

    /// The probe is a client of IBTF.
    pub const fn over_ibtf(mut self) -> Self {
        self.kind = Kind::Ibtf;
        self
    }

    /// Builds the probe with macros.
    pub const fn with(mut self, defines: &'static [&'static str]) -> Self {
        self.defines = defines;
        self
    }

    /// Has every fault point of this kind fail.
    pub const fn failing(mut self, fault: FaultKind) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Changes the machine's settings.
    pub const fn configured(mut self, configure: fn(&mut Config)) -> Self {
        self.configure = configure;
        self
    }

    /// Does it break its rule?
    pub const fn breaks(&self) -> bool {
        !matches!(self.verdict, Verdict::Keeps)
    }

    /// Runs it with each seed; what went otherwise than it should.
    pub fn run(&self) -> Result<(), String> {
        (0..SEEDS).try_for_each(|seed| self.run_with(seed).map_err(|why| format!("seed {seed}: {why}")))
    }

    fn run_with(&self, seed: u64) -> Result<(), String> {
        let mut config = Config::seeded(seed);
        (self.configure)(&mut config);
        if let Some(fault) = self.fault {
            config.faults.0.insert(fault, FaultPlan::From(0));
        }
        let machine = Machine::new(config);
        let kernel = machine.add_host(HOST);
        let gldv3 = self.kind == Kind::Gldv3;
        let path = match self.kind {
            Kind::Kernel => built(self.source, self.defines),
            Kind::Gldv3 => {
                lab_gldv3::provide(&kernel);
                kernel.add_object("mac/mac_ib", &shipped("mac", "mac_ib"));
                built_over_gldv3(self.source, self.defines)
            }
            Kind::Ibtf => built_over_ibtf(self.source),
        };
        let fabric = (self.kind == Kind::Ibtf).then(|| InfiniBand::new(&machine, seed));
        let case = *self;
        let class = if gldv3 || self.source == "driver" { "drv" } else { "misc" };
        let end = machine.run(move || {
            if let Some(fabric) = &fabric {
                lab_ibtf::provide(&kernel);
                let mut config = HcaConfig::new(Guid(ADAPTER as u64), 1);
                config.attr = HcaAttr::with_offloads();
                fabric.add_hca(&kernel, config).expect("the only one");
            }
            kernel.scope(|| {
                kernel.add_major(case.source);
                let module = match kernel.load(&path, case.source, class) {
                    Ok(module) => module,
                    Err(error) => return End::NotLoaded(error),
                };
                if let Err(error) = module.install() {
                    return End::NotInstalled(error);
                }
                let bench = Bench { kernel: kernel.clone(), module: module.clone() };
                let value = match case.act {
                    Act::Call(probe) => module.call_probe(probe, Some(case.ctx), 0),
                    Act::Steps(steps) => steps(&bench),
                };
                match module.unload() {
                    Ok(()) => End::Returned(value),
                    Err(error) => End::NotUnloaded(error),
                }
            })
        });
        self.judge(end, &machine.notes())
    }

    fn judge(&self, end: Result<End, Halt>, notes: &[Note]) -> Result<(), String> {
        match (self.verdict, end) {
            (Verdict::Halts { call, words }, Err(Halt::Violation(violation))) => {
                self.judge_violation(&violation, call, words)
            }
            (Verdict::Panics { words }, Err(Halt::Panic(panic))) => {
                let named = panic.module == self.source && panic.message.contains(words);
                named.then_some(()).ok_or_else(|| format!("another panic: {panic}"))
            }
            (Verdict::Refused { words }, Ok(End::NotLoaded(error))) => {
                let said = error.to_string();
                said.contains(words).then_some(()).ok_or_else(|| format!("{words:?} is not in {said:?}"))
            }
            (Verdict::Notes { call, words }, Ok(End::Returned(0))) => self.judge_notes(notes, call, words),
            (Verdict::Keeps, Ok(End::Returned(0))) => {
                match notes.iter().find(|note| note.rule == self.rule) {
                    Some(note) => Err(format!("noted: {note:?}")),
                    None => Ok(()),
                }
            }
            (_, Err(halt)) => Err(format!("it halted: {halt}")),
            (_, Ok(End::Returned(value))) => Err(format!("nothing was said, and the probe returned {value}")),
            (_, Ok(End::NotLoaded(error))) => Err(format!("it was not loaded: {error}")),
            (_, Ok(End::NotInstalled(error))) => Err(format!("it was not installed: {error}")),
            (_, Ok(End::NotUnloaded(error))) => Err(format!("it was not unloaded: {error}")),
        }
    }

    fn judge_violation(&self, violation: &Violation, call: &str, words: &str) -> Result<(), String> {
        let named = violation.rule == self.rule && violation.module == self.source && violation.call == call;
        if !named || violation.host != HOST || !violation.detail.contains(words) {
            return Err(format!(
                "wanted {} of {} in {call}, saying {words:?}; was: {violation}",
                self.rule, self.source
            ));
        }
        Ok(())
    }

    fn judge_notes(&self, notes: &[Note], call: &str, words: &str) -> Result<(), String> {
        let mine = |note: &&Note| note.rule == self.rule && note.module == self.source && note.call == call;
        let found = notes
            .iter()
            .find(mine)
            .is_some_and(|note| note.suppressed.is_none() && note.detail.contains(words));
        found
            .then_some(())
            .ok_or_else(|| format!("no note of {} for {call} saying {words:?}: {notes:?}", self.rule))
    }
}

/// Makes a table of the cases and a test of each.
macro_rules! cases {
    ($($name:ident: $case:expr;)*) => {
        pub const CASES: &[(&str, $crate::case::Case)] = &[$((stringify!($name), $case),)*];

        $(#[test]
        fn $name() {
            let case = $case;
            case.run().unwrap_or_else(|why| panic!("{why}"));
        })*
    };
}
pub(crate) use cases;
