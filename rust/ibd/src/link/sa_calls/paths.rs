//! Path queries.

use core::time::Duration;

use ibtf::{PathInfo, PathRequest, Status};
use ipoib::paths::{Followed, LookupError, Resolution};
use ipoib::window::End;
use ipoib::{Gid, Lid, LinkAddr, Rate, link};
use kernel::{KArc, log};

use super::end;
use crate::counters::Asked;
use crate::link::Shared;
use crate::link::handles::make_handle;
use crate::link::neighbour::Neighbour;
use crate::link::worker::tell_narrow;
use crate::node::{gid, ibtf_gid};
use crate::now;

/// How long the way to an address's port is used that the SA was not asked for, if it is in no doubt. The SA is asked then, and nobody waits
/// for it.
const NOT_ASKED: Duration = Duration::from_secs(30);

/// Asks for the path between two GIDs in the link's partition.
fn path(shared: &Shared, from: Gid, to: Gid) -> Result<PathInfo, Status> {
    // The adapter itself is let go of before the wait: whoever removes it does not wait for the SA.
    let client = shared.hardware().map(|(hca, _)| hca.client().clone()).ok_or(Status::HCA_INVALID)?;
    let found = client.path(&PathRequest {
        sgid: ibtf_gid(from),
        dgid: ibtf_gid(to),
        pkey: Some(shared.pkey.get()),
        ..Default::default()
    });
    if from.prefix != to.prefix && matches!(found, Err(Status::PATH_RECORDS_NOT_FOUND)) {
        other_subnet(shared, to);
    }
    let path = found?;
    // ibcm takes the first record, whichever port it is about. Of one port the SA may name another prefix than was asked for.
    if path.address.dgid.guid == to.guid {
        Ok(path)
    } else {
        Err(other_port(shared, to, gid(path.address.dgid)))
    }
}

/// ibcm does not ask the SA for a path to another prefix (`ibcm_get_single_pathrec`), so the SA is not to blame.
#[inline(never)]
fn other_subnet(shared: &Shared, to: Gid) {
    log!(note, shared.name, "no path to {to:?}: IBTF finds none to another InfiniBand subnet");
}

#[inline(never)]
fn other_port(shared: &Shared, to: Gid, told: Gid) -> Status {
    log!(warn, shared.name, "the SA's path to {to:?} is one to {told:?}: asking again");
    Status::INVALID_PARAM
}

/// Asks for the path to a port.
#[inline(never)]
pub(super) fn lookup(shared: &KArc<Shared>, to: LinkAddr) -> End {
    let found = shared.ask(Asked::Path, to.gid(), || match shared.port_gid() {
        Some(port) => path(shared, port, to.gid()),
        None => Err(Status::HCA_PORT_NOT_ACTIVE),
    });
    let end = end(&found);
    path_found(shared, to, found, None);
    end
}

/// Has the way to an address lead where another address of its port is.
pub(in crate::link) fn follow_port(shared: &KArc<Shared>, to: LinkAddr, way: PathInfo, followed: Followed) {
    path_found(shared, to, Ok(way), Some(followed));
}

/// Asks how fast the way from the port to itself is.
#[inline(never)]
pub(super) fn ask_rate(shared: &KArc<Shared>, port: Gid) -> End {
    let told = shared.ask(Asked::Path, port, || path(shared, port, port));
    rate_told(shared, port, &told);
    end(&told)
}

fn rate_told(shared: &Shared, port: Gid, result: &Result<PathInfo, Status>) {
    let code = result.as_ref().ok().and_then(|path| u8::try_from(path.address.rate).ok());
    let rate = code.and_then(Rate::from_code);
    shared.tell(|control| control.link.handle_event(now(), link::Event::Rate(port, rate)));
}

#[inline(never)]
fn path_found(
    shared: &KArc<Shared>,
    to: LinkAddr,
    result: Result<PathInfo, Status>,
    followed: Option<Followed>,
) {
    let (group, _) = shared.broadcast_and_port();
    let made = result.map_err(lookup_error).and_then(|path| match (shared.hardware(), group) {
        _ if Lid::new(path.address.dlid).is_none() => {
            log!(
                warn,
                shared.name,
                "the SA's path to {:?} leads to LID {:#06x}, which no port has",
                to.gid(),
                path.address.dlid
            );
            Err(LookupError::Unanswered)
        }
        (Some((_, pd)), Some(group)) => {
            make_handle(shared, || Neighbour::port(&pd, &shared.rates, to.qpn(), group.qkey, &path))
        }
        _ => Err(LookupError::Unanswered),
    });
    let made = made.inspect(|to| tell_narrow(shared, to));
    let refresh = followed.map(|_| NOT_ASKED);
    let result = made.map(|handle| Resolution { handle, refresh, followed });
    shared.tell(|control| control.looked_up(now(), to, result));
}

fn lookup_error(status: Status) -> LookupError {
    match status {
        Status::PATH_RECORDS_NOT_FOUND => LookupError::Absent,
        _ => LookupError::Unanswered,
    }
}
