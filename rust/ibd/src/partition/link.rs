//! A partition's link: made and shown to dls under its data-link id, taken from there and unmade.

use gldv3::ibpart::PartitionError;
use gldv3::{InstanceNumber, LinkId};
use ipoib::PKey;
use kernel::ddi::DevInfo;
use kernel::time::{Duration, Instant, sleep};
use kernel::{Errno, MayBlock};

use super::Refusal;
use crate::common::Common;
use crate::link::Link;
use crate::node::Node;

/// How long a creation that has failed waits for others to let go of its mac, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(10);

/// See the module's text.
pub(super) struct PartitionLink {
    link: Link,
    /// Whether dls has it. Taking a link from dls that dls does not have (`dls_devnet_destroy`) leaves an entry there that stays until
    /// reboot and keeps the name of the mac from being used again.
    in_dls: bool,
}

impl PartitionLink {
    /// Makes the link of a zone. One that dls did not take, and that another client holds, comes with the error: it is to be [undone](Self::undo) later.
    /// **May block.**
    #[inline(never)]
    pub(super) fn make(
        common: &Common,
        dip: DevInfo,
        node: Node,
        pkey: PKey,
        id: LinkId,
        zone: i32,
        may_block: &MayBlock,
    ) -> Result<Self, (Refusal, Option<Self>)> {
        let number = id.0 as i32;
        let made = Link::attach(dip, node, pkey, InstanceNumber::Allocate, common, number, may_block);
        let link = made.map_err(|error| match error {
            Errno::EIO => ((error, Some(PartitionError::NoResource)), None),
            other => ((other, None), None),
        })?;
        match link.registration().create_devnet(id, zone) {
            Ok(()) => Ok(Self { link, in_dls: true }),
            Err(error) => Err(((error, None), Self { link, in_dls: false }.undo(PATIENCE).err())),
        }
    }

    /// Undoes a link that dls does not have, or hands it back. No client has seen it, so none opens it; but a walk over all MACs holds
    /// each for a moment. **May block**, little longer than the `patience`.
    pub(super) fn undo(self, patience: Duration) -> Result<(), Self> {
        let deadline = Instant::now() + patience;
        let mut link = self.link;
        loop {
            match link.detach() {
                Ok(()) => return Ok(()),
                Err((back, _)) if Instant::now() >= deadline => {
                    return Err(Self { link: back, in_dls: false });
                }
                Err((back, _)) => link = back,
            }
            sleep(AGAIN);
        }
    }

    /// Unmakes the link of a zone, or hands it back: `EBUSY` while somebody uses it. **May block.**
    pub(super) fn unmake(self, id: LinkId, zone: i32) -> Result<(), (Self, Errno)> {
        // Asked before dls is told, which may not take back what it has given up.
        if !self.link.is_unused() {
            return Err((self, Errno::EBUSY));
        }
        if self.in_dls
            && let Err(error) = self.link.registration().destroy_devnet(true)
        {
            return Err((self, error));
        }
        match self.link.detach() {
            Ok(()) => Ok(()),
            // A client of the mac that is none of dls's, or one that came this moment.
            Err((link, error)) => {
                let in_dls = link.give_back(id, zone);
                Err((Self { link, in_dls }, error))
            }
        }
    }
}
