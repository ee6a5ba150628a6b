//! The kernel's one formatter, behind `snprintf`, `sprintf`, `cmn_err` and `panic` alike.
//!
//! It is not C's: it knows the flags `-` and `0`, the sizes `h hh l ll`, the conversions `d u o x p b c s %`, and nothing
//! else. A letter it does not know is swallowed together with what was parsed of the conversion, no argument is taken,
//! and the text after it is literal; so `%zu` prints `u` and shifts every later argument. The kernel does that silently;
//! here each such letter is reported to the caller (rule 33).
//!
//! Pure: it sees arguments through [`Arguments`] and writes into a `Vec`.

/// Where arguments come from: the variable arguments of a call, or a test's list.
pub trait Arguments {
    /// The next eight-byte slot, as an `int`, `long` or pointer was passed in it.
    fn next(&mut self) -> u64;
    /// The bytes before the NUL at `addr`, or the first `limit` when there is none among them.
    fn string(&mut self, addr: u64, limit: Option<usize>) -> Vec<u8>;
}

/// What a format string did that the kernel would not complain about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// A conversion outside the table: the letter, and where in the format it stands (bytes from the start).
    UnknownConversion {
        /// The letter, lower-cased as the kernel does.
        letter: u8,
        /// Byte offset in the format.
        at: usize,
    },
    /// `%s` of a null pointer printed `<null string>`.
    NullString,
    /// A precision of zero given by `%.*s`, which prints the whole string.
    ZeroPrecision,
    /// `%b` with a number base outside 2..=16.
    BadBase(u8),
}

/// The text, unbounded: its length is what `snprintf` returns. `remarks` collects what should not have been written.
pub fn format(fmt: &[u8], args: &mut dyn Arguments, remarks: &mut Vec<Remark>) -> Vec<u8> {
    let mut out = Vec::with_capacity(fmt.len() + 32);
    let mut rest = Cursor { fmt, at: 0 };
    while let Some(c) = rest.next() {
        if c != b'%' {
            out.push(c);
        } else if conversion(&mut rest, args, &mut out, remarks).is_none() {
            break;
        }
    }
    out
}

struct Cursor<'a> {
    fmt: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let c = *self.fmt.get(self.at)?;
        self.at += 1;
        Some(c)
    }

    /// A decimal number whose first digit was read already.
    fn number(&mut self, first: u8) -> i32 {
        let mut n = i32::from(first - b'0');
        while let Some(d) = self.fmt.get(self.at).filter(|d| d.is_ascii_digit()) {
            n = n.wrapping_mul(10).wrapping_add(i32::from(d - b'0'));
            self.at += 1;
        }
        n
    }
}

/// What stands between `%` and the letter.
#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    width: i32,
    precision: i32,
    dot: bool,
    starred_precision: bool,
    h: u32,
    l: u32,
    upper: bool,
}

/// One conversion after its `%`; `None` when the format ends inside it.
fn conversion(
    rest: &mut Cursor<'_>,
    args: &mut dyn Arguments,
    out: &mut Vec<u8>,
    remarks: &mut Vec<Remark>,
) -> Option<()> {
    let mut spec = Spec::default();
    loop {
        let at = rest.at;
        let mut c = rest.next()?;
        if c.is_ascii_uppercase() {
            c = c.to_ascii_lowercase();
            spec.upper = true;
        }
        match c {
            b'-' => spec.left = true,
            b'0'..=b'9' => {
                if c == b'0' && !spec.dot {
                    spec.zero = true;
                }
                let n = rest.number(c);
                *(if spec.dot { &mut spec.precision } else { &mut spec.width }) = n;
            }
            b'.' => spec.dot = true,
            b'*' => {
                let n = args.next() as u32 as i32;
                spec.starred_precision = spec.dot;
                *(if spec.dot { &mut spec.precision } else { &mut spec.width }) = n;
            }
            b'l' => spec.l += 1,
            b'h' => spec.h += 1,
            letter => {
                convert(letter, at, spec, args, out, remarks);
                return Some(());
            }
        }
    }
}

fn convert(
    letter: u8,
    at: usize,
    mut spec: Spec,
    args: &mut dyn Arguments,
    out: &mut Vec<u8>,
    remarks: &mut Vec<Remark>,
) {
    match letter {
        b'd' => signed(&spec, args, out),
        b'u' => unsigned(&spec, 10, args, out),
        b'o' => unsigned(&spec, 8, args, out),
        b'x' => unsigned(&spec, 16, args, out),
        b'p' => {
            spec.l = 1;
            unsigned(&spec, 16, args, out);
        }
        b'b' => {
            spec.l = 0;
            bits(&spec, args, out, remarks);
        }
        b'c' => out.push(args.next() as u8),
        b's' => string(&spec, args, out, remarks),
        b'%' => out.push(b'%'),
        letter => remarks.push(Remark::UnknownConversion { letter, at }),
    }
}

