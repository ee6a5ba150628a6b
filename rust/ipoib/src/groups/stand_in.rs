//! Which of the two all-routers groups the SA has refused a while ago: it does not stand in for the groups that are not there.

use crate::addr::{Mgid, Signature};
use crate::time::Instant;

/// Until when each is taken for absent: of IPv4 and of IPv6.
#[derive(Debug, Default)]
pub(super) struct Absent([Option<(Mgid, Instant)>; 2]);

impl Absent {
    /// The SA has refused this all-routers group.
    pub(super) fn note(&mut self, routers: Mgid, until: Instant) {
        if let Some(place) = self.place(routers) {
            *place = Some((routers, until));
        }
    }

    /// A group is there.
    pub(super) fn forget(&mut self, group: Mgid) {
        if let Some(place) = self.place(group)
            && place.is_some_and(|(routers, _)| routers == group)
        {
            *place = None;
        }
    }

    pub(super) fn contains(&mut self, now: Instant, routers: Mgid) -> bool {
        let noted = self.place(routers).and_then(|place| *place);
        noted.is_some_and(|(absent, until)| absent == routers && now < until)
    }

    fn place(&mut self, group: Mgid) -> Option<&mut Option<(Mgid, Instant)>> {
        let [of_ipv4, of_ipv6] = &mut self.0;
        Some(match group.signature()? {
            Signature::Ipv4 => of_ipv4,
            Signature::Ipv6 => of_ipv6,
        })
    }
}
