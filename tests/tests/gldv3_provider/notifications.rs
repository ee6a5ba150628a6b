//! What the framework says when a link changes.

use std::sync::{Arc, Mutex};

use lab_gldv3::{Notification, Stream};

use crate::rig::{Driver, LINK, examine};
use crate::settle;

const DOWN: i64 = 0;
const UP: i64 = 1;
const UNKNOWN: i64 = -1;

/// Has the driver report a state; the lines that are logged of it.
fn report(driver: &Driver, state: i64) -> Vec<String> {
    let before = driver.host.log_len();
    driver.call("probe_link_state", state);
    settle();
    driver.host.log_since(before)
}

#[test]
fn link_that_comes_up_is_logged_with_its_speed_once() {
    examine(|host| {
        let driver = host.driver();
        assert_eq!(report(&driver, UP), ["gld0 link up, 8000 Mbps"]);
        assert_eq!(report(&driver, UP), [""; 0]);
        assert_eq!(report(&driver, DOWN), ["gld0 link down"]);
        assert_eq!(report(&driver, DOWN), [""; 0]);
        driver.call("probe_speed", 56_000_000_000);
        assert_eq!(report(&driver, UP), ["gld0 link up, 56000 Mbps"]);
        driver.leave();
    });
}

#[test]
fn link_that_was_never_known_to_be_up_does_not_go_down() {
    examine(|host| {
        let driver = host.driver();
        assert_eq!(report(&driver, DOWN), [""; 0]);
        assert_eq!(report(&driver, UNKNOWN), [""; 0]);
        assert_eq!(report(&driver, UP), ["gld0 link up, 8000 Mbps"]);
        driver.leave();
    });
}

#[test]
fn registration_is_logged() {
    examine(|host| {
        let driver = host.driver();
        assert!(host.log_since(0).contains(&"gld0 registered".to_owned()), "{:?}", host.log_since(0));
        driver.leave();
    });
}

#[test]
fn streams_hear_of_carrier_and_speed() {
    examine(|host| {
        let driver = host.driver();
        let stream = Stream::open(&host.kernel, LINK).unwrap();
        let heard: Arc<Mutex<Vec<Notification>>> = Arc::default();
        let list = heard.clone();
        stream.on_notify(move |notification| list.lock().unwrap().push(notification));
        settle();
        heard.lock().unwrap().clear();
        for state in [UP, UP, DOWN, DOWN] {
            report(&driver, state);
        }
        let carrier = |n: &&Notification| matches!(n, Notification::LinkUp { .. } | Notification::LinkDown);
        let heard: Vec<Notification> = heard.lock().unwrap().iter().filter(carrier).cloned().collect();
        assert_eq!(heard, [Notification::LinkUp { speed: 8_000_000_000 }, Notification::LinkDown]);
        drop(stream);
        driver.leave();
    });
}
