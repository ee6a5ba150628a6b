//! What a session was told unasked, in the words of subnet notices.

use fakekernel::Kernel;
use sm::records::Trap;

use crate::ibtl::{SubnetEvent, notify};

/// The port's subscriptions work again, or do not any more.
pub(super) fn availability(kernel: &Kernel, port: fabric::Gid, available: bool) {
    let event = if available { SubnetEvent::Available } else { SubnetEvent::Unavailable };
    notify(kernel, port, event, fabric::Gid::default());
}

/// A report about a port or a group.
pub(super) fn report(kernel: &Kernel, port: fabric::Gid, trap: Trap, subject: sm::Gid) {
    let event = match trap {
        Trap::GidInService => SubnetEvent::GidAvailable,
        Trap::GidOutOfService => SubnetEvent::GidUnavailable,
        Trap::GroupCreated => SubnetEvent::GroupCreated,
        Trap::GroupDeleted => SubnetEvent::GroupDeleted,
    };
    notify(kernel, port, event, subject);
}
