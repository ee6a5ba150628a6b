//! `getopt(3C)` and `getopt_long(3C)`.

/// The options a command takes.
pub(crate) struct Options {
    /// Letters; one with a value has a colon behind it.
    pub(crate) short: &'static str,
    /// Long names, and the letter each stands for.
    pub(crate) long: &'static [(&'static str, char)],
    /// Do operands end the options (`getopt`), or are they collected (`getopt_long`)?
    pub(crate) operands_end: bool,
}

/// What was wrong with a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The option needs a value and has none.
    NoValue(char),
    /// There is no such option; for a long name there is no letter.
    Unknown(Option<char>),
}

/// Options with their values, and the operands.
pub(crate) type Line = (Vec<(char, String)>, Vec<String>);

/// An option with its value, or what was wrong there. The first wrong one ends the list.
pub(crate) type Parsed = Vec<Result<(char, String), Wrong>>;

impl Options {
    fn takes_value(&self, letter: char) -> Option<bool> {
        let at = self.short.find(letter).filter(|_| letter != ':')?;
        Some(self.short[at + letter.len_utf8()..].starts_with(':'))
    }

    /// Options and operands.
    pub(crate) fn parse(&self, arguments: &[String]) -> (Parsed, Vec<String>) {
        let (mut parsed, mut operands) = (Vec::new(), Vec::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let letters = match argument.strip_prefix('-') {
                Some("-") => {
                    operands.extend(rest.cloned());
                    break;
                }
                None | Some("") => {
                    operands.push(argument.clone());
                    if self.operands_end {
                        operands.extend(rest.cloned());
                        break;
                    }
                    continue;
                }
                Some(letters) => letters,
            };
            let one = match letters.strip_prefix('-') {
                Some(name) if !self.long.is_empty() => self.long_option(name, &mut rest),
                _ => self.cluster(letters, &mut rest, &mut parsed),
            };
            let wrong = one.is_err();
            parsed.extend(one.transpose());
            if wrong {
                break;
            }
        }
        (parsed, operands)
    }

    fn long_option<'a>(
        &self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<Option<(char, String)>, Wrong> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let exact = self.long.iter().find(|(known, _)| *known == name);
        let mut alike = self.long.iter().filter(|(known, _)| !name.is_empty() && known.starts_with(name));
        let found = exact.or_else(|| alike.next().filter(|_| alike.next().is_none()));
        let letter = found.ok_or(Wrong::Unknown(None))?.1;
        let value = match (self.takes_value(letter), value) {
            (Some(true), Some(value)) => value.to_owned(),
            (Some(true), None) => rest.next().cloned().ok_or(Wrong::NoValue(letter))?,
            (_, None) => String::new(),
            (_, Some(_)) => return Err(Wrong::Unknown(None)),
        };
        Ok(Some((letter, value)))
    }

    /// `-abVALUE` or `-ab VALUE`; the last one is the result, those before it are put into `parsed`.
    fn cluster<'a>(
        &self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
        parsed: &mut Parsed,
    ) -> Result<Option<(char, String)>, Wrong> {
        for (at, letter) in letters.char_indices() {
            if !self.takes_value(letter).ok_or(Wrong::Unknown(Some(letter)))? {
                parsed.push(Ok((letter, String::new())));
                continue;
            }
            let attached = &letters[at + letter.len_utf8()..];
            let value = match attached {
                "" => rest.next().cloned().ok_or(Wrong::NoValue(letter))?,
                attached => attached.to_owned(),
            };
            return Ok(Some((letter, value)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options =
        Options { short: "tfl:P:", long: &[("temporary", 't'), ("link", 'l')], operands_end: false };

    fn parse(line: &str) -> (Parsed, Vec<String>) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        OPTIONS.parse(&arguments)
    }

    fn option(letter: char, value: &str) -> Result<(char, String), Wrong> {
        Ok((letter, value.to_owned()))
    }

    #[test]
    fn options_cluster_and_mix_with_operands() {
        let (parsed, operands) = parse("-tl ibp0 name --temporary -PFFFF --link=ibp1 -- -x");
        let expected =
            [option('t', ""), option('l', "ibp0"), option('t', ""), option('P', "FFFF"), option('l', "ibp1")];
        assert_eq!(parsed, expected);
        assert_eq!(operands, ["name", "-x"]);
    }

    #[test]
    fn the_first_wrong_option_ends_the_list() {
        assert_eq!(parse("-l").0, [Err(Wrong::NoValue('l'))]);
        assert_eq!(parse("-tx -f").0, [option('t', ""), Err(Wrong::Unknown(Some('x')))]);
        assert_eq!(parse("--nonsense").0, [Err(Wrong::Unknown(None))]);
        assert_eq!(parse("--temporary=1").0, [Err(Wrong::Unknown(None))]);
    }
}
