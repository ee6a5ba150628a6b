//! How large a data block `allocb` really gives (`U/io/stream.c`): the smallest class that holds the request.
//!
//! Code that fills a buffer to its end, or that looks at the room behind `b_wptr`, sees these sizes; so does the lab's.

/// The classes, bytes of data buffer.
const CLASSES: [usize; 29] = [
    16, 80, 144, 208, 272, 336, 528, 1040, 1488, 1936, 2576, 3856, 8192, 12048, 16384, 20240, 24576, 28432,
    32768, 36624, 40960, 44816, 49152, 53008, 57344, 61200, 65536, 69392, 73728,
];

/// Page size: classes that are multiples of it have a buffer of their own, page-aligned.
const PAGE: usize = 4096;

/// Size of `struct datab`, in front of the buffer unless that is separate.
pub const DBLK: usize = 112;
/// Size of `struct msgb`.
pub const MBLK: usize = 64;

/// Where the buffer of a data block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// Behind the dblk, in the same allocation.
    Inline(usize),
    /// In an allocation of its own with that alignment.
    Separate(usize, usize),
}

impl Buffer {
    /// What `allocb(size)` gives.
    pub fn for_request(size: usize) -> Self {
        match CLASSES.iter().find(|class| **class >= size) {
            Some(&class) if class.is_multiple_of(PAGE) => Self::Separate(class, PAGE),
            Some(&class) => Self::Inline(class),
            None => Self::Separate(size.next_multiple_of(64), 64),
        }
    }

    /// Usable bytes (`db_lim - db_base`).
    pub fn len(self) -> usize {
        match self {
            Self::Inline(len) | Self::Separate(len, _) => len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_smallest_class_that_holds_it() {
        for (request, class) in
            [(0, 16), (16, 16), (17, 80), (44, 80), (2048, 2576), (3857, 8192), (73728, 73728)]
        {
            assert_eq!(Buffer::for_request(request).len(), class, "allocb({request})");
        }
    }

    #[test]
    fn page_multiples_and_giants_have_a_buffer_of_their_own() {
        assert_eq!(Buffer::for_request(8000), Buffer::Separate(8192, 4096));
        assert_eq!(Buffer::for_request(73729), Buffer::Separate(73792, 64));
        assert_eq!(Buffer::for_request(12000), Buffer::Inline(12048));
    }
}
