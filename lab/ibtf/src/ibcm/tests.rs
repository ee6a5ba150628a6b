//! The communication manager on a machine with the embedded subnet manager, without modules.

use std::sync::Arc;

use fabric::{Gid, Guid, HcaConfig};
use fakekernel::{Config, Kernel, Machine, Mode, Nanos, now, sleep};
use illumos_sys_hdrs::{
    B_TRUE, IBT_HCA_PORT_NOT_ACTIVE, IBT_IBMF_TIMEOUT, IBT_INVALID_PARAM, IBT_MC_GROUP_INVALID,
    IBT_MCG_RECORDS_NOT_FOUND, IBT_PATH_RECORDS_NOT_FOUND, IBT_SUCCESS, ibt_mcg_attr_t, ibt_mcg_info_t,
    ibt_status_t,
};
use sm::fault::{Fault, FaultAction};
use sm::partition::{GroupParams, Ports, broadcast_mgid};
use sm::{Attribute, JoinState, Membership, PKey, Partition, SmConfig, Status};

use super::Ibcm;
use super::group::Join;
use super::path::Wanted;
use super::status::IBMF_FAILURE;
use crate::InfiniBand;
use crate::convert::{gid_from_c, gid_to_c};
use crate::ibtl::Ibtl;

/// Two hosts with an HCA of one port each.
struct World {
    ib: InfiniBand,
    hosts: [Kernel; 2],
}

const NODES: [u64; 2] = [0x100, 0x200];

fn port(host: usize) -> Guid {
    Guid(NODES[host] + 1)
}

fn gid(host: usize) -> Gid {
    Gid { prefix: Gid::DEFAULT_PREFIX, guid: port(host).0 }
}

/// Runs `test` once the manager has brought both ports up.
fn run(config: SmConfig, test: impl FnOnce(World) + Send + 'static) {
    let machine = Machine::new(Config { mode: Mode::Virtual { seed: 1 }, ..Config::default() });
    let hosts = ["one", "two"].map(|name| machine.add_host(name));
    let ib = InfiniBand::new(&machine, 1);
    let outcome = machine.run(move || {
        for (host, node) in hosts.iter().zip(NODES) {
            host.scope(|| {
                crate::provide(host);
                ib.add_hca(host, HcaConfig::new(Guid(node), 1)).unwrap();
            });
        }
        ib.start_sm(config, Nanos::from_millis(5));
        let world = World { ib, hosts };
        world.settle();
        test(world);
    });
    if let Err(halt) = outcome {
        panic!("{halt}");
    }
}

fn open() -> SmConfig {
    SmConfig::default()
}

fn broadcast() -> Gid {
    broadcast_mgid(PKey::DEFAULT_FULL, 2)
}

fn ipv4(group: u64) -> Gid {
    Gid { prefix: 0xff12_401b_ffff_0000, guid: 0x0e00_0000 + group }
}

/// What an IPoIB driver asks for.
fn attr(mgid: Gid, state: u8) -> ibt_mcg_attr_t {
    let mut attr =
        ibt_mcg_attr_t { mc_mgid: gid_to_c(mgid), mc_qkey: 0xb1b, mc_pkey: 0xffff, ..Default::default() };
    attr.set_mc_scope(2);
    attr.set_mc_join_state(state);
    attr
}

impl World {
    fn ibcm(&self, host: usize) -> Arc<Ibcm> {
        Ibcm::of(&self.hosts[host])
    }

    /// Lets events, sweeps and routes take effect.
    fn settle(&self) {
        sleep(Nanos::from_millis(50));
    }

    fn join(&self, host: usize, mgid: Gid, state: u8) -> Result<ibt_mcg_info_t, ibt_status_t> {
        self.hosts[host].scope(|| {
            let ibcm = self.ibcm(host);
            Join::check(&ibcm, gid(host), &attr(mgid, state))?.run(&ibcm)
        })
    }

    fn leave(&self, host: usize, mgid: Gid, state: u8) -> Result<(), ibt_status_t> {
        let ibcm = self.ibcm(host);
        self.hosts[host].scope(|| ibcm.leave(gid(host), mgid, Gid::default(), JoinState::truncating(state)))
    }

