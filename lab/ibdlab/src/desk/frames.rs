//! `ibdlab send`: frames from a file, sent through a raw DLPI stream as they are.
//!
//! A raw writer gives 20 octets of destination, the 4-byte IPoIB header, and the payload; the plugin makes a packet of it. In the
//! file a frame is a line of hexadecimal digits, blanks between them as one likes; a `#` begins a comment. Other forms of files
//! become this one before they get here ([`super::frame_files`]).

use fakekernel::{Errno, Kernel};
use lab_gldv3::Stream;

/// Octets of the longest frame, and lines of the longest file.
const LONGEST: usize = 65_600;
const MOST: usize = 100_000;

/// The frames of a file.
///
/// # Errors
///
/// The line that is none, and why.
pub fn parse(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut frames = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let digits: String = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if digits.is_empty() {
            continue;
        }
        let octets =
            octets(&digits).ok_or_else(|| format!("line {number}: expected pairs of hexadecimal digits"))?;
        if octets.len() > LONGEST {
            return Err(format!("line {number}: {} octets, expected {LONGEST} at most", octets.len()));
        }
        if frames.len() == MOST {
            return Err(format!("line {number}: more than {MOST} frames"));
        }
        frames.push(octets);
    }
    Ok(frames)
}

pub(super) fn octets(digits: &str) -> Option<Vec<u8>> {
    let values: Option<Vec<u8>> =
        digits.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let values = values.filter(|values| values.len().is_multiple_of(2))?;
    Some(values.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Sends them; how many the plugin made a packet of. On a thread of the host.
///
/// # Errors
///
/// ENOENT for a link that is not there; what the driver refused with.
pub fn send(kernel: &Kernel, link: &str, frames: &[Vec<u8>]) -> Result<usize, Errno> {
    let stream = Stream::open(kernel, link)?;
    stream.bind(0)?;
    stream.set_raw()?;
    Ok(frames.iter().filter(|frame| stream.transmit_raw(frame)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_line_of_digits() {
        let text = "# two frames\n00ff 01 # the first\n\nAB\n";
        assert_eq!(parse(text), Ok(vec![vec![0, 0xff, 1], vec![0xab]]));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, why) in [
            ("00\n0", "line 2: expected pairs of hexadecimal digits"),
            ("0g", "line 1: expected pairs of hexadecimal digits"),
            ("ä0", "line 1: expected pairs of hexadecimal digits"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()));
        }
        assert!(parse(&"00".repeat(LONGEST + 1)).is_err());
    }
}