fn signed(spec: &Spec, args: &mut dyn Arguments, out: &mut Vec<u8>) {
    let raw = args.next();
    let value = match (spec.l, spec.h) {
        (0, 0) => i64::from(raw as i32),
        (0, 1) => i64::from(raw as i16),
        (0, _) => i64::from(raw as i8),
        _ => raw as i64,
    };
    number(spec, value.unsigned_abs(), 10, value < 0, out);
}

fn narrowed(spec: &Spec, raw: u64) -> u64 {
    match (spec.l, spec.h) {
        (0, 0) => u64::from(raw as u32),
        (0, 1) => u64::from(raw as u16),
        (0, _) => u64::from(raw as u8),
        _ => raw,
    }
}

fn unsigned(spec: &Spec, base: u64, args: &mut dyn Arguments, out: &mut Vec<u8>) {
    let value = narrowed(spec, args.next());
    number(spec, value, base, false, out);
}

fn number(spec: &Spec, mut value: u64, base: u64, negative: bool, out: &mut Vec<u8>) {
    let digits: &[u8; 16] = if spec.upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let mut reversed = Vec::with_capacity(64);
    loop {
        reversed.push(digits[(value % base) as usize]);
        value /= base;
        if value == 0 {
            break;
        }
    }
    let shown = reversed.len() + usize::from(negative);
    let mut zeros = usize::try_from(spec.precision).unwrap_or(0).saturating_sub(reversed.len());
    let mut blanks = usize::try_from(spec.width).unwrap_or(0).saturating_sub(shown + zeros);
    if spec.zero && !spec.left {
        zeros += std::mem::take(&mut blanks);
    }
    if !spec.left {
        out.extend(std::iter::repeat_n(b' ', blanks));
    }
    if negative {
        out.push(b'-');
    }
    out.extend(std::iter::repeat_n(b'0', zeros));
    out.extend(reversed.iter().rev());
    if spec.left {
        out.extend(std::iter::repeat_n(b' ', blanks));
    }
}

fn string(spec: &Spec, args: &mut dyn Arguments, out: &mut Vec<u8>, remarks: &mut Vec<Remark>) {
    let addr = args.next();
    let mut precision = usize::try_from(spec.precision).unwrap_or(0);
    let text = if addr == 0 {
        remarks.push(Remark::NullString);
        precision = 0;
        b"<null string>".to_vec()
    } else {
        if spec.starred_precision && precision == 0 {
            remarks.push(Remark::ZeroPrecision);
        }
        args.string(addr, (precision > 0).then_some(precision))
    };
    let width = usize::try_from(spec.width).unwrap_or(0).max(precision);
    let blanks = width.saturating_sub(text.len());
    if !spec.left {
        out.extend(std::iter::repeat_n(b' ', blanks));
    }
    out.extend_from_slice(&text);
    if spec.left {
        out.extend(std::iter::repeat_n(b' ', blanks));
    }
}