    fn path(&self, host: usize, to: Gid, p_key: u16) -> (ibt_status_t, Option<super::path::Path>) {
        let wanted = Wanted {
            flags: illumos_sys_hdrs::IBT_PATH_PKEY.0,
            dgids: vec![to],
            sgid: gid(host),
            p_key,
            max: 1,
            ..Wanted::default()
        };
        let (status, mut paths) = self.hosts[host].scope(|| self.ibcm(host).get_paths(&wanted));
        (status, paths.pop())
    }

    fn members(&self, mgid: Gid) -> usize {
        let sm = self.ib.sm().unwrap();
        sm.inspect(|sm| {
            let group = sm
                .sa()
                .groups()
                .find(|(record, _)| (record.mgid.prefix, record.mgid.guid) == (mgid.prefix, mgid.guid));
            group.map_or(0, |(_, members)| members.len())
        })
    }

    fn requests(&self) -> u64 {
        self.ib.sm().unwrap().inspect(|sm| sm.sa().counters().received)
    }

    fn fault(&self, attribute: Attribute, action: FaultAction, count: Option<u32>) {
        let fault = Fault { attribute: Some(attribute), count, ..Fault::always(action) };
        self.ib.sm().unwrap().faults(|script| script.push(fault));
    }
}

#[test]
fn a_join_tells_all_an_address_handle_and_an_attach_need() {
    run(open(), |world| {
        let info = world.join(0, broadcast(), 1).unwrap();
        let vector = info.mc_adds_vect;
        assert_eq!(gid_from_c(vector.av_dgid), broadcast());
        assert_eq!(gid_from_c(vector.av_sgid), gid(0));
        assert_eq!((vector.av_opaque1, vector.av_opaque2, vector.av_port_num), (B_TRUE, 0xc000, 1));
        assert_eq!((info.mc_qkey, info.mc_pkey_ix, info.mc_mtu.0, info.mc_scope()), (0xb1b, 0, 4, 2));
        assert_eq!(world.members(broadcast()), 1);
    });
}

#[test]
fn joins_are_counted_and_the_last_leave_takes_all_states_along() {
    run(open(), |world| {
        world.join(0, broadcast(), 1).unwrap();
        world.join(1, broadcast(), 1).unwrap();
        world.join(0, broadcast(), 4).unwrap();
        let before = world.requests();
        assert_eq!(world.leave(0, broadcast(), 1), Ok(()));
        assert_eq!(world.requests(), before, "the administrator is not asked");
        assert_eq!(world.members(broadcast()), 2);
        assert_eq!(world.leave(0, broadcast(), 1), Ok(()));
        assert_eq!(world.members(broadcast()), 1);
        assert_eq!(
            world.leave(0, broadcast(), 1),
            Err(IBT_MC_GROUP_INVALID),
            "as given, and nobody is there"
        );
    });
}

#[test]
fn refusals_of_the_administrator_become_ibtfs_statuses() {
    run(open(), |world| {
        let other_key = Gid { prefix: 0xff12_401b_8001_0000, guid: 1 };
        assert_eq!(
            world.join(0, other_key, 1).err(),
            Some(IBT_MCG_RECORDS_NOT_FOUND),
            "no broadcast group there"
        );
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Refuse(Status::NO_RESOURCES), Some(1));
        assert_eq!(world.join(0, ipv4(1), 1).err(), Some(IBMF_FAILURE));
        assert_eq!(world.join(0, broadcast(), 0).err(), Some(IBT_INVALID_PARAM), "no join state");
        assert_eq!(world.path(0, gid(1), 0x8001).0, IBT_PATH_RECORDS_NOT_FOUND);
        let nowhere = Gid { prefix: 0x1234, guid: 1 };
        let ibcm = world.ibcm(0);
        let elsewhere = world.hosts[0].scope(|| Join::check(&ibcm, nowhere, &attr(broadcast(), 1)).err());
        assert_eq!(elsewhere, Some(IBT_INVALID_PARAM), "no port of this host");
    });
}

