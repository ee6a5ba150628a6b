//! `list_create(9F)`: doubly linked lists through a node in each object, in the very layout that the C macros read (rule 44).
//! Which nodes are linked is kept beside them, for whoever frees the memory they are in (rule 9).

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

use illumos_sys_hdrs::{list_node_t, list_t};
use sim::{HostMutex, Rule, current};

use crate::export;
use crate::loader::cx::cx;
use crate::loader::export::Export;

pub(super) fn exports() -> Vec<Export> {
    let exports = export! {
        ANY: list_create, list_destroy, list_head, list_tail, list_next, list_prev, list_insert_head, list_insert_tail,
            list_insert_after, list_insert_before, list_remove, list_remove_head, list_remove_tail, list_is_empty,
            list_link_active, list_move_tail;
    };
    exports.into_iter().map(Export::leaf).collect()
}

/// The nodes of a host that are linked, by address.
#[derive(Debug, Default)]
pub(crate) struct Linked(HostMutex<BTreeSet<usize>>);

impl Linked {
    /// The first one in a range.
    pub(super) fn first_in(&self, start: usize, len: usize) -> Option<usize> {
        self.0.lock().range(start..start.saturating_add(len)).next().copied()
    }

    /// The memory is gone.
    pub(super) fn forget(&self, start: usize, len: usize) {
        let mut nodes = self.0.lock();
        while let Some(node) = nodes.range(start..start.saturating_add(len)).next().copied() {
            nodes.remove(&node);
        }
    }
}

/// A list the caller vouches for.
#[derive(Clone, Copy)]
struct List(*mut list_t);

impl List {
    /// # Safety
    ///
    /// `list` points to an initialised `list_t` of which nobody else makes use during the call, and so do the objects in it.
    unsafe fn new(list: *mut list_t) -> Self {
        Self(list)
    }

    fn head(self) -> *mut list_node_t {
        self.0.wrapping_byte_add(offset_of!(list_t, list_head)).cast()
    }

    fn offset(self) -> usize {
        // SAFETY: by the contract of `new`.
        unsafe { self.0.read() }.list_offset
    }

    fn node(self, object: *mut c_void) -> *mut list_node_t {
        object.wrapping_byte_add(self.offset()).cast()
    }

    /// The object around a node, null for the head.
    fn object(self, node: *mut list_node_t) -> *mut c_void {
        if node == self.head() { ptr::null_mut() } else { node.wrapping_byte_sub(self.offset()).cast() }
    }

    fn next(self, node: *mut list_node_t) -> *mut list_node_t {
        // SAFETY: nodes of a list are live by the contract of `new`.
        unsafe { node.read() }.list_next
    }

    fn prev(self, node: *mut list_node_t) -> *mut list_node_t {
        // SAFETY: as above.
        unsafe { node.read() }.list_prev
    }

    fn set(self, node: *mut list_node_t, prev: *mut list_node_t, next: *mut list_node_t) {
        // SAFETY: nodes of a list and of objects to be inserted are live by the contract of `new`.
        unsafe { node.write(list_node_t { list_next: next, list_prev: prev }) };
    }

    fn set_next(self, node: *mut list_node_t, next: *mut list_node_t) {
        self.set(node, self.prev(node), next);
    }

    fn set_prev(self, node: *mut list_node_t, prev: *mut list_node_t) {
        self.set(node, prev, self.next(node));
    }

    /// Whether a node's links are set. A node in memory that nobody initialised is not: the kernel does not ask for that.
    fn is_linked(self, node: *mut list_node_t) -> bool {
        const NOBODY: [usize; 2] = [0, 0xbadd_cafe_badd_cafe];
        !NOBODY.contains(&self.next(node).addr()) || !NOBODY.contains(&self.prev(node).addr())
    }

    fn is_empty(self) -> bool {
        self.next(self.head()) == self.head()
    }

    fn insert_after(self, place: *mut list_node_t, object: *mut c_void) {
        let node = self.node(object);
        let books = !current::is_unchecked();
        if books && self.is_linked(node) {
            cx().violate(
                Rule::BadList,
                format!("{:#x} is inserted although its node is linked", object.addr()),
            );
        }
        let next = self.next(place);
        self.set(node, place, next);
        self.set_next(place, node);
        self.set_prev(next, node);
        if books {
            cx().kernel().genunix().linked.0.lock().insert(node.addr());
        }
    }

    fn unlink(self, node: *mut list_node_t) -> *mut c_void {
        let (prev, next) = (self.prev(node), self.next(node));
        let object = node.wrapping_byte_sub(self.offset()).cast::<c_void>();
        if prev.is_null() || next.is_null() || self.next(prev) != node || self.prev(next) != node {
            cx().violate(
                Rule::BadList,
                format!("{:#x} is removed although its node is not linked", object.addr()),
            );
            return object;
        }
        self.set_next(prev, next);
        self.set_prev(next, prev);
        self.set(node, ptr::null_mut(), ptr::null_mut());
        if !current::is_unchecked() {
            cx().kernel().genunix().linked.0.lock().remove(&node.addr());
        }
        object
    }
}

