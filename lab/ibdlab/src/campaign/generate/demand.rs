//! Calls and requests for what fails: a call that is made to fail and an administrator that does not answer are nothing if nobody calls
//! and nobody asks meanwhile.

use rand::RngExt;

use super::{Generator, at};
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Event, GroupOf, HcaGoes, OnHost, SaRequest, TimedEvent};

/// How long after the failure begins somebody calls, at most, in microseconds.
const SOON_US: u64 = 3_000;

impl Generator<'_> {
    /// After most of what makes calls and requests fail something happens that makes a host's driver call and ask.
    pub(super) fn demand(&mut self, trouble: &mut TroubleStep) {
        let causes: Vec<Cause> = trouble.event.iter().filter_map(cause).collect();
        for Cause { from, host, call } in causes {
            if self.rng.random_range(0..4) == 0 {
                continue;
            }
            let host = host.unwrap_or_else(|| self.any_host());
            let work = self.work_with(call, host);
            self.set_to_work(trouble, from, work);
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }

    /// Soon after that instant the driver of a host has something to do.
    pub(super) fn keep_busy(&mut self, trouble: &mut TroubleStep, from: u64, host: String) {
        let work = self.work(host);
        self.set_to_work(trouble, from, work);
    }

    fn set_to_work(&mut self, trouble: &mut TroubleStep, from: u64, work: Vec<Event>) {
        let mut when = from;
        for event in work {
            when = (when + self.rng.random_range(0..=SOON_US)).min(self.within_us);
            trouble.event.push(TimedEvent::new(when, event));
        }
    }

    /// What makes the driver of a host make this call, as far as that is known.
    fn work_with(&mut self, call: &str, host: String) -> Vec<Event> {
        let on = OnHost::named(&host);
        match call {
            "ibt_attach"
            | "ibt_open_hca"
            | "ibt_alloc_pd"
            | "ibt_alloc_cq"
            | "ibt_alloc_ud_channel"
            | "ibt_register_mr"
            | "ibt_modify_cq"
            | "ibt_query_hca_ports"
            | "ibt_query_ud_channel"
            | "ddi"
            | "taskq" => {
                vec![Event::Unload(on.clone()), Event::Load(on)]
            }
            "ibt_attach_mcg" | "ibt_join_mcg" | "ibt_query_mcg" if self.rng.random() => self.membership(host),
            "ibt_attach_mcg" | "ibt_join_mcg" | "ibt_query_mcg" => {
                vec![Event::PortDown(on.clone()), Event::PortUp(on)]
            }
            "ibt_get_paths" | "ibt_alloc_ud_dest" | "ibt_modify_ud_dest" if self.rng.random() => {
                vec![Event::LinkClose(on.clone()), Event::LinkOpen(on)]
            }
            "ibt_get_paths" | "ibt_alloc_ud_dest" | "ibt_modify_ud_dest" => vec![self.sm_restart()],
            "ibt_post_recv" | "ibt_enable_cq_notify" => vec![Event::QpBreaks(on)],
            _ => self.work(host),
        }
    }

    /// A group that is left again hides whether it was ever heard, so half of them are not.
    fn membership(&mut self, host: String) -> Vec<Event> {
        let of = GroupOf { host: at(host), group: at(self.any_group()) };
        let mut events = vec![Event::GroupJoin(of.clone())];
        if self.rng.random() {
            events.push(Event::GroupLeave(of));
        }
        events
    }

    /// What makes the driver of a host build its queues, ask the administrator, or both.
    fn work(&mut self, host: String) -> Vec<Event> {
        let on = OnHost::named(&host);
        match self.rng.random_range(0..9) {
            0 => vec![Event::QpBreaks(on)],
            1 => vec![Event::LinkClose(on.clone()), Event::LinkOpen(on)],
            2 => vec![Event::Unload(on.clone()), Event::Load(on)],
            3 => vec![Event::PortDown(on.clone()), Event::PortUp(on)],
            4 => vec![Event::PkeyRemoved(on), self.pkey_added(&host)],
            5 => vec![Event::HcaRemoved(HcaGoes::pulled(&host)), Event::HcaAdded(on)],
            6 => vec![Event::PathAsk(on)],
            7 => vec![self.sm_restart()],
            _ => self.membership(host),
        }
    }
}

/// A failure that somebody has to meet.
struct Cause {
    /// When it begins.
    from: u64,
    host: Option<String>,
    /// The call that fails.
    call: &'static str,
}

fn cause(timed: &TimedEvent) -> Option<Cause> {
    let (host, call) = match &timed.event {
        Event::AllocationFails(fails) => (Some(&fails.host), fails.kind.kind().0),
        Event::Sa(sa) => (sa.from.as_ref(), sa.to.map_or("", request)),
        _ => return None,
    };
    Some(Cause { from: *timed.at_us.get_ref(), host: host.map(|host| host.get_ref().clone()), call })
}

/// The call that asks for it.
const fn request(request: SaRequest) -> &'static str {
    match request {
        SaRequest::Path => "ibt_get_paths",
        SaRequest::Join | SaRequest::Leave => "ibt_join_mcg",
        SaRequest::ListGroups => "ibt_query_mcg",
        SaRequest::Subscribe => "ibt_attach",
    }
}
