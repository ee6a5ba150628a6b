//! The lab's InfiniBand Transport Framework: `misc/ibtl`, `misc/ibcm` and `misc/ibmf` as an illumos driver finds them, over
//! the software fabric, and the fabric with its subnet manager as the lab handles them.

mod adapter;
mod convert;
mod dma;
mod ibcm;
mod ibtl;
pub mod nexus;
mod os;
mod ptr;
pub mod saa;
mod status;
mod tasks;
pub mod umad;
mod world;

pub use ibcm::Connected;
pub use ibcm::arp::{LinkPort, port_of_link};
pub use ibtl::{
    ChannelShown, Closing, CqShown, Stranger, Told, channels, close_channel, connect_channel,
    recycle_channel, times_established,
};
pub use world::{Capture, FABRIC_HOST, InfiniBand, RemoveError};

use fakekernel::{FaultKind, Kernel};

/// The calls of IBTF that can be made to fail, beside what they allocate.
pub const FAULT_KINDS: [FaultKind; 20] = [
    FaultKind("ibt_alloc_cq"),
    FaultKind("ibt_alloc_pd"),
    FaultKind("ibt_alloc_srq"),
    FaultKind("ibt_alloc_ud_channel"),
    FaultKind("ibt_alloc_ud_dest"),
    FaultKind("ibt_attach"),
    FaultKind("ibt_attach_mcg"),
    FaultKind("ibt_enable_cq_notify"),
    FaultKind("ibt_get_paths"),
    FaultKind("ibt_join_mcg"),
    FaultKind("ibt_map_mem_iov"),
    FaultKind("ibt_modify_cq"),
    FaultKind("ibt_modify_ud_dest"),
    FaultKind("ibt_open_hca"),
    FaultKind("ibt_post_recv"),
    FaultKind("ibt_post_send"),
    FaultKind("ibt_query_hca_ports"),
    FaultKind("ibt_query_mcg"),
    FaultKind("ibt_query_ud_channel"),
    FaultKind("ibt_register_mr"),
];

/// Adds `misc/ibtl`, `misc/ibcm` and `misc/ibmf` to a host. Before any module is loaded.
pub fn provide(kernel: &Kernel) {
    ibtl::provide(kernel);
    ibcm::provide(kernel);
    saa::provide(kernel);
    adapter::driver::provide(kernel);
}

/// How long each command of a host to its adapters takes from now on, at least and at most: making, changing and freeing of
/// queues, protection domains and memory regions, attaching to groups, asking for ports. `None`: no time.
pub fn set_command_time(host: &Kernel, time: Option<(fakekernel::Nanos, fakekernel::Nanos)>) {
    ibtl::set_command_time(host, time);
}

/// How long each of a host's connections stands from now on before its client is told so. `None`: no time.
pub fn set_telling_time(host: &Kernel, time: Option<fakekernel::Nanos>) {
    ibcm::Ibcm::of(host).set_telling_time(time);
}

/// How long `ibcm` goes on with the channel of an open or an offer of a host's that is given up or refused, from the error state of its queue pair on,
/// before the two do not know each other any more. `None`: no time.
pub fn set_aborting_time(host: &Kernel, time: Option<fakekernel::Nanos>) {
    ibcm::Ibcm::of(host).set_aborting_time(time);
}

/// Another client of IBTL's comes to a host, whose slow handlers run in IBTL's threads (`IBT_CQ_HANDLER_IN_THREAD`) in front of those of
/// whoever else has them there; it takes the place of the one before. `None`: it goes.
pub fn set_stranger(host: &Kernel, stranger: Option<Stranger>) {
    ibtl::set_stranger(host, stranger);
}

/// How the ports of the loaded adapters of a host reach subnet administration: in datagrams over queue pairs of their own.
pub fn wire(host: &Kernel) -> std::sync::Arc<dyn sm::SaTransport> {
    adapter::Wire::of(host)
}

/// What a loaded adapter answers to a queue pair of datagrams on the CQ of a port's queue pair 1, and to a queue pair 1 on the CQ of another
/// one. `None` if the port has no queue pairs of management.
pub fn mix_kinds(host: &Kernel, port: sm::Guid) -> Option<[Result<(), u32>; 2]> {
    adapter::Wire::of(host).mix_kinds(port)
}

/// The groups that a port of the subnet is in, as the administrator tells a host that asks for them; its members other than that port are
/// not in the answer. May block, for minutes.
///
/// # Errors
///
/// Why there is no answer.
pub fn groups_of(host: &Kernel, port: fabric::Guid) -> Result<Vec<saa::GroupMembers>, String> {
    ibcm::Ibcm::of(host).groups_of(port)
}

/// Whether a host's `ibcm` asks the administrator for the way to a port whose GID has another prefix than the source. That of illumos does not
/// (`ibcm_get_single_pathrec`): it says that there is no path. One that does shows what a driver makes of a path through a router.
pub fn set_paths_beyond(host: &Kernel, asks: bool) {
    ibcm::Ibcm::of(host).set_paths_beyond(asks);
}

/// Whether a port's subscriptions at the administrator stand. Where it has refused one, nothing tells a driver that a group has appeared,
/// until IBTF subscribes anew: at the next change of the port or of the subnet manager.
pub fn is_subscribed(host: &Kernel, port: sm::Guid) -> bool {
    ibcm::Ibcm::of(host).is_subscribed(port)
}

/// The connections of a host's communication manager, counted.
pub fn connected(host: &Kernel) -> Connected {
    ibcm::Ibcm::of(host).connected()
}

/// Groups (MGID) and ports (GID) of a host that the administrator may still have as members although the driver is none: a leave is
/// counted even while the port is down or gone, and then nobody can tell the administrator, now or later; and a join whose port goes down
/// fails, though the administrator may grant it later.
pub fn untold_leaves(host: &Kernel) -> Vec<(fabric::Gid, fabric::Gid)> {
    ibcm::Ibcm::of(host).untold_leaves()
}

/// How many joins of a host `ibcm` counts, by group (MGID) and port (GUID): joins that no leave has undone.
pub fn joins(host: &Kernel) -> Vec<((fabric::Gid, u64), u32)> {
    ibcm::Ibcm::of(host).joins_counted()
}

/// Groups (MGID) and ports (GUID) of a host that more roles were joined in than joins are left: `ibcm` tells the administrator of the last leave only,
/// which ends all roles.
pub fn ended_with_the_last(host: &Kernel) -> Vec<(fabric::Gid, u64)> {
    ibcm::Ibcm::of(host).ended_with_the_last()
}

/// Groups (MGID) and ports (GUID) of a host whose leaves the administrator has refused, and how often; but for those that were joined in the same
/// state since and stay so.
pub fn refused_leaves(host: &Kernel) -> Vec<((fabric::Gid, u64), u32)> {
    ibcm::Ibcm::of(host).refused_leaves()
}
