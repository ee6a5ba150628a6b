//! `dls`: links by name and number, streams on them, and the link management daemon.

mod control;
mod devnet;
mod link;
mod management;
mod receive;
mod softmac;
mod stream;
mod tx;

use fakekernel::Export;

pub(crate) use devnet::{Devnets, find_link, rename as rename_link};
pub(crate) use management::{Class, Management};
pub(crate) use softmac::Softmac;
pub(crate) use stream::{Kept, Open};

pub(crate) fn exports() -> Vec<Export> {
    [devnet::exports(), management::exports()].concat()
}
