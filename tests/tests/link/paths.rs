//! How a neighbour is reached: asked by ioctl, and by another kernel module through the driver's exported call.

use conformance::probe::Probe;
use fakekernel::genunix::{Cred, Privilege};
use fakekernel::{Ctx, Errno, FaultKind, FaultPlan, Module, Nanos};
use lab_gldv3::{LinkAddress, Offload, dld_ioctl_as, links};
use sm::fault::FaultAction;
use sm::{Attribute, Method, Status};

use crate::bench::{Bench, Driver, Host, LINK, PLAIN, Setup, address_of, group};
use record::{BY_IPV4, BY_IPV6, BY_LINK_ADDRESS, Record};

const ENETDOWN: Errno = Errno(127);
const ENXIO: Errno = Errno(6);
const EBUSY: Errno = Errno(16);
/// `ibp_status`.
const UNREACHABLE: u32 = 1;
const UNANSWERED: u32 = 2;

/// `ibd_path_info_t`, laid out by hand as `sys/ibd_path.h` has it.
mod record {
    pub const PATH_INFO: u32 = 0x6171_0004;
    pub const BY_LINK_ADDRESS: u32 = 1;
    pub const BY_IPV4: u32 = 2;
    pub const BY_IPV6: u32 = 3;
    pub const LEN: usize = 116;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Record(pub [u8; LEN]);

    impl Record {
        pub fn question(link: u32, kind: u32, address: &[u8]) -> Self {
            let mut bytes = [0; LEN];
            for (at, word) in [(0, 1), (4, link), (8, kind)] {
                bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
            }
            bytes[12..12 + address.len()].copy_from_slice(address);
            Self(bytes)
        }

        pub fn u8(&self, at: usize) -> u8 {
            self.0[at]
        }

        pub fn u16(&self, at: usize) -> u16 {
            u16::from_ne_bytes(self.0[at..at + 2].try_into().unwrap())
        }

        pub fn u32(&self, at: usize) -> u32 {
            u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap())
        }

        pub fn flags(&self) -> u32 {
            self.u32(32)
        }

        pub fn status(&self) -> u32 {
            self.u32(36)
        }

        pub fn neighbour(&self) -> [u8; 20] {
            self.0[40..60].try_into().unwrap()
        }

        pub fn sgid(&self) -> [u8; 16] {
            self.0[60..76].try_into().unwrap()
        }

        pub fn dgid(&self) -> [u8; 16] {
            self.0[76..92].try_into().unwrap()
        }

        pub fn lids(&self) -> (u16, u16) {
            (self.u16(92), self.u16(94))
        }

        pub fn pkey(&self) -> u16 {
            self.u16(96)
        }

        pub fn mtu(&self) -> u32 {
            self.u32(104)
        }

        pub fn lifetime(&self) -> u8 {
            self.u8(110)
        }

        pub fn rate(&self) -> u8 {
            self.u8(109)
        }

        pub fn age(&self) -> u32 {
            self.u32(112)
        }
    }
}

fn link_id(host: &Host) -> u32 {
    links(&host.kernel).iter().find(|link| link.name == LINK).expect("the link is there").id
}

fn ask_as(host: &Host, cred: Cred, kind: u32, address: &[u8]) -> (Result<(), Errno>, Record) {
    let mut record = Record::question(link_id(host), kind, address);
    let answer = dld_ioctl_as(&host.kernel, cred, record::PATH_INFO, &mut record.0);
    (answer.map(drop), record)
}

fn ask(host: &Host, kind: u32, address: &[u8]) -> (Result<(), Errno>, Record) {
    ask_as(host, Cred::ROOT, kind, address)
}

/// Asks until it is known.
#[track_caller]
fn answer(host: &Host, kind: u32, address: &[u8]) -> Record {
    for _ in 0..100 {
        match ask(host, kind, address) {
            (Ok(()), record) => return record,
            (Err(Errno::EAGAIN), _) => fakekernel::sleep(Nanos::from_millis(10)),
            (Err(errno), record) => panic!("{errno}, status {}", record.status()),
        }
    }
    panic!("not known after a second");
}

