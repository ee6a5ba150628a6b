//! The module's links by number, for those who ask about neighbours: `ibp`'s by data-link id, `ibd`'s by instance.

use ibtf::{Asker, PathRecord, PathService};
use kernel::list::{List, Room};
use kernel::sync::Mutex;
use kernel::{Errno, KArc, MayBlock};

use crate::link::Shared;

/// All links that can be asked.
pub(crate) struct Directory {
    links: Mutex<List<Entry>>,
}

struct Entry {
    /// The number it has in kstats and questions.
    number: i32,
    shared: KArc<Shared>,
    /// Whether it takes questions.
    open: bool,
}

/// A link's place, given up when this is dropped.
pub(crate) struct Listing {
    directory: KArc<Directory>,
    number: i32,
}

impl Directory {
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Self> {
        KArc::new_waiting(Self { links: Mutex::new_waiting(List::new(), may_block) }, may_block)
    }

    /// A place for a link, which takes no questions yet.
    pub(crate) fn list(
        directory: &KArc<Self>,
        number: i32,
        shared: KArc<Shared>,
        may_block: &MayBlock,
    ) -> Listing {
        let room = Room::new_waiting(may_block);
        directory.links.lock().put(room, Entry { number, shared, open: false });
        Listing { directory: directory.clone(), number }
    }

    /// What a link knows of a neighbour. `ENOENT` if there is no such link.
    pub(crate) fn tell_path(&self, record: &mut PathRecord) -> Result<(), Errno> {
        let links = self.links.lock();
        find(&links, record).ok_or(Errno::ENOENT)?.shared.tell_path(record)
    }
}

fn find<'a>(links: &'a List<Entry>, record: &PathRecord) -> Option<&'a Entry> {
    links.iter().find(|entry| entry.open && entry.number as u32 == record.link)
}

impl PathService for Directory {
    fn lookup(&self, question: &PathRecord, asker: Asker) -> Result<(), (Errno, Asker)> {
        let links = self.links.lock();
        match find(&links, question) {
            Some(entry) => entry.shared.look_up(question, asker),
            None => Err((Errno::ENOENT, asker)),
        }
    }
}

impl Listing {
    /// Whether questions are taken from now on.
    pub(crate) fn take_questions(&self, open: bool) {
        if let Some(entry) = self.directory.links.lock().find_mut(|entry| entry.number == self.number) {
            entry.open = open;
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let entry = self.directory.links.lock().take(|entry| entry.number == self.number);
        drop(entry);
    }
}
