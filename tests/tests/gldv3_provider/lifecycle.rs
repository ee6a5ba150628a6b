//! Start and stop, groups, promiscuity, unregistering.

use fakekernel::Errno;
use lab_gldv3::{DlpiError, MacReference, Promiscuity, Stream};

use crate::rig::Counter::{self, GetStat, GroupAdd, GroupRemove, PromiscOff, PromiscOn, Start, Stop};
use crate::rig::{Driver, LINK, examine};
use crate::{BROADCAST, GROUP, IP};

fn open(driver: &Driver) -> Stream {
    Stream::open(&driver.host.kernel, LINK).expect("the link is there")
}

#[test]
fn first_stream_starts_the_driver_and_the_last_one_stops_it() {
    examine(|host| {
        let driver = host.driver();
        assert_eq!(driver.events(), []);
        let (one, two) = (open(&driver), open(&driver));
        assert_eq!(driver.events(), [Start]);
        drop(one);
        assert_eq!(driver.events(), [Start]);
        drop(two);
        assert_eq!(driver.events(), [Start, Stop]);
        drop(open(&driver));
        assert_eq!(driver.events(), [Start, Stop, Start, Stop]);
        driver.leave();
    });
}

#[test]
fn bind_asks_the_driver_for_nothing_but_its_speed() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        let before = driver.count(GetStat);
        stream.bind(IP).unwrap();
        assert_eq!(driver.events(), [Start]);
        assert!(driver.count(GetStat) > before);
        stream.unbind().unwrap();
        drop(stream);
        assert_eq!(driver.events(), [Start, Stop]);
        driver.leave();
    });
}

#[test]
fn refused_start_is_told_and_forgotten() {
    examine(|host| {
        let driver = host.driver();
        driver.call("probe_start_error", Errno::ENXIO.0.into());
        assert_eq!(Stream::open(&host.kernel, LINK).unwrap_err(), Errno::ENXIO);
        driver.call("probe_start_error", 0);
        drop(open(&driver));
        assert_eq!(driver.events(), [Start, Start, Stop]);
        driver.leave();
    });
}

#[test]
fn group_is_joined_once_and_left_once_however_many_want_it() {
    examine(|host| {
        let driver = host.driver();
        let (one, two) = (open(&driver), open(&driver));
        one.bind(IP).unwrap();
        two.bind(0x86dd).unwrap();
        one.enable_multicast(GROUP).unwrap();
        one.enable_multicast(GROUP).unwrap();
        two.enable_multicast(GROUP).unwrap();
        assert_eq!((driver.count(GroupAdd), driver.count(GroupRemove)), (1, 0));
        let seen: Vec<u8> = (0..20).map(|at| driver.call("probe_group_byte", at) as u8).collect();
        assert_eq!(seen, GROUP.0, "scope and P_Key are the driver's to fill in");
        one.disable_multicast(GROUP).unwrap();
        assert_eq!(one.disable_multicast(GROUP), Err(DlpiError::NotEnabled));
        assert_eq!(driver.count(GroupRemove), 0);
        two.disable_multicast(GROUP).unwrap();
        assert_eq!((driver.count(GroupAdd), driver.count(GroupRemove)), (1, 1));
        drop((one, two));
        driver.leave();
    });
}

#[test]
fn group_may_be_wanted_before_the_bind() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.enable_multicast(GROUP).unwrap();
        assert_eq!(driver.events(), [Start, GroupAdd]);
        stream.bind(IP).unwrap();
        drop(stream);
        assert_eq!(driver.events(), [Start, GroupAdd, GroupRemove, Stop]);
        driver.leave();
    });
}

#[test]
fn broadcast_is_refused_by_the_plugin_and_the_driver_never_asked() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.bind(IP).unwrap();
        assert_eq!(stream.enable_multicast(BROADCAST), Err(DlpiError::BadAddress));
        assert_eq!(driver.count(GroupAdd), 0);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn group_the_driver_refuses_is_not_kept() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.bind(IP).unwrap();
        driver.call("probe_group_error", Errno::ENOMEM.0.into());
        assert_eq!(stream.enable_multicast(GROUP), Err(DlpiError::System(Errno::ENOMEM)));
        assert_eq!(stream.disable_multicast(GROUP), Err(DlpiError::NotEnabled));
        driver.call("probe_group_error", 0);
        stream.enable_multicast(GROUP).unwrap();
        drop(stream);
        assert_eq!(driver.events(), [Start, GroupAdd, GroupRemove, Stop]);
        driver.leave();
    });
}

#[test]
fn passive_stream_on_an_idle_link_joins_no_group() {
    examine(|host| {
        let driver = host.driver();
        let stream = Stream::open_passive(&host.kernel, LINK).unwrap();
        stream.enable_multicast(GROUP).unwrap();
        assert_eq!(driver.events(), [Start]);
        drop(stream);
        assert_eq!(driver.events(), [Start, Stop]);
        driver.leave();
    });
}

