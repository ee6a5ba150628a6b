//! Address handles where the adapter has none left: those of addresses that are not in use come back first.

use ibtf::Status;
use ipoib::paths::LookupError;
use kernel::log;

use super::Shared;
use super::neighbour::Neighbour;

/// Addresses that are forgotten for one that gets no handle, in each try.
const GIVE_WAY: usize = 32;
/// Tries after the first one.
const TRIES: usize = 4;

/// Makes a handle. Without resources, forgets addresses that are not in use, frees their handles, and tries again. **May block.**
pub(super) fn make_handle(
    shared: &Shared,
    make: impl Fn() -> Result<Neighbour, Status>,
) -> Result<Neighbour, LookupError> {
    let mut made = make();
    for _ in 0..TRIES {
        let Err(status) = made else { break };
        if !lacks_resources(status) || !give_back(shared) {
            break;
        }
        made = make();
    }
    made.map_err(|status| {
        log!(note, shared.name, "no address handle: {status}");
        if lacks_resources(status) { LookupError::NoHandle } else { LookupError::Unanswered }
    })
}

fn lacks_resources(status: Status) -> bool {
    matches!(status, Status::INSUFF_RESOURCE | Status::INSUFF_KERNEL_RESOURCE)
}

/// Frees handles that are not in use; whether there were some.
#[inline(never)]
fn give_back(shared: &Shared) -> bool {
    let Some((_, pd)) = shared.hardware() else { return false };
    let evicted = shared.control.lock().paths.evict_idle(GIVE_WAY);
    if evicted != 0 {
        // A queue may remember what the table has forgotten, and keep its handle.
        shared.transmitters.iter().for_each(|transmitter| transmitter.forget_withdrawn());
    }
    pd.free_unused() != 0
}