fn with_partitions(test: fn(&Bench)) {
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(test);
}

#[test]
fn a_path_is_looked_up_when_it_is_asked_for_and_both_ends_tell_the_same() {
    with_partitions(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (to_alpha, to_beta) = (address_of(&alpha).0, address_of(&beta).0);
        let before = bench.alpha.counter("sa_paths");
        assert_eq!(ask(&bench.alpha, BY_LINK_ADDRESS, &to_beta).0, Err(Errno::EAGAIN));
        let there = answer(&bench.alpha, BY_LINK_ADDRESS, &to_beta);
        let back = answer(&bench.beta, BY_LINK_ADDRESS, &to_alpha);
        assert_eq!(bench.alpha.counter("sa_paths"), before + 1);
        assert_eq!((there.neighbour(), back.neighbour()), (to_beta, to_alpha));
        assert_eq!(there.sgid(), to_alpha[4..]);
        assert_eq!((there.sgid(), there.dgid()), (back.dgid(), back.sgid()));
        let (source, destination) = there.lids();
        assert_eq!(back.lids(), (destination, source));
        assert!(source != 0 && destination != 0 && source != destination);
        assert_eq!(
            (there.flags(), there.pkey(), there.mtu()),
            (0, 0xffff, 4096),
            "what the path carries, not the link"
        );
        assert!(there.rate() >= 2 && there.lifetime() < 32 && there.age() == 0);
        fakekernel::sleep(Nanos::from_secs(100));
        assert!((99..=101).contains(&answer(&bench.alpha, BY_LINK_ADDRESS, &to_beta).age()));
        fakekernel::sleep(Nanos::from_secs(250));
        // Asked about, so looked up again after five minutes less a quarter at the earliest, and five minutes at the latest.
        assert!(answer(&bench.alpha, BY_LINK_ADDRESS, &to_beta).age() <= 125);
    });
}

#[test]
fn a_neighbour_that_takes_connected_mode_is_one_to_senders_and_to_those_who_ask() {
    with_partitions(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        let plain = address_of(&beta);
        let mut flagged = plain;
        flagged.0[0] = 0x80;
        for to in [plain, flagged] {
            alpha.transmit(to, b"a packet to a neighbour", Offload::default()).unwrap();
            bench.settle();
            assert!(heard.try_next().is_some());
            answer(&bench.alpha, BY_LINK_ADDRESS, &to.0);
        }
        assert_eq!(bench.alpha.counter("sa_paths"), 1, "paths to one neighbour that were asked for");
    });
}

#[test]
fn the_broadcast_group_and_others_are_told_with_their_multicast_lid() {
    with_partitions(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let everyone = answer(&bench.alpha, BY_IPV4, &[255; 4]);
        assert_eq!(everyone.flags(), 3, "a group, with a route header");
        assert!(everyone.lids().1 >= 0xc000);
        assert_eq!(everyone.lifetime(), 0xff);
        assert_eq!(everyone.dgid()[..2], [0xff, 0x12]);
        let by_group = answer(&bench.alpha, BY_LINK_ADDRESS, &group(0xffff_ffff).0);
        assert_eq!(by_group.dgid(), everyone.dgid(), "scope and P_Key are the link's");
        assert_eq!((by_group.lids(), everyone.mtu()), (everyone.lids(), 2048));
    });
}

/// What IP sends when it looks for somebody, and what it answers.
fn arp(operation: u8, sender: (LinkAddress, u8), target: (LinkAddress, u8)) -> Vec<u8> {
    let mut bytes = vec![0, 32, 8, 0, 20, 4, 0, operation];
    for (link, ip) in [sender, target] {
        bytes.extend_from_slice(&link.0);
        bytes.extend_from_slice(&[10, 0, 0, ip]);
    }
    bytes
}

const ARP: u32 = 0x0806;

