//! `kstat`: what its patterns take, what its options say, and what it refuses aloud.

#![forbid(unsafe_code)]

mod scripted;

use std::time::Duration;

use scripted::{Scripted, run};

#[test]
fn patterns_are_those_of_the_shell_and_regular_expressions_between_slashes() {
    let system = Scripted::new();
    let expected = "link:0:pFFFF.ibp0:opackets64\t1210\n";
    for line in [
        "kstat -p link::/^pFFFF/:opackets64",
        "kstat -p link::[p]FFFF*:opackets64",
        "kstat -p li?k:0:*.ibp[0-3]:/^opackets/",
        "kstat -p -m /^l/ -n /FF+/ -s [!irs]packets64",
    ] {
        assert_eq!(run(&system, line), (expected.to_owned(), String::new(), 0), "{line}");
    }
    let (out, err, exit) = run(&system, "kstat -p link::/(p/");
    assert!(out.is_empty() && exit == 2 && err.starts_with("kstat: unclosed group\nUsage:\n"), "{err}");
}

#[test]
fn each_round_has_the_time_in_front_if_it_is_asked_for() {
    let system = Scripted::new();
    let line = "link:0:ibp0:ifspeed\t32000000000\n";
    let (out, ..) = run(&system, "kstat -p -T u link::ibp0:ifspeed 10 2");
    assert_eq!(out, format!("1793999042\n{line}\n1793999052\n{line}"));
    system.now.set(Duration::ZERO);
    let (out, ..) = run(&system, "kstat -T d -p link::ibp0:ifspeed");
    assert_eq!(out, format!("Fri Nov  6 21:04:02 UTC 2026\n{line}"));
    assert_eq!(run(&system, "kstat -T x -p").2, 2);
}

#[test]
fn values_are_behind_a_colon_if_that_is_asked_for() {
    let (out, _, exit) = run(&Scripted::new(), "kstat -C link::ibp0:ifspeed");
    assert_eq!((out.as_str(), exit), ("link:0:ibp0:ifspeed:32000000000\n", 0));
}

#[test]
fn what_the_lab_has_not_or_nobody_can_mean_is_refused_aloud() {
    let system = Scripted::new();
    for (line, why, code) in [
        ("kstat -h", "Usage:\n", 0),
        ("kstat -j", "kstat: the lab prints no JSON (-j)\nUsage:\n", 2),
        ("kstat -q -p", "-q and -lpj are mutually exclusive\nUsage:\n", 2),
        (
            "kstat -p -m link link:::",
            "[module[:instance[:name[:statistic]]]] and -m -i -n -s are mutually exclusive\nUsage:\n",
            2,
        ),
        ("kstat -p 0", "Interval must be an integer >= 1\nUsage:\n", 2),
        ("kstat -p 1 0", "Count must be an integer >= 1\nUsage:\n", 2),
        ("kstat -p 1 2 3", "Usage:\n", 2),
    ] {
        let (out, err, exit) = run(&system, line);
        assert!(out.is_empty() && exit == code && err.starts_with(why), "{line}: {err}{exit}");
        assert!(!err.contains("[ -qlp") && !err.contains("-Cjlpq"), "the usage offers what there is: {err}");
    }
}
