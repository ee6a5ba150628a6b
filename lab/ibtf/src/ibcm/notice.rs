//! What a session was told unasked, in the words of subnet notices.

use fakekernel::Kernel;
use sm::records::Trap;

use crate::ibtl::{Ibtl, SubnetEvent, notify};
use crate::saa::PortId;

/// The port's subscriptions work again, or do not any more.
pub(super) fn availability(kernel: &Kernel, port: PortId, available: bool) {
    let event = if available { SubnetEvent::Available } else { SubnetEvent::Unavailable };
    notify(kernel, gid0(kernel, port), event, fabric::Gid::default());
}

/// A report about a port or a group.
pub(super) fn report(kernel: &Kernel, port: PortId, trap: Trap, subject: sm::Gid) {
    let event = match trap {
        Trap::GidInService => SubnetEvent::GidAvailable,
        Trap::GidOutOfService => SubnetEvent::GidUnavailable,
        Trap::GroupCreated => SubnetEvent::GroupCreated,
        Trap::GroupDeleted => SubnetEvent::GroupDeleted,
    };
    notify(kernel, gid0(kernel, port), event, subject);
}

/// GID index 0 of a port; zero if the port has gone.
pub(super) fn gid0(kernel: &Kernel, port: PortId) -> fabric::Gid {
    let device = Ibtl::of(kernel).device(port.hca);
    let attr = device.and_then(|device| device.cached_port(port.num));
    attr.and_then(|attr| attr.gids.first().copied()).unwrap_or_default()
}
