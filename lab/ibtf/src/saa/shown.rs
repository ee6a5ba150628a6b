//! MADs between the hosts and a subnet manager, as captures of the fabric have them.

use fabric::{Direction, Fabric, ManagementPeer};
use sm::{Arrival, Guid, Mad, SmAddress};

/// A port's QP 1 sends.
pub(super) fn show_sent(fabric: &Fabric, port: fabric::Guid, to: SmAddress, mad: &Mad) {
    fabric.show_management(port, Direction::ToSwitch, &peer(to), &mad.0);
}

/// A port's QP 1 receives.
pub(super) fn show_received(fabric: &Fabric, port: Guid, arrival: &Arrival) {
    fabric.show_management(port, Direction::FromSwitch, &peer(arrival.from), &arrival.mad.0);
}

fn peer(address: SmAddress) -> ManagementPeer {
    ManagementPeer { lid: address.lid, qpn: address.qpn, sl: address.sl, pkey: address.p_key }
}
