//! What queue pairs, and what they carry, are made from.

use gldv3::Mac;
use ibtf::Pd;
use kernel::KArc;
use kernel::sync::Monitor;

use super::backlog::Backlog;
use super::control::Control;
use super::delivery::Delivery;
use super::incoming::ConnectionCounters;
use super::interrupts::Interrupts;
use super::settings::Settings;
use super::transmit::Transmitters;
use crate::counters::Counters;

/// The parts of a link that its queue pairs and their traffic share.
pub(crate) struct BuildContext<'a> {
    pub(crate) pd: &'a Pd,
    pub(crate) port: u8,
    pub(crate) mac: &'a Mac,
    pub(crate) counters: &'a KArc<Counters>,
    pub(crate) connection_counters: &'a KArc<ConnectionCounters>,
    pub(crate) control: &'a KArc<Monitor<Control>>,
    pub(crate) backlog: &'a KArc<Monitor<Backlog>>,
    pub(crate) delivery: &'a KArc<Delivery>,
    pub(crate) transmitters: &'a Transmitters,
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) settings: &'a Settings,
}