#[test]
fn an_ip_address_is_known_once_arp_has_passed_and_forgotten_after_twenty_minutes() {
    with_partitions(|bench| {
        let (alpha, _) = bench.alpha.open_up(ARP);
        let (beta, heard) = bench.beta.open_up(ARP);
        let (a, b) = (address_of(&alpha), address_of(&beta));
        assert_eq!(ask(&bench.alpha, BY_IPV4, &[10, 0, 0, 2]).0, Err(Errno::ENOENT));
        let request = arp(1, (a, 1), (LinkAddress([0; 20]), 2));
        let everyone = alpha.details().broadcast;
        alpha.transmit(everyone, &request, Offload::default()).unwrap();
        bench.settle();
        assert_eq!(heard.try_next().expect("everyone hears it").payload, request);
        // Who asks is known to those who hear it, who is asked for to nobody yet.
        assert_eq!(answer(&bench.beta, BY_IPV4, &[10, 0, 0, 1]).neighbour(), a.0);
        assert_eq!(ask(&bench.alpha, BY_IPV4, &[10, 0, 0, 2]).0, Err(Errno::ENOENT));
        beta.transmit(a, &arp(2, (b, 2), (a, 1)), Offload::default()).unwrap();
        bench.settle();
        assert_eq!(answer(&bench.alpha, BY_IPV4, &[10, 0, 0, 2]).neighbour(), b.0);
        fakekernel::sleep(Nanos::from_secs(20 * 60 + 1));
        assert_eq!(ask(&bench.alpha, BY_IPV4, &[10, 0, 0, 2]).0, Err(Errno::ENOENT));
    });
}

#[test]
fn who_answers_an_arp_request_knows_whom_it_answers_although_it_missed_the_request() {
    with_partitions(|bench| {
        let (alpha, _) = bench.alpha.open_up(ARP);
        let (beta, _) = bench.beta.open_up(ARP);
        let (a, b) = (address_of(&alpha), address_of(&beta));
        beta.transmit(a, &arp(2, (b, 2), (a, 1)), Offload::default()).unwrap();
        bench.settle();
        assert_eq!(answer(&bench.beta, BY_IPV4, &[10, 0, 0, 1]).neighbour(), a.0);
    });
}

#[test]
fn neighbour_discovery_teaches_as_arp_does() {
    const IPV6: u32 = 0x86dd;
    with_partitions(|bench| {
        let (alpha, _) = bench.alpha.open_up(IPV6);
        let (beta, _) = bench.beta.open_up(IPV6);
        let (a, b) = (address_of(&alpha), address_of(&beta));
        let ip = |n: u8| [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
        // An advertisement of beta's address to alpha.
        let mut packet = vec![0x60, 0, 0, 0, 0, 48, 58, 255];
        packet.extend_from_slice(&[ip(2), ip(1)].concat());
        packet.extend_from_slice(&[136, 0, 0, 0, 0x60, 0, 0, 0]);
        packet.extend_from_slice(&ip(2));
        packet.extend_from_slice(&[2, 3]);
        packet.extend_from_slice(&b.0);
        packet.extend_from_slice(&[0, 0]);
        beta.transmit(a, &packet, Offload::default()).unwrap();
        bench.settle();
        assert_eq!(answer(&bench.alpha, BY_IPV6, &ip(2)).neighbour(), b.0);
        assert_eq!(answer(&bench.beta, BY_IPV6, &ip(1)).neighbour(), a.0);
    });
}

#[test]
fn a_lookup_that_failed_is_told_with_its_reason_and_repeated_after_its_back_off() {
    with_partitions(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let to = address_of(&beta).0;
        let mut nobody = to;
        nobody[19] ^= 0x55;
        assert_eq!(ask(&bench.alpha, BY_LINK_ADDRESS, &nobody).0, Err(Errno::EAGAIN));
        bench.settle();
        let (refused, record) = ask(&bench.alpha, BY_LINK_ADDRESS, &nobody);
        assert_eq!((refused, record.status()), (Err(ENXIO), UNREACHABLE));
        assert_eq!(record.neighbour(), nobody);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        assert_eq!(ask(&bench.alpha, BY_LINK_ADDRESS, &to).0, Err(Errno::EAGAIN));
        bench.wait_for("the SA is given up", Nanos::from_secs(300), || {
            ask(&bench.alpha, BY_LINK_ADDRESS, &to).0 != Err(Errno::EAGAIN)
        });
        let (refused, record) = ask(&bench.alpha, BY_LINK_ADDRESS, &to);
        assert_eq!((refused, record.status()), (Err(ENXIO), UNANSWERED));
        bench.no_faults();
        bench.wait_for("asked again", Nanos::from_secs(60), || {
            ask(&bench.alpha, BY_LINK_ADDRESS, &to).0.is_ok()
        });
    });
}