/// `%b`: the value in the base named by the description's first byte, then `<NAME,NAME>` for each bit that is set. Items
/// of the description are a byte with the bit's number, counted from one, and a name of printable characters.
fn bits(spec: &Spec, args: &mut dyn Arguments, out: &mut Vec<u8>, remarks: &mut Vec<Remark>) {
    let value = narrowed(spec, args.next());
    let addr = args.next();
    let description = if addr == 0 { Vec::new() } else { args.string(addr, None) };
    let (base, items) = match description.split_first() {
        Some((&base @ 2..=16, items)) => (u64::from(base), items),
        Some((&base, items)) => {
            remarks.push(Remark::BadBase(base));
            (16, items)
        }
        None => {
            remarks.push(Remark::BadBase(0));
            (16, &[][..])
        }
    };
    number(spec, value, base, false, out);
    let mut names: Vec<&[u8]> = Vec::new();
    let mut rest = items;
    while let Some((&bit, tail)) = rest.split_first() {
        let len = tail.iter().take_while(|c| **c >= 32).count();
        let (name, next) = tail.split_at(len);
        if (1..=64).contains(&bit) && value & (1 << (bit - 1)) != 0 {
            names.push(name);
        }
        rest = next;
    }
    if !names.is_empty() {
        out.push(b'<');
        out.extend(names.join(&b','));
        out.push(b'>');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Arg {
        Int(u64),
        Str(&'static str),
        Null,
    }

    struct List {
        args: Vec<Arg>,
        strings: Vec<&'static str>,
    }

    impl Arguments for List {
        fn next(&mut self) -> u64 {
            match self.args.remove(0) {
                Arg::Int(n) => n,
                Arg::Str(s) => {
                    self.strings.push(s);
                    self.strings.len() as u64
                }
                Arg::Null => 0,
            }
        }

        fn string(&mut self, addr: u64, limit: Option<usize>) -> Vec<u8> {
            let s = self.strings[addr as usize - 1].as_bytes();
            s[..limit.unwrap_or(s.len()).min(s.len())].to_vec()
        }
    }

    fn shown(fmt: &str, args: Vec<Arg>) -> (String, Vec<Remark>, usize) {
        let mut list = List { args, strings: Vec::new() };
        let mut remarks = Vec::new();
        let out = format(fmt.as_bytes(), &mut list, &mut remarks);
        (String::from_utf8(out).unwrap(), remarks, list.args.len())
    }

    fn text(fmt: &str, args: Vec<Arg>) -> String {
        let (text, remarks, left) = shown(fmt, args);
        assert_eq!(remarks, []);
        assert_eq!(left, 0);
        text
    }

    use Arg::{Int, Null, Str};

    #[test]
    fn integers_are_narrowed_as_the_size_says() {
        assert_eq!(text("%d", vec![Int(u64::MAX)]), "-1");
        assert_eq!(text("%u", vec![Int(u64::MAX)]), "4294967295");
        assert_eq!(text("%lu", vec![Int(u64::MAX)]), "18446744073709551615");
        assert_eq!(text("%hd", vec![Int(0x1_8000)]), "-32768");
        assert_eq!(text("%hhu", vec![Int(0x1ff)]), "255");
        assert_eq!(text("%lld", vec![Int(i64::MIN as u64)]), "-9223372036854775808");
        assert_eq!(text("%o", vec![Int(8)]), "10");
    }

    #[test]
    fn an_upper_case_letter_selects_upper_case_digits() {
        assert_eq!(
            text("%x %X %P %D %S", vec![Int(0xab), Int(0xab), Int(0xcd), Int(7), Str("s")]),
            "ab AB CD 7 s"
        );
    }

    #[test]
    fn width_and_precision_of_integers() {
        assert_eq!(text("[%5d]", vec![Int(42)]), "[   42]");
        assert_eq!(text("[%-5d]", vec![Int(42)]), "[42   ]");
        assert_eq!(text("[%05d]", vec![Int((-42i64) as u64)]), "[-0042]");
        assert_eq!(text("[%8.4x]", vec![Int(0xab)]), "[    00ab]");
        assert_eq!(text("[%.4x]", vec![Int(0xab)]), "[00ab]");
        assert_eq!(text("[%*d]", vec![Int(4), Int(1)]), "[   1]");
    }

    #[test]
    fn a_precision_on_a_string_limits_and_widens() {
        assert_eq!(text("[%.3s]", vec![Str("broadcast")]), "[bro]");
        assert_eq!(text("[%.5s]", vec![Str("up")]), "[   up]");
        assert_eq!(text("[%-.5s]", vec![Str("up")]), "[up   ]");
        assert_eq!(text("[%8s]", vec![Str("up")]), "[      up]");
        assert_eq!(text("[%.0s]", vec![Str("whole")]), "[whole]");
    }

    #[test]
    fn a_starred_precision_of_zero_prints_the_whole_string_and_is_remarked() {
        let (text, remarks, _) = shown("%.*s", vec![Int(0), Str("whole")]);
        assert_eq!((text.as_str(), remarks), ("whole", vec![Remark::ZeroPrecision]));
    }

    #[test]
    fn a_null_string_has_a_name() {
        let (text, remarks, _) = shown("%s|%3s", vec![Null, Null]);
        assert_eq!(text, "<null string>|<null string>");
        assert_eq!(remarks, vec![Remark::NullString; 2]);
    }

    #[test]
    fn an_unknown_letter_is_swallowed_and_takes_no_argument() {
        let (text, remarks, left) = shown("%zu %i %d", vec![Int(5), Int(6)]);
        assert_eq!(text, "u  5");
        assert_eq!(left, 1);
        assert_eq!(
            remarks,
            vec![
                Remark::UnknownConversion { letter: b'z', at: 1 },
                Remark::UnknownConversion { letter: b'i', at: 5 }
            ]
        );
        assert_eq!(shown("%#x", vec![]).0, "x");
    }

    #[test]
    fn capital_l_acts_as_l() {
        assert_eq!(text("%Lx", vec![Int(0xABCD_EF01_2345)]), "ABCDEF012345");
    }

    #[test]
    fn bits_are_named_from_the_description() {
        assert_eq!(text("%b", vec![Int(0x5), Str("\x10\x01UP\x02ACTIVE\x03SM")]), "5<UP,SM>");
        assert_eq!(text("%b", vec![Int(0), Str("\x10\x01UP")]), "0");
        assert_eq!(text("%b", vec![Int(8), Str("\x08\x04X")]), "10<X>");
    }

    #[test]
    fn percent_char_and_a_truncated_conversion() {
        assert_eq!(text("100%% %c", vec![Int(u64::from(b'k'))]), "100% k");
        assert_eq!(text("end%", vec![]), "end");
        assert_eq!(text("end%5", vec![]), "end");
    }
}
