//! Answers as text that two runs have in common.

use std::borrow::Cow;

/// What identifies one run and nothing else: descriptors, times.
const OF_THE_RUN: [&str; 4] = ["fd", "us", "snaptime", "sum"];

/// The text of a refusal: the errno's name, and what was said besides it, as `status=3` or `DL_BADADDR`.
pub fn refusal(errno: u32, besides: &str) -> String {
    if besides.starts_with("DL_") {
        return besides.to_owned();
    }
    format!("{} {besides}", errno_name(errno)).trim().to_owned()
}

/// The name of an errno as illumos numbers them.
fn errno_name(errno: u32) -> Cow<'static, str> {
    Cow::Borrowed(match errno {
        1 => "EPERM",
        2 => "ENOENT",
        5 => "EIO",
        6 => "ENXIO",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        16 => "EBUSY",
        17 => "EEXIST",
        19 => "ENODEV",
        22 => "EINVAL",
        28 => "ENOSPC",
        48 => "ENOTSUP",
        62 => "ETIME",
        71 => "EPROTO",
        127 => "ENETDOWN",
        132 => "ENOBUFS",
        _ => return Cow::Owned(format!("errno {errno}")),
    })
}

/// An answer without what differs from run to run: `names` are what it is called, and its name in the record.
pub(crate) fn common(answer: &str, names: &[(String, &'static str)]) -> String {
    let kept = answer
        .split_whitespace()
        .filter(|word| word.split_once('=').is_none_or(|(name, _)| !OF_THE_RUN.contains(&name)));
    let words: Vec<String> = kept.map(|word| common_word(word, names)).collect();
    if words.is_empty() { "ok".to_owned() } else { words.join(" ") }
}

fn common_word(word: &str, names: &[(String, &'static str)]) -> String {
    if let Some(keys) = word.strip_prefix("keys=") {
        let used: Vec<&str> = keys.split('.').filter(|key| !key.is_empty() && *key != "0000").collect();
        return format!("keys={}", used.join("."));
    }
    if let Some((_, name)) = names.iter().find(|(value, _)| value == word) {
        return (*name).to_owned();
    }
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    // What lies between separators stands for something, or is as it is.
    for part in word.split_inclusive(['=', ':', ',']) {
        let end = part.len() - usize::from(part.ends_with(['=', ':', ',']));
        let (body, separator) = part.split_at(end);
        let name = names.iter().find(|(value, _)| value == body).map(|(_, name)| *name);
        let name = name
            .or_else(|| is_address(body).then_some("ADDRESS"))
            .or_else(|| is_guid(body).then_some("GUID"));
        match name {
            Some(name) => parts.push(format!("{name}{separator}").into()),
            None => parts.push(part.into()),
        }
    }
    parts.concat()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_hexdigit())
}

/// The address of a link, with or without a SAP behind it: not zero and no group's.
fn is_address(text: &str) -> bool {
    [40, 44].contains(&text.len())
        && is_hex(text)
        && !text.starts_with("00ffffff")
        && text[..40].bytes().any(|octet| octet != b'0')
}

fn is_guid(text: &str) -> bool {
    text.len() == 16 && is_hex(text) && text.bytes().any(|octet| octet != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out_or_named() {
        let names = [("part140".to_owned(), "NAME"), ("140".to_owned(), "LINK")];
        let of = |answer: &str| common(answer, &names);
        assert_eq!(of(" fd=7 us=1400"), "ok");
        assert_eq!(of("link=140 port=1 guid=0002c90300001001"), "link=LINK port=1 guid=GUID");
        assert_eq!(of("link:0:part140 part1401"), "link:0:NAME part1401");
        let address = "00002004fe800000000000000253570000000001";
        assert_eq!(of(&format!("phys-addr:0:{address}")), "phys-addr:0:ADDRESS");
        assert_eq!(of(&format!("to={address}0800")), "to=ADDRESS");
        assert_eq!(of(&"0".repeat(40)), "0".repeat(40));
        assert_eq!(of("keys=ffff.0000.8001.0000."), "keys=ffff.8001");
    }

    #[test]
    fn a_refusal_has_the_name_of_its_errno_or_of_dlpi_s_reason() {
        assert_eq!(refusal(22, "status=3"), "EINVAL status=3");
        assert_eq!(refusal(132, ""), "ENOBUFS");
        assert_eq!(refusal(71, "DL_OUTSTATE"), "DL_OUTSTATE");
        assert_eq!(refusal(200, ""), "errno 200");
    }
}
