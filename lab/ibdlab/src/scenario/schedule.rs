//! `[schedule]`: how the threads of a run in virtual time are interleaved.

use std::str::FromStr;

use fakekernel::{Config, Decision, Strategy};
use serde::{Deserialize, Serialize};

use super::range;

/// How threads are interleaved; the seed decides the rest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Any thread that can run goes on, now and then.
    Random(RandomSchedule),
    /// The thread of the highest priority goes on, and now and then one falls below all others.
    Priorities(PrioritySchedule),
    /// Each thread in turn.
    Turns(TurnSchedule),
    /// As it was decided in another run.
    Replay(Vec<DecisionText>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSchedule {
    /// A thread passes so many kernel calls on average before another one may go on.
    #[serde(deserialize_with = "range::one_in")]
    pub one_in: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrioritySchedule {
    /// How often the thread that runs falls.
    #[serde(deserialize_with = "range::changes")]
    pub changes: u32,
    /// Among how many kernel calls, from the beginning of the run.
    #[serde(deserialize_with = "range::within_calls")]
    pub within: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TurnSchedule {
    /// Kernel calls of a turn.
    #[serde(deserialize_with = "range::turn_calls")]
    pub calls: u32,
}

/// `THREAD STEP next|switch|off|spurious NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct DecisionText(pub Decision);

impl TryFrom<String> for DecisionText {
    type Error = <Decision as FromStr>::Err;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl From<DecisionText> for String {
    fn from(text: DecisionText) -> Self {
        text.0.to_string()
    }
}

impl Schedule {
    /// The settings of a machine, with this schedule.
    pub fn of(&self, config: Config) -> Config {
        match self {
            Self::Random(random) => Config { switch_one_in: random.one_in, ..config },
            Self::Priorities(PrioritySchedule { changes, within }) => {
                Config { strategy: Strategy::Priorities { changes: *changes, within: *within }, ..config }
            }
            Self::Turns(turns) => Config { strategy: Strategy::Turns(turns.calls), ..config },
            Self::Replay(decisions) => {
                let decisions: Vec<Decision> = decisions.iter().map(|text| text.0).collect();
                Config { strategy: Strategy::Replay(decisions.into()), ..config }
            }
        }
    }

    /// Its name in a table of what found something.
    pub fn kind(&self) -> String {
        match self {
            Self::Random(random) => format!("random, one in {}", random.one_in),
            Self::Priorities(priorities) => format!("priorities, {} changes", priorities.changes),
            Self::Turns(turns) => format!("turns of {}", turns.calls),
            Self::Replay(_) => "replay".to_owned(),
        }
    }
}
