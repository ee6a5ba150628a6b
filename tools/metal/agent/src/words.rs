//! What a command line says: `ID PROCESS WORD ARGUMENT...`, words separated by blanks.

/// Why a command cannot be read; the text goes back to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(pub &'static str);

/// A line as it comes over the serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number the answer will carry.
    pub id: u32,
    /// The process that shall do it.
    pub process: &'a str,
    /// Word and arguments.
    pub rest: &'a str,
}

/// Takes a line apart; `None` if it has no number and process in front.
pub fn line(text: &str) -> Option<Line<'_>> {
    let (id, rest) = text.trim_start().split_once(' ')?;
    let (process, rest) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
    (!process.is_empty()).then_some(Line { id: id.parse().ok()?, process, rest: rest.trim() })
}

/// The arguments of a command, taken one by one.
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The words of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { rest: text.trim() }
    }

    /// The next word.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn word(&mut self) -> Result<&'a str, Unreadable> {
        self.maybe().ok_or(Unreadable("a word is missing"))
    }

    /// The next word, if there is one.
    pub fn maybe(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest.trim_start();
        (!word.is_empty()).then_some(word)
    }

    /// Takes the next word if it is this one.
    pub fn maybe_is(&mut self, expected: &str) -> bool {
        let found = self.rest.split(' ').next() == Some(expected);
        if found {
            self.maybe();
        }
        found
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a str {
        core::mem::take(&mut self.rest)
    }

    /// The next word as a number: decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    ///
    /// There is none, or it is no number, or none of this type.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Unreadable> {
        let value = number(self.word()?).ok_or(Unreadable("no number"))?;
        T::try_from(value).map_err(|_| Unreadable("a number is out of range"))
    }

    /// The next word as a number if there is one, otherwise `default`.
    ///
    /// # Errors
    ///
    /// As [`Words::number`].
    pub fn number_or<T: TryFrom<u64>>(&mut self, default: T) -> Result<T, Unreadable> {
        if self.rest.is_empty() { Ok(default) } else { self.number() }
    }

    /// The next word as `N` bytes in hexadecimal digits.
    ///
    /// # Errors
    ///
    /// There is none, or it has other than `2 * N` digits.
    pub fn hex<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        hex(self.word()?).ok_or(Unreadable("not that many hexadecimal digits"))
    }

    /// The next word as an IPv4 address.
    ///
    /// # Errors
    ///
    /// There is none, or it is no address.
    pub fn ipv4(&mut self) -> Result<[u8; 4], Unreadable> {
        let address: core::net::Ipv4Addr = self.word()?.parse().map_err(|_| Unreadable("no IPv4 address"))?;
        Ok(address.octets())
    }

    /// The next word as an IPv6 address.
    ///
    /// # Errors
    ///
    /// There is none, or it is no address.
    pub fn ipv6(&mut self) -> Result<[u8; 16], Unreadable> {
        let address: core::net::Ipv6Addr = self.word()?.parse().map_err(|_| Unreadable("no IPv6 address"))?;
        Ok(address.octets())
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn hex<const N: usize>(word: &str) -> Option<[u8; N]> {
    if word.len() != 2 * N || !word.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(word.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_number_and_its_process() {
        assert_eq!(line("7 za ping4 10.0.0.2"), Some(Line { id: 7, process: "za", rest: "ping4 10.0.0.2" }));
        assert_eq!(line(" 7  za"), Some(Line { id: 7, process: "za", rest: "" }));
        for wrong in ["", "7", "7 ", "x za hello", "-1 za hello", "99999999999 za hello"] {
            assert_eq!(line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_in_range() {
        let mut words = Words::new("12 0xffff 70000 -1 x");
        assert_eq!(words.number::<u8>(), Ok(12));
        assert_eq!(words.number::<u16>(), Ok(0xffff));
        assert_eq!(words.number::<u16>(), Err(Unreadable("a number is out of range")));
        assert_eq!(words.number::<u16>(), Err(Unreadable("no number")));
        assert_eq!(words.number::<u16>(), Err(Unreadable("no number")));
        assert_eq!(words.number::<u16>(), Err(Unreadable("a word is missing")));
        assert_eq!(words.number_or(5_u16), Ok(5));
    }

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        let mut words = Words::new("10.0.0.2 fe80::1 00ff1 00ff");
        assert_eq!(words.ipv4(), Ok([10, 0, 0, 2]));
        assert_eq!(words.ipv6().map(|a| (a[0], a[15])), Ok((0xfe, 1)));
        assert!(words.hex::<2>().is_err());
        assert_eq!(words.hex::<2>(), Ok([0, 0xff]));
    }

    #[test]
    fn what_is_left_is_one_text() {
        let mut words = Words::new("say  two  words ");
        assert_eq!(words.word(), Ok("say"));
        assert_eq!(words.rest(), "two  words");
        assert_eq!(words.maybe(), None);
    }
}
