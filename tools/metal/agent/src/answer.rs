//! Text without a heap: answers, messages for the console, paths.

use core::fmt;

/// Text of at most `N` bytes; what does not fit is cut off, and [`Text::is_cut`] says so.
#[derive(Clone)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
    cut: bool,
}

/// The answer to one command. A list of all kernel caches has to fit.
pub type Answer = Text<65536>;

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0, cut: false }
    }
}

impl<const N: usize> Text<N> {
    /// `text`, cut at the capacity.
    pub fn of(text: &str) -> Self {
        let mut new = Self::default();
        new.push(text.as_bytes());
        new
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(N - self.length);
        self.bytes[self.length..self.length + fits].copy_from_slice(&bytes[..fits]);
        self.length += fits;
        self.cut |= fits < bytes.len();
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What is in it, as text; what is not UTF-8 at its end is left out.
    pub fn text(&self) -> &str {
        match core::str::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(e) => core::str::from_utf8(&self.bytes()[..e.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.length = 0;
        self.cut = false;
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Bytes as hexadecimal digits without separators.
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What comes in pieces and is wanted in lines.
#[derive(Default)]
pub struct Lines<const N: usize> {
    pending: Text<N>,
}

impl<const N: usize> Lines<N> {
    /// Takes what has come and hands each whole line, without its end, to `take`. A line longer than `N` is dropped.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&str)) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    if !self.pending.is_cut() {
                        take(self.pending.text());
                    }
                    self.pending.clear();
                }
                b'\r' => {}
                byte => self.pending.push(&[byte]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write as _;

    use super::*;

    #[test]
    fn text_that_does_not_fit_is_cut_and_says_so() {
        let mut text = Text::<4>::default();
        write!(text, "ab{}", 345).expect("writing to a Text cannot fail");
        assert_eq!((text.text(), text.is_cut()), ("ab34", true));
        text.clear();
        assert_eq!((text.text(), text.is_cut()), ("", false));
    }

    #[test]
    fn lines_come_whole_however_they_were_cut_in_transit() {
        let mut lines = Lines::<16>::default();
        let mut seen = Vec::new();
        for piece in ["1 0 he", "llo\r\n2 0 say ", "x\n", "\n"] {
            lines.feed(piece.as_bytes(), |line| seen.push(line.to_owned()));
        }
        assert_eq!(seen, ["1 0 hello", "2 0 say x", ""]);
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_whole() {
        let mut lines = Lines::<4>::default();
        let mut seen = Vec::new();
        lines.feed(b"12345\nabc\n", |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["abc"]);
    }
}
