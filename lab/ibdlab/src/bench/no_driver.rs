//! Bulk TCP between two of the lab's IP stacks that hand each other their packets: no driver, no kernel, no fabric.
//!
//! What is left of the time is TCP, and the check of what arrives. No driver can carry more, whatever it costs.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lab_gldv3::OffloadCapability;
use lab_ip::apps::{App, Outcome, TcpReceive, TcpSend};
use lab_ip::layer::LinkInfo;
use lab_ip::link_addr::LinkAddr;
use lab_ip::stack::Stack;

use super::traffic::processor_time;

/// Largest IP packet of a link with `linkmode=cm`, bytes (RFC 4755, section 6: what a connection can carry, without the header).
const SDU: usize = 65_520;
const PORT: u16 = 5001;
const LOCAL_PORT: u16 = 49_152;
/// How far time moves when neither stack has a packet, and how often it may.
const TICK: Duration = Duration::from_millis(1);
const TICKS: u32 = 100_000;

/// MB for each second of the processor.
///
/// # Errors
///
/// The transfer came to no end, or not all arrived.
pub fn rate(mib: u64) -> Result<f64> {
    let total = mib << 20;
    let began = processor_time();
    transfer(total)?;
    Ok(total as f64 / 1e6 / (processor_time() - began).as_secs_f64())
}

fn transfer(total: u64) -> Result<()> {
    let mut stacks = [stack(1)?, stack(2)?];
    let mut send = TcpSend::new(([10, 0, 0, 2].into(), PORT), LOCAL_PORT, total);
    let mut receive = TcpReceive::new(PORT);
    let mut outcomes: [Option<Outcome>; 2] = [None, None];
    let mut now = Duration::ZERO;
    for _ in 0..TICKS {
        while pass(&mut stacks, [&mut receive, &mut send], &mut outcomes, now) {}
        if let [Some(received), Some(sent)] = &outcomes {
            ensure!(
                received == sent && matches!(sent, Outcome::Tcp { bytes, .. } if *bytes == total),
                "{sent:?}, {received:?}"
            );
            return Ok(());
        }
        now += TICK;
    }
    bail!("TCP between two stacks came to no end");
}

/// Runs both hosts once; whether a packet moved. The receiver is the second host.
fn pass(
    stacks: &mut [Stack; 2],
    [receive, send]: [&mut dyn App; 2],
    [received, sent]: &mut [Option<Outcome>; 2],
    now: Duration,
) -> bool {
    let mut moved = false;
    for (from, app, outcome) in [(0, send, sent), (1, receive, received)] {
        if outcome.is_none() {
            *outcome = app.run(now, &mut stacks[from]);
        }
        stacks[from].poll(now);
        while let Some(frame) = stacks[from].transmit() {
            moved = true;
            stacks[1 - from].receive(now, frame.sap, frame.payload);
        }
    }
    moved
}

fn stack(n: u8) -> Result<Stack> {
    let info = LinkInfo {
        own: LinkAddr([n; 20]),
        broadcast: LinkAddr([0xff; 20]),
        sdu: SDU,
        offload: OffloadCapability::default(),
    };
    Ok(Stack::new(
        info,
        vec![format!("10.0.0.{n}/24").parse().map_err(|()| anyhow::anyhow!("an address"))?],
        1,
    ))
}