/// `ibmf` asks it ten times, a second apart, and then says that there is no such path.
#[test]
fn an_administrator_that_is_busy_takes_no_path_away() {
    with_partitions(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let to = address_of(&beta);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Refuse(Status::BUSY));
        // Looked up again after five minutes.
        for second in 0..400_u32 {
            alpha.transmit(to, &second.to_be_bytes(), Offload::default()).unwrap();
            fakekernel::sleep(Nanos::from_secs(1));
            let got = std::iter::from_fn(|| heard.try_next()).last().map(|packet| packet.payload);
            assert_eq!(got.as_deref(), Some(&second.to_be_bytes()[..]), "in second {second}");
        }
        assert!(bench.alpha.counter("sa_paths_failed") > 0, "nobody asked");
    });
}

#[test]
fn a_bad_question_has_its_own_error_and_starts_nothing() {
    with_partitions(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        let to = address_of(&beta).0;
        assert_eq!(ask(&bench.alpha, BY_LINK_ADDRESS, &to).0, Err(ENETDOWN), "a link that nobody opened");
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let before = bench.alpha.counter("sa_paths");
        let id = link_id(&bench.alpha);
        let try_one = |mut record: Record| {
            let errno = dld_ioctl_as(&bench.alpha.kernel, Cred::ROOT, record::PATH_INFO, &mut record.0);
            errno.map(drop)
        };
        let good = Record::question(id, BY_LINK_ADDRESS, &to);
        let changed = |at: usize, value: u8| {
            let mut record = good;
            record.0[at] = value;
            record
        };
        for (what, record) in [
            ("another version", changed(0, 2)),
            ("another kind", changed(8, 9)),
            ("bytes behind an IPv4 address", changed(8, BY_IPV4 as u8)),
            ("a flag", changed(32, 1)),
            ("queue pair 0", Record::question(id, BY_LINK_ADDRESS, &[&[0; 4], &to[4..]].concat())),
            ("no address", Record::question(id, BY_IPV6, &[])),
        ] {
            assert_eq!(try_one(record), Err(Errno::EINVAL), "{what}");
        }
        assert_eq!(try_one(changed(4, 0xee)), Err(Errno::ENOENT), "a link that is not there");
        let mut short = good.0[..115].to_vec();
        let refused = dld_ioctl_as(&bench.alpha.kernel, Cred::ROOT, record::PATH_INFO, &mut short);
        assert_eq!(refused, Err(Errno(14)));
        bench.settle();
        assert_eq!(bench.alpha.counter("sa_paths"), before);
    });
}

#[test]
fn only_an_administrator_of_the_links_own_zone_may_ask() {
    with_partitions(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let asked = |cred| ask_as(&bench.alpha, cred, BY_IPV4, &[255; 4]).0;
        assert_eq!(asked(Cred::USER), Err(Errno::EPERM));
        let elsewhere = Cred { id: 0, zone: 7, privilege: Privilege::All };
        assert_eq!(asked(elsewhere), Err(Errno::ENOENT));
        assert!(matches!(asked(Cred::ROOT), Ok(()) | Err(Errno::EAGAIN)));
    });
}

