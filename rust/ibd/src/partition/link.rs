//! A partition's link: made and shown to dls under its data-link id, taken from there and unmade.

use gldv3::ibpart::PartitionError;
use gldv3::{InstanceNumber, LinkId};
use ipoib::PKey;
use kernel::ddi::DevInfo;
use kernel::time::{Duration, sleep};
use kernel::{Errno, MayBlock};

use super::Refusal;
use crate::common::Common;
use crate::link::Link;
use crate::node::Node;

/// See the module's text.
pub(super) struct PartitionLink {
    link: Link,
    /// Whether dls has it. Taking a link from dls that dls does not have (`dls_devnet_destroy`) leaves an entry there that stays until
    /// reboot and keeps the name of the mac from being used again.
    in_dls: bool,
}

impl PartitionLink {
    /// Makes the link of a zone. **May block.**
    pub(super) fn make(
        common: &Common,
        dip: DevInfo,
        node: Node,
        pkey: PKey,
        id: LinkId,
        zone: i32,
        may_block: &MayBlock,
    ) -> Result<Self, Refusal> {
        let number = id.0 as i32;
        let made = Link::attach(dip, node, pkey, InstanceNumber::Allocate, common, number, may_block);
        let link = made.map_err(|error| match error {
            Errno::EIO => (error, Some(PartitionError::NoResource)),
            other => (other, None),
        })?;
        match link.registration().create_devnet(id, zone) {
            Ok(()) => Ok(Self { link, in_dls: true }),
            Err(error) => {
                detach_unseen(link);
                Err((error, None))
            }
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

/// Nobody has seen the link, so nobody opens it; but whoever walks over all MACs holds each for a moment. **May block.**
fn detach_unseen(mut link: Link) {
    while let Err((back, _)) = link.detach() {
        link = back;
        sleep(Duration::from_millis(10));
    }
}
