//! A membership whose record is not what was asked for.

use core::time::Duration;

use super::*;

/// Before the mend a link that was told a wrong Q_Key once had it for a quarter of an hour, and heard nothing.
#[test]
fn a_record_that_says_something_new_is_asked_for_again_soon() {
    let mut world = started();
    world.group = Some(BroadcastGroup { qkey: QKey::new(7), ..group(Scope::LinkLocal) });
    world.event(Event::Renew);
    world.settle();
    let soon = world.now + Duration::from_secs(60);
    assert_eq!((world.is_joined(), world.link.poll_timeout()), (true, Some(soon)));
    world.group = Some(group(Scope::LinkLocal));
    world.wait();
    assert_eq!(world.link.poll_timeout(), Some(world.now + Duration::from_secs(60)), "new again");
    world.wait();
    let verify = Config::new(PKEY).verify;
    assert_eq!((world.is_joined(), world.link.poll_timeout()), (true, Some(world.now + verify)));
}