#[test]
fn a_group_is_reached_only_after_joining_it() {
    run(open(), |world| {
        assert_eq!(world.path(0, broadcast(), 0xffff).0, IBT_PATH_RECORDS_NOT_FOUND);
        world.join(0, broadcast(), 1).unwrap();
        let (status, path) = world.path(0, broadcast(), 0xffff);
        assert_eq!(status, IBT_SUCCESS);
        let path = path.unwrap().to_c().pi_prim_cep_path.cep_adds_vect;
        assert_eq!((path.av_opaque1, path.av_opaque2), (B_TRUE, 0xc000));
    });
}

#[test]
fn a_path_is_asked_for_once_a_minute_until_the_subnet_changes() {
    run(open(), |world| {
        let asked = |world: &World| {
            let before = world.requests();
            assert_eq!(world.path(0, gid(1), 0xffff).0, IBT_SUCCESS);
            world.requests() != before
        };
        assert!(asked(&world));
        assert!(!asked(&world));
        sleep(Nanos::from_secs(60));
        assert!(asked(&world), "a minute is over");
        assert!(!asked(&world));
        world.ib.set_cable(port(1), false);
        world.settle();
        world.ib.set_cable(port(1), true);
        world.settle();
        assert!(asked(&world), "a port went out of service and came back");
        world.ib.sm().unwrap().restart(sm::Lid(0xc000));
        world.settle();
        assert!(asked(&world), "clients were asked to register anew");
    });
}

#[test]
fn a_silent_administrator_is_given_up_after_its_time_and_one_that_lives_is_waited_for() {
    run(open(), |world| {
        // 4.096 us * 2^16 for the administrator and twice 4.096 us * 2^18 for the subnet.
        let timeout = (4_096 << 16) + 2 * (4_096 << 18);
        world.fault(Attribute::PATH_RECORD, FaultAction::Silent, Some(2));
        let begun = now();
        assert_eq!(world.path(0, gid(1), 0xffff).0, IBT_SUCCESS, "the third request is answered");
        assert_eq!((now() - begun).0, 2 * timeout);
        sleep(Nanos::from_secs(120));
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Silent, None);
        let begun = now();
        assert_eq!(world.join(0, ipv4(1), 1).err(), Some(IBT_IBMF_TIMEOUT), "no sign of life for a minute");
        assert_eq!((now() - begun).0, timeout);
    });
}

#[test]
fn a_busy_administrator_is_asked_again_every_second_ten_times() {
    run(open(), |world| {
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Refuse(Status::BUSY), Some(3));
        let begun = now();
        world.join(0, broadcast(), 1).unwrap();
        assert_eq!(now() - begun, Nanos::from_secs(3));
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Refuse(Status::BUSY), Some(11));
        let begun = now();
        let answer = world.join(0, ipv4(1), 1).err();
        assert_eq!(
            answer,
            Some(IBT_MCG_RECORDS_NOT_FOUND),
            "a status that ibmf has no word for is an invalid request"
        );
        assert_eq!(now() - begun, Nanos::from_secs(10));
    });
}

#[test]
fn a_redirection_is_followed_ten_times_and_one_to_nowhere_is_not() {
    run(open(), |world| {
        let own = world.ib.sm().unwrap().inspect(sm::Sm::lid);
        world.fault(Attribute::PATH_RECORD, FaultAction::Redirect(own), Some(10));
        assert_eq!(world.path(0, gid(1), 0xffff).0, IBT_SUCCESS);
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Redirect(own), Some(11));
        assert_eq!(world.join(0, broadcast(), 1).err(), Some(IBT_MCG_RECORDS_NOT_FOUND));
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Redirect(sm::Lid::NONE), Some(1));
        assert_eq!(world.join(0, broadcast(), 1).err(), Some(IBMF_FAILURE));
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Redirect(sm::Lid(0x77)), Some(1));
        let begun = now();
        world.join(0, broadcast(), 1).unwrap();
        assert!(now() > begun, "nobody answers there, and the administrator the port knows is asked again");
    });
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_the_next_request() {
    run(open(), |world| {
        let late = Nanos::from_secs(4);
        world.fault(Attribute::PATH_RECORD, FaultAction::Delay(sm::Nanos(late.0)), Some(1));
        let (status, path) = world.path(0, gid(1), 0xffff);
        assert_eq!(status, IBT_SUCCESS);
        assert_eq!(path.unwrap().record.dgid.guid, port(1).0);
        let (_, path) = world.path(0, gid(0), 0xffff);
        assert_eq!(path.unwrap().record.dgid.guid, port(0).0);
        sleep(late);
        let (_, path) = world.path(0, gid(1), 0xffff);
        assert_eq!(path.unwrap().record.dgid.guid, port(1).0);
    });
}

