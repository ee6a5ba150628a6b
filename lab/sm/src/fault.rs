//! What a subnet administrator may be told to do wrong.

pub use crate::garbled::Garbled;
pub use crate::lie::Lie;
use crate::mad::{Attribute, Method, SaMad, Status};
use crate::types::{Lid, Nanos};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// No answer; the request has no effect.
    Silent,
    /// The request takes effect, and its answer is lost.
    LoseAnswer,
    /// The request takes effect now, and is answered this much later.
    Delay(Nanos),
    /// Refused with this status, without effect.
    Refuse(Status),
    /// Not answered but sent on: to QP 1 at this LID.
    Redirect(Lid),
    /// Answered with success and no record: a query finds nothing, a join is not made. A leave is, as nobody could know better.
    Empty,
    /// The request takes effect and is answered, and something in the answer is wrong.
    Lie(Lie),
    /// The request takes effect, and the segments of its answer are not as they should be; an answer of one MAD is.
    Garble(Garbled),
    /// The request takes effect and is answered, with other bytes in every record.
    Overwrite {
        /// Where in the record, as it is on the wire.
        at: usize,
        /// What stands there. Nothing is written where it does not fit.
        bytes: &'static [u8],
    },
}

/// One thing to do wrong. What is `None` matches anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Only requests of this attribute.
    pub attribute: Option<Attribute>,
    /// Only requests with this method.
    pub method: Option<Method>,
    /// Only requests from this LID.
    pub from: Option<Lid>,
    /// From when on.
    pub start: Nanos,
    /// Until when; `None` for ever.
    pub end: Option<Nanos>,
    /// How often; `None` for any number of requests.
    pub count: Option<u32>,
    /// What happens.
    pub action: FaultAction,
}

impl Fault {
    /// `action` for every request, for ever; narrow it by setting fields.
    pub const fn always(action: FaultAction) -> Self {
        Self { attribute: None, method: None, from: None, start: Nanos(0), end: None, count: None, action }
    }

    fn matches(&self, now: Nanos, from: Lid, mad: &SaMad) -> bool {
        self.attribute.is_none_or(|attribute| attribute == mad.attribute)
            && self.method.is_none_or(|method| method == mad.method)
            && self.from.is_none_or(|lid| lid == from)
            && now >= self.start
            && self.end.is_none_or(|end| now < end)
            && self.count != Some(0)
    }
}

/// Faults in order; the first that matches a request decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultScript {
    /// Each with the number of requests that it has met.
    faults: Vec<(Fault, u64)>,
}

impl FaultScript {
    /// A script of `faults`.
    pub fn new(faults: Vec<Fault>) -> Self {
        Self { faults: faults.into_iter().map(|fault| (fault, 0)).collect() }
    }

    /// Adds one behind the others.
    pub fn push(&mut self, fault: Fault) {
        self.faults.push((fault, 0));
    }

    /// Adds one in front of the others.
    pub fn push_front(&mut self, fault: Fault) {
        self.faults.insert(0, (fault, 0));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.faults.clear();
    }

    /// How many requests each fault has met, in order.
    pub fn hits(&self) -> impl Iterator<Item = u64> {
        self.faults.iter().map(|(_, hits)| *hits)
    }

    /// What to do with a request; counts it.
    pub fn decide(&mut self, now: Nanos, from: Lid, mad: &SaMad) -> Option<FaultAction> {
        let (fault, hits) = self.faults.iter_mut().find(|(fault, _)| fault.matches(now, from, mad))?;
        *hits += 1;
        if let Some(count) = &mut fault.count {
            *count -= 1;
        }
        Some(fault.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_that_matches_decides_and_wears_out() {
        let mut script = FaultScript::new(vec![
            Fault {
                attribute: Some(Attribute::PATH_RECORD),
                count: Some(1),
                ..Fault::always(FaultAction::Silent)
            },
            Fault {
                start: Nanos(10),
                end: Some(Nanos(20)),
                ..Fault::always(FaultAction::Refuse(Status::BUSY))
            },
        ]);
        let path = SaMad::request(Method::GET_TABLE, Attribute::PATH_RECORD, 1, 0);
        assert_eq!(script.decide(Nanos(0), Lid(1), &path), Some(FaultAction::Silent));
        assert_eq!(script.decide(Nanos(0), Lid(1), &path), None);
        assert_eq!(script.decide(Nanos(10), Lid(1), &path), Some(FaultAction::Refuse(Status::BUSY)));
        assert_eq!(script.decide(Nanos(20), Lid(1), &path), None);
        assert_eq!(script.hits().collect::<Vec<_>>(), [1, 1]);
    }
}
