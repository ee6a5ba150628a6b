//! Events in the middle of what a driver does: they wait for a call that its modules make.
//!
//! Most of what a driver has to be right about happens between two of its calls, where no time goes by: an event at an instant is there by
//! luck. One that waits for a call is there whenever the call is made.

use rand::RngExt;

use super::{Generator, at};
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Call, TimedEvent};

/// What is called when a link, its queues and its groups come and go.
const CONTROL: [&str; 52] = [
    "callb_generic_cpr",
    "cv_broadcast",
    "cv_signal",
    "cv_timedwait",
    "cv_wait",
    "ddi_add_softintr",
    "ddi_remove_softintr",
    "desballoc",
    "dls_devnet_create",
    "dls_devnet_destroy",
    "ibt_alloc_cq",
    "ibt_alloc_pd",
    "ibt_alloc_ud_channel",
    "ibt_alloc_ud_dest",
    "ibt_attach_mcg",
    "ibt_close_hca",
    "ibt_deregister_mr",
    "ibt_detach",
    "ibt_detach_mcg",
    "ibt_enable_cq_notify",
    "ibt_flush_channel",
    "ibt_free_channel",
    "ibt_free_cq",
    "ibt_free_pd",
    "ibt_free_ud_dest",
    "ibt_get_paths",
    "ibt_join_mcg",
    "ibt_leave_mcg",
    "ibt_map_mem_iov",
    "ibt_modify_ud_channel",
    "ibt_modify_ud_dest",
    "ibt_open_hca",
    "ibt_query_hca",
    "ibt_query_hca_ports",
    "ibt_query_mcg",
    "ibt_query_ud_channel",
    "ibt_recycle_ud",
    "ibt_register_mr",
    "ibt_register_part_attr_cb",
    "ibt_register_subnet_notices",
    "ibt_set_cq_handler",
    "ibt_unmap_mem_iov",
    "kmem_free",
    "kstat_delete",
    "kstat_install",
    "mac_link_update",
    "mac_maxsdu_update2",
    "mac_register",
    "mac_unicst_update",
    "mac_unregister",
    "thread_create",
    "thread_join",
];
/// What is called for packets, and where threads meet.
const BUSY: [&str; 10] = [
    "ddi_trigger_softintr",
    "freemsg",
    "ibt_poll_cq",
    "ibt_post_recv",
    "ibt_post_send",
    "kmem_zalloc",
    "mac_rx",
    "mac_tx_update",
    "mutex_enter",
    "mutex_exit",
];
/// The most calls of one kind that a timeline is expected to have, of each table.
const MOST: [f64; 2] = [8.0, 500.0];

impl Generator<'_> {
    /// In half of all timelines some events wait for calls, and others are added that come in the middle of what an event sets off.
    pub(super) fn moments(&mut self, trouble: &mut TroubleStep) {
        if trouble.event.is_empty() || self.rng.random() {
            return;
        }
        for _ in 0..self.pick(&[1, 1, 2, 3]) {
            let n = self.rng.random_range(0..trouble.event.len());
            let host = trouble.event[n].event.host().map(|host| host.get_ref().clone());
            let host = host.unwrap_or_else(|| self.any_host());
            let call = Some(self.call(host.clone()));
            let from = *trouble.event[n].at_us.get_ref();
            if self.rng.random() {
                trouble.event[n].on = call;
            } else {
                let event = TimedEvent { on: call, ..TimedEvent::new(from, self.pair().0) };
                trouble.event.insert(n + 1, event);
            }
            if self.rng.random_range(0..3) > 0 {
                self.keep_busy(trouble, from, host);
            }
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }

    fn call(&mut self, host: String) -> Call {
        let (call, most) = if self.rng.random_range(0..4) > 0 {
            (self.pick(&CONTROL), MOST[0])
        } else {
            (self.pick(&BUSY), MOST[1])
        };
        // As many of each order of magnitude: the first ones are the rare ones.
        let pass = self.rng.random_range(0.0..most.ln()).exp() as u32;
        Call {
            host: at(host),
            call: call.to_owned(),
            pass: pass.max(1),
            holds_us: self.pick(&[0, 20, 200, 2_000, 2_000, 20_000]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY, CONTROL};
    use crate::campaign::Search;
    use crate::scenario::Step;

    #[test]
    fn every_call_of_the_table_is_waited_for_in_a_few_thousand_schedules() {
        let mut left: Vec<&str> = CONTROL.into_iter().chain(BUSY).collect();
        for index in 0..4_000 {
            for step in &Search::Schedules.scenario(1, index).step {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                for call in trouble.event.iter().filter_map(|timed| timed.on.as_ref()) {
                    left.retain(|name| *name != call.call);
                }
            }
        }
        assert_eq!(left, [""; 0]);
    }
}
