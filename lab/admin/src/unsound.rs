//! Lines of a host's files that are passed over: a person who edits one by hand is to hear of it.

use crate::zones::{self, Config};
use crate::{conf, ipadm};

/// The files that a host keeps for good, but those of zones, from its root.
pub const FILES: [&str; 3] = [conf::FILE, ipadm::FILE, zones::INDEX];

/// The numbers, from 1, of the lines that are nothing `file` may have, which is one of [`FILES`]. [`boot`](crate::boot_interfaces)
/// itself tells of addresses that it does not understand.
pub fn unsound_lines(file: &str, text: &str) -> Vec<usize> {
    let is_sound = |line: &str| match file {
        conf::FILE => !conf::parse(line).is_empty(),
        ipadm::FILE => is_of_ipadm(line),
        zones::INDEX => zones::is_line(line),
        _ => true,
    };
    let lines = text.lines().enumerate();
    let bad = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#') && !is_sound(line));
    bad.map(|(at, _)| at + 1).collect()
}

/// Whether `text` is a file of a zone.
pub fn is_zone(text: &str) -> bool {
    Config::parse(text).is_some()
}

/// illumos's own file has properties of protocols too, which the lab leaves as they are.
fn is_of_ipadm(line: &str) -> bool {
    line.starts_with('_')
        && line.trim_end().ends_with(';')
        && line.split_terminator(';').all(|item| item.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_passed_over_are_numbered() {
        let link = "# mine\n\nibp0\tclass=int,1;media=int,26;\ngarbage{{{\nibp1\tclass=int,x;\n";
        assert_eq!(unsound_lines(conf::FILE, link), [4, 5]);
        let address = "_ifname=a;_family=2;\n_protocol=ip;forwarding=on;\n\u{1}\u{2}\n_ifname=a\nx=y;\n";
        assert_eq!(unsound_lines(ipadm::FILE, address), [3, 4, 5]);
        let zone = "green:installed:/zones/green:\nglobal:installed:/:\nred:lost:/:\n\n{}\n";
        assert_eq!(unsound_lines(zones::INDEX, zone), [3, 5]);
    }
}
