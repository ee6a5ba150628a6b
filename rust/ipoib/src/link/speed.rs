//! How fast a port is whose own codes end before it does.
//!
//! What IBTF passes on of PortInfo knows lanes of 2.5, 5 and 10 Gb/s, and a faster one says 10. The codes for the rate of a path go
//! on: the way from the port to itself is as fast as the port. Asked once the link is up, and again when the port was asked anew
//! and the SA has not told yet.

use super::Port;
use crate::Gid;
use crate::numbers::Rate;

/// What the SA was asked and has said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speed {
    /// The port's GID that was asked about, since the port was last asked or the SA has told.
    asked: Option<Gid>,
    told: Option<(Gid, u64)>,
}

impl Speed {
    /// Payload bits per second; 0 if nobody tells.
    pub(super) fn of(&self, port: &Port) -> u64 {
        let told = self.told.filter(|(gid, _)| port.speed_is_least && *gid == port.gid);
        told.map_or(port.speed, |(_, told)| told.max(port.speed))
    }

    /// Whose rate to ask about, if the SA is to be asked.
    pub(super) fn question(&mut self, port: &Port) -> Option<Gid> {
        let known = |(gid, _): (Gid, u64)| gid == port.gid;
        if !port.speed_is_least || self.asked == Some(port.gid) || self.told.is_some_and(known) {
            return None;
        }
        self.asked = Some(port.gid);
        self.asked
    }

    /// The SA's answer.
    pub(super) fn answered(&mut self, gid: Gid, rate: Option<Rate>) {
        if let Some(rate) = rate.filter(|_| self.asked == Some(gid)) {
            self.told = Some((gid, rate.bits_per_second()));
        }
    }

    /// The port was asked. One that was down may come back with another speed.
    pub(super) fn port_answered(&mut self, port: Option<&Port>) {
        self.asked = None;
        if !port.is_some_and(|port| port.active) {
            self.told = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Mtu;

    const QDR: u64 = 32_000_000_000;
    const FDR: Rate = Rate::from_code(12).unwrap();

    fn port(guid: u64, speed_is_least: bool) -> Port {
        Port {
            active: true,
            gid: Gid { prefix: 0xfe80 << 48, guid },
            lid: 1,
            lmc: 0,
            sm_lid: 2,
            pkey_index: Some(0),
            mtu: Mtu::B2048,
            speed: QDR,
            speed_is_least,
        }
    }

    #[test]
    fn a_port_whose_codes_say_it_is_not_asked_about() {
        let (mut speed, port) = (Speed::default(), port(1, false));
        assert_eq!((speed.question(&port), speed.of(&port)), (None, QDR));
    }

    #[test]
    fn what_the_administrator_says_counts_until_the_port_goes_down() {
        let (mut speed, port) = (Speed::default(), port(1, true));
        assert_eq!(speed.question(&port), Some(port.gid));
        assert_eq!((speed.question(&port), speed.of(&port)), (None, QDR), "asked once");
        speed.answered(port.gid, Some(FDR));
        assert_eq!(speed.of(&port), FDR.bits_per_second());
        speed.port_answered(Some(&port));
        assert_eq!((speed.question(&port), speed.of(&port)), (None, FDR.bits_per_second()));
        speed.port_answered(Some(&Port { active: false, ..port }));
        assert_eq!((speed.of(&port), speed.question(&port)), (QDR, Some(port.gid)));
    }

    #[test]
    fn a_question_without_an_answer_is_asked_again_when_the_port_was() {
        let (mut speed, port) = (Speed::default(), port(1, true));
        speed.question(&port);
        speed.answered(port.gid, None);
        assert_eq!(speed.question(&port), None);
        speed.port_answered(Some(&port));
        assert_eq!(speed.question(&port), Some(port.gid));
    }

    #[test]
    fn an_answer_about_another_gid_or_a_slower_one_changes_nothing() {
        let (mut speed, here, there) = (Speed::default(), port(1, true), port(2, true));
        speed.question(&here);
        speed.question(&there);
        speed.answered(here.gid, Some(FDR));
        assert_eq!(speed.of(&there), QDR);
        speed.answered(there.gid, Rate::from_code(2));
        assert_eq!(speed.of(&there), QDR);
    }
}