#[test]
fn a_zone_that_was_given_a_link_may_ask_it() {
    with_partitions(|bench| {
        let kernel = &bench.alpha.kernel;
        let asked = |zone| {
            let cred = Cred { id: 0, zone, privilege: Privilege::All };
            ask_as(&bench.alpha, cred, BY_IPV4, &[10, 0, 0, 2]).0
        };
        lab_gldv3::set_link_zone(kernel, LINK, 7).expect("nobody has it open");
        assert_eq!((asked(7), asked(8)), (Err(ENETDOWN), Err(Errno::ENOENT)), "it is closed");
        lab_gldv3::set_link_zone(kernel, LINK, 0).expect("nobody has it open");
        assert_eq!(asked(7), Err(Errno::ENOENT), "taken back");
    });
}

/// Another IB client on alpha.
struct Asker(Module);

impl Asker {
    fn load(host: &Host, driver: Driver) -> Self {
        let object = Probe::new("asker")
            .file("probes/ibd/asker.c")
            .headers("usr/src/uts/common")
            .depends(&format!("drv/{}", driver.name()))
            .build();
        let module = host.kernel.load(&object, "asker", "misc").expect("it finds the driver's call");
        module.install().expect("it installs");
        Self(module)
    }

    fn call(&self, name: &'static str, arg: i64) -> i64 {
        self.0.call_probe(name, Some(Ctx::User), arg)
    }

    fn about(&self, link: u32, kind: u32, address: &[u8]) {
        self.call("probe_link", link.into());
        self.call("probe_kind", kind.into());
        for (at, byte) in (0..).zip(address) {
            self.call("probe_byte", at << 8 | i64::from(*byte));
        }
    }

    fn ask(&self, slot: i64) -> Result<(), Errno> {
        Errno::check(self.call("probe_ask", slot) as i32)
    }

    /// How often the slot's callback was made, and the error of the last.
    fn told(&self, slot: i64) -> (i64, Result<(), Errno>) {
        (self.call("probe_calls", slot), Errno::check(self.call("probe_error", slot) as i32))
    }

    fn record(&self, slot: i64) -> Record {
        assert_eq!(self.call("probe_record_size", 0), record::LEN as i64);
        let mut record = Record([0; record::LEN]);
        for (at, byte) in (0..).zip(&mut record.0) {
            *byte = self.call("probe_answer", slot << 16 | at) as u8;
        }
        record
    }

    fn open(&self) -> i64 {
        self.call("probe_open", 0)
    }

    fn unload(self) {
        self.0.unload().expect("nobody calls it any more");
    }
}

#[test]
fn another_module_asks_either_driver_and_is_called_once() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        let test: fn(&Bench) = match driver {
            Driver::Ibd => |bench| asked_by_module(bench, Driver::Ibd, 0),
            Driver::Ibp => |bench| asked_by_module(bench, Driver::Ibp, link_id(&bench.alpha)),
        };
        Setup { driver, ..Setup::default() }.run(test);
    }
}

fn asked_by_module(bench: &Bench, driver: Driver, link: u32) {
    let asker = Asker::load(&bench.alpha, driver);
    let (beta, _) = bench.beta.open_up(PLAIN);
    let to = address_of(&beta).0;
    asker.about(link, BY_LINK_ADDRESS, &to);
    assert_eq!(asker.call("probe_ask_nothing", 0), 0);
    assert_eq!(asker.ask(0), Err(ENETDOWN), "nobody has opened the link");
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    assert_eq!(asker.ask(0), Ok(()));
    assert_eq!(asker.ask(1), Ok(()));
    bench.settle();
    assert_eq!((asker.told(0), asker.told(1)), ((1, Ok(())), (1, Ok(()))));
    let told = asker.record(0);
    assert_eq!((told.neighbour(), told.sgid().as_slice()), (to, &address_of(&alpha).0[4..]));
    if driver == Driver::Ibp {
        assert_eq!(told.0[12..112], answer(&bench.alpha, BY_LINK_ADDRESS, &to).0[12..112]);
    }
    // From within the callback, of what is known already.
    assert_eq!(asker.call("probe_ask_with_chain", 2), 0);
    bench.settle();
    assert_eq!((asker.told(2).0, asker.told(0).0, asker.told(1).0), (1, 2, 2));
    asker.about(link + 77, BY_LINK_ADDRESS, &to);
    assert_eq!(asker.ask(3), Err(Errno::ENOENT));
    asker.about(link, BY_IPV4, &[10, 0, 0, 9]);
    assert_eq!(asker.ask(3), Err(Errno::ENOENT));
    asker.about(link, 0, &[]);
    assert_eq!(asker.ask(3), Err(Errno::EINVAL));
    assert_eq!((asker.told(3).0, asker.open()), (0, 0));
    asker.unload();
}

