//! Which records a query is for (the component mask, IBA 15.2.3.2): those that have what it names.

/// A field of a record: its bit in the mask, where it is and how many bytes it has.
pub(super) type Field = (u32, usize, usize);

/// Whether a record has what a query names, and nothing is named that is none of these fields: then no record is what was asked for.
pub(super) fn has(record: &[u8], data: &[u8], mask: u64, fields: &[Field]) -> bool {
    let known = fields.iter().fold(0, |known, (bit, ..)| known | 1 << bit);
    let same = |at: usize, len: usize| {
        let (own, asked) = (record.get(at..at + len), data.get(at..at + len));
        own.is_some() && own == asked
    };
    mask & !known == 0 && fields.iter().all(|(bit, at, len)| mask & 1 << bit == 0 || same(*at, *len))
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn record_that_differs_in_what_is_named_or_does_not_know_it_is_not_meant() {
        let fields = [(0, 0, 2), (3, 2, 1)];
        let is = |data: [u8; 3], mask| has(&[1, 2, 3], &data, mask, &fields);
        assert!(is([9, 9, 9], 0) && is([1, 2, 9], 1) && is([1, 2, 3], 0b1001));
        assert!(!is([1, 9, 3], 1) && !is([1, 2, 9], 0b1000));
        assert!(!is([1, 2, 3], 0b11), "bit 1 is no field");
    }
}
