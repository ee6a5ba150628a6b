//! A plugin's operation on a link of this host.

use crate::dls::find_link;
use crate::plugin::Plugin;

impl Plugin {
    /// `link_details` of a link's mac into a buffer of `size` bytes. `None` when there is no such link, or the plugin has no such
    /// operation.
    pub fn link_details(&self, link: &str, size: usize) -> Option<String> {
        let (_, link) = find_link(&self.kernel, link).ok()?;
        self.details_of(link.mac.as_handle(), size)
    }
}