#[test]
fn sixty_four_questions_may_be_open_and_each_is_answered_when_the_link_is_stopped() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        let asker = Asker::load(&bench.alpha, Driver::Ibd);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.fault(Attribute::PATH_RECORD, Some(Method::GET_TABLE), None, FaultAction::Silent);
        bench.fault(Attribute::PATH_RECORD, Some(Method::GET), None, FaultAction::Silent);
        asker.about(0, BY_LINK_ADDRESS, &address_of(&beta).0);
        for slot in 0..64 {
            assert_eq!(asker.ask(slot), Ok(()), "{slot}");
        }
        assert_eq!(asker.ask(64), Err(EBUSY));
        bench.settle();
        assert_eq!(asker.open(), 64);
        drop(alpha);
        bench.settle();
        let told: Vec<_> = (0..65).map(|slot| asker.told(slot)).collect();
        assert!(told[..64].iter().all(|told| *told == (1, Err(ENETDOWN))), "{told:?}");
        assert_eq!((told[64].0, asker.open()), (0, 0));
        bench.no_faults();
        asker.unload();
    });
}

#[test]
fn a_cable_that_is_pulled_ends_the_questions_and_the_next_one_is_answered() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        let asker = Asker::load(&bench.alpha, Driver::Ibd);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        bench.fault(Attribute::PATH_RECORD, None, Some(1), FaultAction::Silent);
        asker.about(0, BY_LINK_ADDRESS, &address_of(&beta).0);
        assert_eq!(asker.ask(0), Ok(()));
        bench.world.set_cable(bench.alpha.port(), false);
        bench.wait_for("told that the link is down", Nanos::from_secs(10), || asker.open() == 0);
        // The lookup may fail before the port's state is known.
        assert!(matches!(asker.told(0), (1, Err(ENETDOWN | ENXIO))), "{:?}", asker.told(0));
        bench.world.set_cable(bench.alpha.port(), true);
        bench.no_faults();
        bench.wait_for("answered", Nanos::from_secs(600), || {
            asker.ask(1).is_ok() && {
                bench.settle();
                asker.open() == 0 && asker.told(1).1.is_ok()
            }
        });
        asker.unload();
    });
}

/// Whatever the moment at which the link goes, an accepted question is answered once.
#[test]
fn questions_race_with_stop_and_unload_and_none_is_lost() {
    Setup { seeds: 32, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let asker = Asker::load(&bench.alpha, Driver::Ibp);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let mut to = address_of(&beta).0;
        for round in 0..6_u8 {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            let id = link_id(&bench.alpha);
            let mut accepted = Vec::new();
            asker.about(id, BY_LINK_ADDRESS, &to);
            for slot in 0..6 {
                to[19] = to[19].wrapping_add(u8::from(slot % 2 == 0));
                asker.call("probe_byte", 19 << 8 | i64::from(to[19]));
                if asker.ask(slot).is_ok() {
                    accepted.push(slot);
                }
                fakekernel::sleep(Nanos::from_micros(u64::from(round) * 37));
            }
            drop(alpha);
            let deleted = bench.alpha.try_delete_partition();
            assert!(asker.ask(60).is_err(), "a link that is stopped, or gone");
            bench.wait_for("answered", Nanos::from_secs(300), || asker.open() == 0);
            for slot in accepted {
                assert_eq!(asker.told(slot).0, 1, "question {slot} of round {round}");
            }
            if deleted.is_ok() {
                bench.alpha.create_partition();
            }
        }
        asker.unload();
    });
}