#[test]
fn two_listeners_make_one_pair_of_promiscuous_calls() {
    examine(|host| {
        let driver = host.driver();
        let (one, two) = (open(&driver), open(&driver));
        one.set_promiscuous(Promiscuity::Physical, true).unwrap();
        two.set_promiscuous(Promiscuity::Physical, true).unwrap();
        two.set_promiscuous(Promiscuity::Sap, true).unwrap();
        assert_eq!(driver.events(), [Start, PromiscOn]);
        one.set_promiscuous(Promiscuity::Physical, false).unwrap();
        assert_eq!(driver.events(), [Start, PromiscOn]);
        two.set_promiscuous(Promiscuity::Physical, false).unwrap();
        assert_eq!(driver.events(), [Start, PromiscOn, PromiscOff]);
        assert!(one.set_promiscuous(Promiscuity::Physical, false).is_err(), "it is off");
        drop((one, two));
        assert_eq!(driver.events(), [Start, PromiscOn, PromiscOff, Stop]);
        driver.leave();
    });
}

#[test]
fn every_sap_is_no_business_of_the_driver() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.set_promiscuous(Promiscuity::Sap, true).unwrap();
        stream.set_promiscuous(Promiscuity::Sap, false).unwrap();
        assert_eq!(driver.events(), [Start]);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn driver_that_refuses_promiscuity_is_believed() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        driver.call("probe_promisc_error", Errno::EIO.0.into());
        assert_eq!(stream.set_promiscuous(Promiscuity::Physical, true), Err(DlpiError::System(Errno::EIO)));
        driver.call("probe_promisc_error", 0);
        drop(stream);
        assert_eq!(driver.events(), [Start, Stop]);
        driver.leave();
    });
}

#[test]
fn close_leaves_groups_then_promiscuity_then_stops() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.bind(IP).unwrap();
        stream.set_promiscuous(Promiscuity::Physical, true).unwrap();
        stream.enable_multicast(GROUP).unwrap();
        drop(stream);
        let events = [Start, PromiscOn, GroupAdd, GroupRemove, PromiscOff, Stop];
        assert_eq!(driver.events(), events);
        driver.leave();
    });
}

#[test]
fn address_is_not_set_by_whoever_plumbs_the_link() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        stream.bind(IP).unwrap();
        assert_eq!(driver.count(Counter::Unicst), 0);
        assert!(stream.set_address(BROADCAST).is_err());
        assert_eq!(driver.count(Counter::Unicst), 0, "the plugin says no first");
        drop(stream);
        driver.leave();
    });
}

#[test]
fn mac_with_a_link_is_not_unregistered() {
    examine(|host| {
        let driver = host.driver();
        let ebusy = i64::from(Errno::EBUSY.0);
        assert_eq!(driver.call("probe_unregister", 0), ebusy);
        assert_eq!(driver.call("probe_disable", 0), ebusy);
        // A refusal changes nothing.
        let stream = open(&driver);
        assert_eq!(driver.call("probe_unregister", 0), ebusy);
        drop(stream);
        // The link goes first, then detach unregisters.
        driver.leave();
    });
}

#[test]
fn open_link_keeps_its_driver_attached() {
    examine(|host| {
        let driver = host.driver();
        let stream = open(&driver);
        assert_eq!(driver.detach(), Err(Errno::EBUSY));
        assert_eq!(driver.module.unload(), Err(Errno::EBUSY));
        stream.bind(IP).unwrap();
        drop(stream);
        driver.leave();
    });
}

#[test]
fn reference_of_another_layer_keeps_the_driver_attached() {
    examine(|host| {
        let driver = host.driver();
        let reference = MacReference::open(&host.kernel, LINK).unwrap();
        assert_eq!(driver.detach(), Err(Errno::EBUSY));
        drop(reference);
        driver.leave();
    });
}

#[test]
fn disabled_mac_is_opened_by_nobody() {
    examine(|host| {
        let driver = host.driver();
        driver.call("probe_keep_attached", 1);
        assert_eq!(driver.detach(), Err(Errno::EBUSY), "the driver has disabled its mac and refused");
        assert_eq!(MacReference::open(&host.kernel, LINK).unwrap_err(), Errno::ENOENT);
        assert_eq!(Stream::open(&host.kernel, LINK).unwrap_err(), Errno::ENOENT);
        assert_eq!(driver.call("probe_disable", 0), 0, "once more does no harm");
        driver.call("probe_keep_attached", 0);
        assert_eq!(driver.events(), []);
        driver.leave();
    });
}
