//! What uses a mac, as the mac knows it (`mac_client_impl_t` and its callbacks).

use std::any::Any;
use std::sync::Arc;

use super::{Note, Ring};
use crate::message::{Message, Messages};

/// The client on a mac.
pub(crate) trait Client: Any + Send + Sync {
    /// `mac_rx`: packets have come up, from a receive ring or, for `None`, from none. They are the client's. In the driver's thread.
    fn receive(&self, messages: &Messages<'_>, packets: Vec<Message>, ring: Option<usize>);

    /// `mac_tx_ring_update`, of no ring for `mac_tx_update`: there is room again. Whether anybody waits for that. In the driver's
    /// thread; does not wait.
    fn woken_up(&self, ring: Option<&Arc<Ring>>) -> bool;

    /// The speed may have changed. Inside the perimeter.
    fn recompute_fanout(&self);

    /// Something about the mac has changed. On the thread that delivers such notes; may wait.
    fn notify(&self, note: Note);
}
