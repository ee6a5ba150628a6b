//! Partitions made and deleted (`dladm create-part`, `delete-part`): what is refused leaves everything as it was, and no zone sees what
//! is another's.

use std::mem::offset_of;

use fakekernel::genunix::Cred;
use fakekernel::{Ctx, Errno, FaultKind, FaultPlan, Nanos};
use illumos_sys_hdrs::{
    IBD_DELETE_IBPART, IBD_INFO_CMD_IBPART, IBD_INFO_CMD_PKEYTBLSZ, IBD_INFO_IBPART, ibd_ioctl_s,
    ibpart_ioctl_s, ibport_ioctl_s,
};
use lab_gldv3::{LinkSummary, MacReference, Offload, dld_ioctl_as, links};

use crate::bench::{Bench, Driver, Host, LINK, PLAIN, PORT_LINK, Setup, address_of};

fn with_partitions(test: fn(&Bench)) {
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(test);
}

fn partition(host: &Host) -> Option<LinkSummary> {
    links(&host.kernel).into_iter().find(|link| link.name == LINK)
}

fn port_link(host: &Host) -> u32 {
    links(&host.kernel).into_iter().find(|link| link.name == PORT_LINK).expect("the port's").id
}

/// Somebody of a zone who may configure links there.
fn administrator_of(zone: i32) -> Cred {
    Cred { zone, ..Cred::ROOT }
}

/// A `delete-part` of whoever it is.
fn delete(host: &Host, id: u32, cred: Cred) -> Result<(), Errno> {
    let mut argument = [0; size_of::<ibpart_ioctl_s>()];
    let at = offset_of!(ibpart_ioctl_s, ioc_partid);
    argument[at..at + 4].copy_from_slice(&id.to_ne_bytes());
    host.kernel.scope(|| dld_ioctl_as(&host.kernel, cred, IBD_DELETE_IBPART, &mut argument)).map(drop)
}

/// What `show-part` asks about a partition.
fn ask(host: &Host, id: u32, cred: Cred) -> Result<(), Errno> {
    let mut argument = [0; size_of::<ibpart_ioctl_s>()];
    for (at, word) in [
        (offset_of!(ibd_ioctl_s, ioc_info_cmd), IBD_INFO_CMD_IBPART),
        (offset_of!(ibd_ioctl_s, ioc_linkid), id),
    ] {
        argument[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    host.kernel.scope(|| dld_ioctl_as(&host.kernel, cred, IBD_INFO_IBPART, &mut argument)).map(drop)
}

/// What `show-ib` asks about the port of instance 0, which has this link.
fn ask_about_the_port(kernel: &fakekernel::Kernel, link: u32, cred: Cred) -> Result<(), Errno> {
    let mut argument = [0; size_of::<ibport_ioctl_s>()];
    for (at, word) in [
        (offset_of!(ibd_ioctl_s, ioc_info_cmd), IBD_INFO_CMD_PKEYTBLSZ),
        (offset_of!(ibd_ioctl_s, ioc_linkid), link),
    ] {
        argument[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    kernel.scope(|| dld_ioctl_as(kernel, cred, IBD_INFO_IBPART, &mut argument)).map(drop)
}

/// What mac calls the first link that the driver makes.
const MAC: &str = "ibp1000";
const CREATE: FaultKind = FaultKind("dls_devnet_create");

#[test]
fn a_partition_that_somebody_has_open_is_not_deleted_and_dls_is_not_told_of_it() {
    with_partitions(|bench| {
        let id = partition(&bench.alpha).expect("a partition").id;
        let (stream, _) = bench.alpha.open_up(PLAIN);
        // Were the link taken from dls, it could not be given back.
        bench.alpha.kernel.set_fault(CREATE, Some("ibp"), FaultPlan::From(0));
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Err(Errno::EBUSY));
        drop(stream);
        // A reader that keeps a packet.
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let kept = alpha.hold_received();
        beta.transmit(address_of(&alpha), &[0; 1000], Offload::default()).expect("the stream is bound");
        bench.settle();
        assert_eq!(kept.len(), 1);
        drop((alpha, beta));
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Err(Errno::EBUSY));
        assert!(partition(&bench.alpha).is_some(), "it is still a link");
        drop(kept);
        bench.alpha.kernel.set_fault(CREATE, Some("ibp"), FaultPlan::Never);
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Ok(()));
        lab_gldv3::destroy_datalink(&bench.alpha.kernel, id);
    });
}

#[test]
fn a_partition_that_dls_did_not_take_back_can_still_be_deleted() {
    with_partitions(|bench| {
        let id = partition(&bench.alpha).expect("a partition").id;
        let foreign = MacReference::open(&bench.alpha.kernel, MAC).expect("the mac is there");
        bench.alpha.kernel.set_fault(CREATE, Some("ibp"), FaultPlan::Nth(0));
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Err(Errno::EBUSY), "as a client of the mac has it");
        assert!(partition(&bench.alpha).is_none(), "dls did not take it back");
        assert!(
            bench.alpha.console().iter().any(|line| line.contains("delete it")),
            "{:?}",
            bench.alpha.console()
        );
        assert_eq!(ask(&bench.alpha, id, Cred::ROOT), Ok(()), "the driver has it");
        drop(foreign);
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Ok(()));
        assert_eq!(delete(&bench.alpha, id, Cred::ROOT), Err(Errno::ENOENT));
        lab_gldv3::destroy_datalink(&bench.alpha.kernel, id);
        // The mac's name is free again.
        bench.alpha.create_partition();
        let _ = bench.alpha.open_up(PLAIN);
    });
}

