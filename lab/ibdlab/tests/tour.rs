//! The tour of the README is what one gets: each of its commands is run, and prints what stands there.

mod lab;

use lab::Lab;

const PAGE: &str = include_str!("../../../README.md");

/// The lines between the fences of the tour.
fn tour() -> Vec<&'static str> {
    let lines = PAGE.lines().skip_while(|line| *line != "```console").skip(1);
    lines.take_while(|line| *line != "```").collect()
}

#[test]
fn every_command_of_the_tour_prints_what_the_page_says() {
    let lab = Lab::new();
    let mut lines = tour().into_iter().peekable();
    let mut commands = 0;
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ibdlab ").expect("a command");
        let mut expected = String::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            expected += line;
            expected.push('\n');
        }
        if command == "exec alice -- ipadm show-addr" {
            // Hosts boot at their own pace.
            lab.until("the link is up", || {
                lab.run("alice", "dladm show-part -p -o state pFFFF.ibp0").0 == "up\n"
            });
        }
        let (said, _) = lab.ibdlab(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(said, expected, "{command}");
        commands += 1;
    }
    assert!(commands > 5, "there is no tour in the README");
}