#[test]
fn a_question_for_which_there_is_no_memory_is_refused_and_the_next_one_is_not() {
    Setup::default().run(|bench| {
        let asker = Asker::load(&bench.alpha, Driver::Ibd);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        asker.about(0, BY_IPV4, &[255; 4]);
        bench.alpha.kernel.set_fault(FaultKind::KMEM, Some("ibd"), FaultPlan::Nth(0));
        assert_eq!(asker.ask(0), Err(Errno::ENOMEM));
        assert_eq!(asker.ask(0), Ok(()));
        bench.settle();
        assert_eq!(asker.told(0), (1, Ok(())));
        asker.unload();
    });
}

#[test]
fn a_refused_path_is_told_to_the_module_too() {
    Setup::default().run(|bench| {
        let asker = Asker::load(&bench.alpha, Driver::Ibd);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Refuse(Status::NO_RECORDS));
        asker.about(0, BY_LINK_ADDRESS, &address_of(&beta).0);
        assert_eq!(asker.ask(0), Ok(()));
        bench.wait_for("answered", Nanos::from_secs(60), || asker.open() == 0);
        assert_eq!(asker.told(0), (1, Err(ENXIO)));
        assert_eq!(asker.record(0).status(), UNREACHABLE);
        bench.no_faults();
        asker.unload();
    });
}

/// On the link's own node.
fn ask_node(stream: &lab_gldv3::Stream, cred: Cred, question: &[u8]) -> Result<Vec<u8>, Errno> {
    stream.ioctl(cred, record::PATH_INFO as i32, question).map(|(value, bytes)| {
        assert_eq!(value, 0);
        bytes
    })
}

#[test]
fn the_links_own_node_answers_what_dev_dld_answers() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { driver, ..Setup::default() }.run(|bench| {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            let (beta, _) = bench.beta.open_up(PLAIN);
            let question = Record::question(0, BY_LINK_ADDRESS, &address_of(&beta).0).0;
            assert_eq!(ask_node(&alpha, Cred::ROOT, &question), Err(Errno::EAGAIN));
            bench.settle();
            let told = Record(ask_node(&alpha, Cred::ROOT, &question).unwrap().try_into().unwrap());
            assert_eq!((told.neighbour(), told.pkey()), (address_of(&beta).0, 0xffff));
            // Longer than the record: the first bytes count, and as many come back.
            let longer = [&question[..], &[7; 20]].concat();
            assert_eq!(ask_node(&alpha, Cred::ROOT, &longer).unwrap(), told.0);
            for (what, cred, argument, errno) in [
                ("not an administrator", Cred::USER, &question[..], Errno::EPERM),
                ("too short", Cred::ROOT, &question[..115], Errno::EINVAL),
                ("nothing", Cred::ROOT, &[], Errno::EINVAL),
                ("too long", Cred::ROOT, &[0; 300], Errno::EINVAL),
                ("nonsense", Cred::ROOT, &[0xff; 116], Errno::EINVAL),
            ] {
                assert_eq!(ask_node(&alpha, cred, argument), Err(errno), "{what}");
            }
            assert_eq!(alpha.ioctl(Cred::ROOT, 0x6171_0005, &question), Err(Errno::EINVAL));
            bench.alpha.kernel.set_fault(FaultKind::ALLOCB, Some(driver_of(bench)), FaultPlan::Nth(0));
            assert_eq!(ask_node(&alpha, Cred::ROOT, &question), Err(Errno::ENOMEM));
            assert!(ask_node(&alpha, Cred::ROOT, &question).is_ok());
        });
    }
}

fn driver_of(bench: &Bench) -> &'static str {
    bench.alpha.driver().name()
}