unsafe extern "C" fn list_create(list: *mut list_t, size: usize, offset: usize) {
    let fits = size >= offset.saturating_add(size_of::<list_node_t>());
    if !fits {
        cx().violate(
            Rule::AbsurdArgument,
            format!("list_create: no room for a node at {offset} of {size} bytes"),
        );
    }
    let head = list_node_t { list_next: ptr::null_mut(), list_prev: ptr::null_mut() };
    // SAFETY: list_create(9F): room for a list, nothing in it yet.
    unsafe { list.write(list_t { list_size: size, list_offset: offset, list_head: head }) };
    // SAFETY: initialised by the line above.
    let list = unsafe { List::new(list) };
    list.set(list.head(), list.head(), list.head());
}

unsafe extern "C" fn list_destroy(list: *mut list_t) {
    // SAFETY: list_destroy(9F): a live list.
    let list = unsafe { List::new(list) };
    if !list.is_empty() {
        cx().violate(
            Rule::BadList,
            format!("the list at {:#x} is destroyed with objects in it", list.0.addr()),
        );
    }
    list.set(list.head(), ptr::null_mut(), ptr::null_mut());
}

unsafe extern "C" fn list_head(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_head(9F): a live list.
    let list = unsafe { List::new(list) };
    list.object(list.next(list.head()))
}

unsafe extern "C" fn list_tail(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_tail(9F): a live list.
    let list = unsafe { List::new(list) };
    list.object(list.prev(list.head()))
}

unsafe extern "C" fn list_next(list: *mut list_t, object: *mut c_void) -> *mut c_void {
    // SAFETY: list_next(9F): a live list with the object in it.
    let list = unsafe { List::new(list) };
    list.object(list.next(list.node(object)))
}

unsafe extern "C" fn list_prev(list: *mut list_t, object: *mut c_void) -> *mut c_void {
    // SAFETY: list_prev(9F): a live list with the object in it.
    let list = unsafe { List::new(list) };
    list.object(list.prev(list.node(object)))
}

unsafe extern "C" fn list_insert_head(list: *mut list_t, object: *mut c_void) {
    // SAFETY: list_insert_head(9F): a live list and an object in none.
    let list = unsafe { List::new(list) };
    list.insert_after(list.head(), object);
}

unsafe extern "C" fn list_insert_tail(list: *mut list_t, object: *mut c_void) {
    // SAFETY: list_insert_tail(9F): a live list and an object in none.
    let list = unsafe { List::new(list) };
    list.insert_after(list.prev(list.head()), object);
}

unsafe extern "C" fn list_insert_after(list: *mut list_t, place: *mut c_void, object: *mut c_void) {
    // SAFETY: list_insert_after(9F): a live list, an object in it or null, and one in none.
    let list = unsafe { List::new(list) };
    list.insert_after(if place.is_null() { list.head() } else { list.node(place) }, object);
}

unsafe extern "C" fn list_insert_before(list: *mut list_t, place: *mut c_void, object: *mut c_void) {
    // SAFETY: list_insert_before(9F): a live list, an object in it or null, and one in none.
    let list = unsafe { List::new(list) };
    let place = if place.is_null() { list.head() } else { list.node(place) };
    list.insert_after(list.prev(place), object);
}

unsafe extern "C" fn list_remove(list: *mut list_t, object: *mut c_void) {
    // SAFETY: list_remove(9F): a live list and an object of its kind.
    let list = unsafe { List::new(list) };
    list.unlink(list.node(object));
}

unsafe extern "C" fn list_remove_head(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_remove_head(9F): a live list.
    let list = unsafe { List::new(list) };
    if list.is_empty() { ptr::null_mut() } else { list.unlink(list.next(list.head())) }
}

unsafe extern "C" fn list_remove_tail(list: *mut list_t) -> *mut c_void {
    // SAFETY: list_remove_tail(9F): a live list.
    let list = unsafe { List::new(list) };
    if list.is_empty() { ptr::null_mut() } else { list.unlink(list.prev(list.head())) }
}

unsafe extern "C" fn list_is_empty(list: *mut list_t) -> std::ffi::c_int {
    // SAFETY: list_is_empty(9F): a live list.
    unsafe { List::new(list) }.is_empty().into()
}

unsafe extern "C" fn list_link_active(node: *mut list_node_t) -> std::ffi::c_int {
    // SAFETY: list_link_active(9F): an initialised node.
    let node = unsafe { node.read() };
    (!node.list_next.is_null()).into()
}

unsafe extern "C" fn list_move_tail(to: *mut list_t, from: *mut list_t) {
    // SAFETY: list_move_tail(9F): two live lists of one kind of object.
    let (to, from) = (unsafe { List::new(to) }, unsafe { List::new(from) });
    while !from.is_empty() {
        let object = from.unlink(from.next(from.head()));
        to.insert_after(to.prev(to.head()), object);
    }
}
