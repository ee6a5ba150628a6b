//! What callgrind writes: how often the instruction at each address was run.

use std::collections::BTreeMap;

/// Runs by address, of a file that was written with addresses and without any compression.
pub(super) fn by_address(text: &str) -> BTreeMap<usize, u64> {
    let mut runs = BTreeMap::new();
    let mut of_call = false;
    for line in text.lines() {
        if line.starts_with("calls=") {
            // The line behind it is what was spent in the function that was called, which is counted there.
            of_call = true;
        } else if let Some((address, count)) = cost(line)
            && !std::mem::take(&mut of_call)
        {
            *runs.entry(address).or_default() += count;
        }
    }
    runs
}

/// A line with an address, a source line, which is 0 where there is none, and a count.
fn cost(line: &str) -> Option<(usize, u64)> {
    let mut words = line.strip_prefix("0x")?.split(' ');
    let address = usize::from_str_radix(words.next()?, 16).ok()?;
    let count = words.nth(1).map_or(Some(0), |count| count.parse().ok())?;
    Some((address, count))
}

#[cfg(test)]
mod tests {
    use super::by_address;

    #[test]
    fn what_a_function_calls_is_counted_where_it_is_spent() {
        let text = "positions: instr line\nevents: Ir\n\nob=/bin/lab\nfn=main\n0x400 10 5\n0x404 10 5\ncob=???\n\
                    cfn=0x1000\ncalls=3 0x1000 0\n0x404 11 600\n0x409 0 7\nfn=0x1000\n0x1000 0 300\n0x1002 0 300\n\
                    fn=0x2000\n0x1000 0 1\ntotals: 618\n";
        let runs = by_address(text);
        assert_eq!(Vec::from_iter(runs), [(0x400, 5), (0x404, 5), (0x409, 7), (0x1000, 301), (0x1002, 300)]);
    }
}