#[test]
fn a_zone_neither_deletes_nor_asks_about_another_s_partition() {
    with_partitions(|bench| {
        let id = partition(&bench.alpha).expect("a partition").id;
        for other in [administrator_of(5), administrator_of(6)] {
            assert_eq!(delete(&bench.alpha, id, other), Err(Errno::ENOENT), "the global zone's");
            assert_eq!(ask(&bench.alpha, id, other), Err(Errno::ENOENT));
        }
        // One that zone 5 has borrowed is seen there, and stays the global zone's.
        lab_gldv3::set_link_zone(&bench.alpha.kernel, LINK, 5).expect("nobody has it open");
        assert_eq!(ask(&bench.alpha, id, administrator_of(5)), Ok(()));
        assert_eq!(ask(&bench.alpha, id, administrator_of(6)), Err(Errno::ENOENT));
        assert_eq!(delete(&bench.alpha, id, administrator_of(5)), Err(Errno::ENOENT));
        lab_gldv3::set_link_zone(&bench.alpha.kernel, LINK, 0).expect("nobody has it open");
    });
}

#[test]
fn a_partition_that_is_not_deleted_after_all_stays_its_owner_s() {
    with_partitions(|bench| {
        let kernel = &bench.alpha.kernel;
        bench.alpha.try_delete_partition().expect("nobody uses it");
        lab_gldv3::create_partition_as(kernel, administrator_of(5), "ibp0", 0xffff, LINK, true)
            .expect("a partition of zone 5");
        let link = partition(&bench.alpha).expect("a partition");
        assert_eq!((link.owner, link.zone), (5, 5));
        let foreign = MacReference::open(kernel, MAC).expect("the mac is there");
        assert_eq!(delete(&bench.alpha, link.id, Cred::ROOT), Err(Errno::EBUSY));
        let link = partition(&bench.alpha).expect("it is a link again");
        assert_eq!((link.owner, link.zone), (5, 5), "and whose it was");
        drop(foreign);
        assert_eq!(delete(&bench.alpha, link.id, administrator_of(5)), Ok(()));
        lab_gldv3::destroy_datalink(kernel, link.id);
    });
}

/// Before, every user of every zone was told of the port, its GUIDs and its P_Keys.
#[test]
fn a_zone_is_told_of_a_port_only_by_a_link_that_it_sees() {
    with_partitions(|bench| {
        let ask = |cred| ask_about_the_port(&bench.alpha.kernel, port_link(&bench.alpha), cred);
        assert_eq!(ask(Cred::USER), Ok(()), "show-ib needs no privilege");
        assert_eq!(ask(administrator_of(5)), Err(Errno::ENOENT));
        lab_gldv3::set_link_zone(&bench.alpha.kernel, PORT_LINK, 5).expect("nobody has it open");
        assert_eq!(ask(Cred { zone: 5, ..Cred::USER }), Ok(()));
        assert_eq!(ask(administrator_of(6)), Err(Errno::ENOENT));
        lab_gldv3::set_link_zone(&bench.alpha.kernel, PORT_LINK, 0).expect("nobody has it open");
    });
}

/// Before, a detach was refused (EBUSY) whenever it met one of the questions, so a loop of them kept the port.
#[test]
fn a_port_is_detached_while_others_keep_asking_about_it() {
    Setup { driver: Driver::Ibp, seeds: 32, ..Setup::default() }.run(|bench| {
        bench.alpha.try_delete_partition().expect("nobody has it open");
        let (module, device) = bench.alpha.driven().expect("it is attached");
        let (kernel, link) = (bench.alpha.kernel.clone(), port_link(&bench.alpha));
        // It asks until the port is gone.
        let asks = bench.alpha.kernel.spawn("show-ib", Ctx::User, move || {
            while ask_about_the_port(&kernel, link, Cred::ROOT).is_ok() {}
        });
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 / 100 % 300));
        assert_eq!(bench.alpha.kernel.detach(&module, &device), Ok(()));
        asks.join();
        bench.alpha.kernel.attach(&module, &device).expect("the port attaches again");
    });
}