#[test]
fn a_limited_member_joins_without_a_p_key_index_and_finds_no_path() {
    let partition = Partition::new("p", PKey(1))
        .with_members(Ports::All, Membership::Full)
        .with_members(Ports::One(port(0)), Membership::Limited)
        .with_ipoib(GroupParams::default());
    let config = SmConfig { partitions: vec![Partition::default_open(), partition], ..SmConfig::default() };
    run(config, |world| {
        let mgid = Gid { prefix: 0xff12_401b_8001_0000, guid: 0xffff_ffff };
        let limited = ibt_mcg_attr_t { mc_pkey: 0x0001, ..attr(mgid, 1) };
        let ibcm = world.ibcm(0);
        let info = world.hosts[0].scope(|| Join::check(&ibcm, gid(0), &limited).unwrap().run(&ibcm)).unwrap();
        assert_eq!(info.mc_pkey_ix, 0, "0x8001 is not in its table");
        assert_eq!(world.path(0, mgid, 0x8001).0, IBT_PATH_RECORDS_NOT_FOUND);
        assert_eq!(world.path(0, mgid, 0x0001).0, IBT_PATH_RECORDS_NOT_FOUND);
    });
}

#[test]
fn after_a_flap_or_a_restart_joins_are_gone_at_the_administrator_and_counted_here() {
    run(open(), |world| {
        world.join(0, broadcast(), 1).unwrap();
        world.ib.set_cable(port(0), false);
        world.settle();
        assert_eq!(world.join(0, ipv4(1), 1).err(), Some(IBT_INVALID_PARAM), "no ACTIVE port has the GID");
        assert_eq!(world.path(0, gid(1), 0xffff).0, IBT_HCA_PORT_NOT_ACTIVE);
        world.ib.set_cable(port(0), true);
        world.settle();
        assert_eq!(world.members(broadcast()), 0);
        assert_eq!(
            world.leave(0, broadcast(), 1),
            Err(IBT_MC_GROUP_INVALID),
            "leave, then join: the leave fails"
        );
        world.join(0, broadcast(), 1).unwrap();
        world.ib.sm().unwrap().restart(sm::Lid(0xc020));
        world.settle();
        assert_eq!(world.members(broadcast()), 0);
        let info = world.join(0, broadcast(), 1).unwrap();
        assert_eq!(info.mc_adds_vect.av_opaque2, 0xc020);
    });
}

#[test]
fn at_most_eight_calls_are_out_at_a_time() {
    run(open(), |world| {
        world.fault(Attribute::MC_MEMBER_RECORD, FaultAction::Delay(sm::Nanos::from_millis(100)), None);
        let world = Arc::new(world);
        let begun = now();
        let threads: Vec<_> = (1..=17)
            .map(|group| {
                let world = world.clone();
                let host = world.hosts[0].clone();
                host.spawn("client", fakekernel::Ctx::Kernel, move || {
                    world.join(0, ipv4(group), 1).unwrap();
                })
            })
            .collect();
        for thread in threads {
            thread.join();
        }
        assert_eq!(
            (now() - begun).as_millis(),
            400,
            "eight, then those that wait by fours: four, four and one"
        );
    });
}

#[test]
fn a_port_is_available_again_after_its_subscriptions_failed() {
    run(open(), |world| {
        let ibtl = Ibtl::of(&world.hosts[0]);
        let device = ibtl.device(NODES[0]).unwrap();
        let session =
            world.hosts[0].scope(|| world.ibcm(0).session(&device, &device.cached_port(1).unwrap())).unwrap();
        assert!(session.is_available());
        world.fault(Attribute::INFORM_INFO, FaultAction::Refuse(Status::NO_RESOURCES), Some(2));
        world.ib.sm().unwrap().restart(sm::Lid(0xc000));
        world.settle();
        assert!(!session.is_available());
        world.ib.sm().unwrap().restart(sm::Lid(0xc000));
        world.settle();
        assert!(session.is_available());
    });
}
