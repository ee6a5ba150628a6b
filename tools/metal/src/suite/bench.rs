//! What every case has at hand: the agent, the adapter, the two links.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{Linkmode, Suite};
use crate::machine::archive::Identity;
use crate::machine::calls::Tracer;
use crate::machine::debugger::Debugger;
use crate::machine::options::Driver;
use crate::machine::{Fields, Outcome, Refusal, Session, Ticket};

/// How long a command may take without a word on the console; many echoes take longer, and say so.
const QUIET: Duration = Duration::from_secs(60);

/// The process that lives as long as a case: what the case leaves open is closed with it.
pub const CASE: &str = "case";

/// What can happen at an adapter for tests; ports are counted from 1.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Event {
    /// Port: the cable is pulled.
    PortDown = 0x4601,
    /// Port: and plugged in.
    PortUp = 0x4602,
    /// Port, index, value: an entry of its P_Key table.
    SetPkey = 0x4603,
    /// Port, LID: another subnet manager, and everybody has to register again.
    MoveManager = 0x4604,
    /// Port, 0 or 1: the SA does not answer.
    SilenceSa = 0x4605,
    /// Port: its links' completion queues fail.
    FailCqs = 0x4609,
    /// Port: its links' queue pairs fail.
    FailQps = 0x460b,
    /// Port, milliseconds: the SA answers so much later.
    DelaySa = 0x460c,
    /// Trap, prefix, GUID: a notice of the subnet manager's.
    Notice = 0x460e,
    /// Port, LID: the port's other one.
    SetLid = 0x460f,
    /// Port: in how many groups the SA has it.
    CountGroups = 0x4613,
}

/// One end of the traffic: a link on a port of its own, and the process of its zone.
#[derive(Clone, Debug)]
pub struct Side {
    /// The zone, the process in it, and the directory that is its root.
    pub name: &'static str,
    /// The port, counted from 1.
    pub port: u64,
    /// The link's id.
    pub link: u32,
    /// Its name below /dev/net.
    pub device: String,
    /// Its IPv4 address.
    pub address: &'static str,
    /// The zone's id, while it is there.
    pub zone: Option<u64>,
    /// The interface identifier's address, once IPv6 is plumbed, and the index of the interface.
    pub v6: Option<(String, u64)>,
}

/// The bench.
pub struct Bench {
    /// The line to the agent.
    pub session: Session,
    /// gdb, for what the agent cannot know.
    pub debugger: Debugger,
    /// Whose driver.
    pub driver: Driver,
    /// Under which name.
    pub identity: Identity,
    /// How much is tried.
    pub suite: Suite,
    /// How links carry IP that are plumbed from now on.
    pub linkmode: Linkmode,
    /// Processors of the machine.
    pub cpus: u32,
    /// How often everything is loaded and unloaded; at least three times.
    pub cycles: u32,
    /// Seconds of trouble at random.
    pub trouble: u64,
    /// The adapter's directory below /devices, once it is found.
    pub adapter: String,
    /// The two ends.
    pub sides: [Side; 2],
    /// What writes the calls between mac and the driver, if that is wanted.
    pub tracer: Option<Tracer>,
}

impl Bench {
    /// A bench with that machine.
    pub fn new(
        session: Session,
        debugger: Debugger,
        driver: Driver,
        identity: Identity,
        suite: Suite,
    ) -> Self {
        let links = match identity {
            // Partitions that we make.
            Identity::Ibp | Identity::Both => [(101, "part101".to_owned()), (102, "part102".to_owned())],
            // The nexus makes a node for each P_Key of each port: two of the first port, then those of the second.
            Identity::Ibd => [(1, "ibd0".to_owned()), (3, "ibd2".to_owned())],
        };
        let [(first, of_first), (second, of_second)] = links;
        let side = |name, port, link, device, address| Side {
            name,
            port,
            link,
            device,
            address,
            zone: None,
            v6: None,
        };
        let sides =
            [side("za", 1, first, of_first, "10.0.0.1"), side("zb", 2, second, of_second, "10.0.0.2")];
        Self {
            session,
            debugger,
            driver,
            identity,
            suite,
            linkmode: Linkmode::Ud,
            cpus: 1,
            cycles: 3,
            trouble: 20,
            adapter: String::new(),
            sides,
            tracer: None,
        }
    }

    /// Asks; what was refused is for the caller to judge.
    ///
    /// # Errors
    ///
    /// The machine is in trouble.
    pub fn ask(&mut self, process: &str, words: &str) -> Result<Outcome> {
        Ok(self.session.ask(process, words, QUIET)?)
    }

    /// Asks for what has to be done.
    ///
    /// # Errors
    ///
    /// It was refused, or the machine is in trouble.
    pub fn must(&mut self, process: &str, words: &str) -> Result<Fields> {
        self.must_within(process, words, QUIET)
    }

    /// The same for what may take long.
    ///
    /// # Errors
    ///
    /// As [`Bench::must`].
    pub fn must_within(&mut self, process: &str, words: &str, quiet: Duration) -> Result<Fields> {
        self.session.ask(process, words, quiet)?.map_err(|refusal| anyhow!("{process} {words}: {refusal}"))
    }

    /// Asks for what has to be refused.
    ///
    /// # Errors
    ///
    /// It was done, or the machine is in trouble.
    pub fn refused(&mut self, process: &str, words: &str) -> Result<Refusal> {
        match self.ask(process, words)? {
            Ok(_) => bail!("{process} {words}: was done and should have been refused"),
            Err(refusal) => Ok(refusal),
        }
    }

    /// Begins what takes a while; [`Bench::end`] waits for it.
    ///
    /// # Errors
    ///
    /// The line is gone.
    pub fn begin(&mut self, process: &str, words: &str) -> Result<Ticket> {
        Ok(self.session.begin(process, words)?)
    }

    /// Waits for what was begun, which has to be done.
    ///
    /// # Errors
    ///
    /// As [`Bench::must`].
    pub fn end(&mut self, ticket: Ticket, quiet: Duration) -> Result<Fields> {
        let what = format!("{ticket:?}");
        self.session.finish(ticket, quiet)?.map_err(|refusal| anyhow!("{what}: {refusal}"))
    }

    /// Waits.
    ///
    /// # Errors
    ///
    /// The machine is in trouble.
    pub fn pause(&mut self, milliseconds: u64) -> Result<()> {
        self.must("0", &format!("sleep {milliseconds}")).map(drop)
    }

    /// Asks again and again until the answer is as wished, for so long at most.
    ///
    /// # Errors
    ///
    /// It never is; or the machine is in trouble.
    pub fn until(
        &mut self,
        process: &str,
        words: &str,
        milliseconds: u64,
        wished: impl Fn(&Fields) -> bool,
    ) -> Result<Fields> {
        let mut last = None;
        for _ in 0..milliseconds.div_ceil(100) {
            match self.ask(process, words)? {
                Ok(fields) if wished(&fields) => return Ok(fields),
                other => last = Some(other),
            }
            self.pause(100)?;
        }
        bail!("{process} {words}: not as wished within {milliseconds} ms; at last {last:?}")
    }

    /// Says in the list of calls what is done next, once what was done before has had its effects.
    ///
    /// # Errors
    ///
    /// The machine is in trouble, or the list cannot be written.
    pub fn mark(&mut self, what: &str) -> Result<()> {
        let mut before = None;
        // Nothing is written any more.
        while let Some(tracer) = &self.tracer {
            let length = tracer.length()?;
            if before.replace(length) == Some(length) {
                return tracer.mark(what);
            }
            self.pause(150)?;
        }
        Ok(())
    }

    /// Lets something happen at the adapter; what it answers.
    ///
    /// # Errors
    ///
    /// It knows no such event.
    pub fn event(&mut self, event: Event, numbers: &[u64]) -> Result<u64> {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let words = format!("adapter /devices/{}:ctl {} {}", self.adapter, event as u32, numbers.join(" "));
        Self::number(&self.must("0", &words)?, "value")
    }

    /// The modules that are loaded.
    ///
    /// # Errors
    ///
    /// The machine is in trouble.
    pub fn is_loaded(&mut self, module: &str) -> Result<bool> {
        Ok(self.must("0", "modules")?.get(module).is_some())
    }

    /// A number of an answer.
    ///
    /// # Errors
    ///
    /// It has none of that name.
    pub fn number(fields: &Fields, name: &str) -> Result<u64> {
        fields.number(name).with_context(|| format!("no {name} in '{}'", fields.text))
    }

    /// The words of an echo from a side to the other one, up to the sizes.
    ///
    /// # Errors
    ///
    /// IPv6 is not plumbed.
    pub fn echo_to(&self, from: usize, family: u8) -> Result<String> {
        let there = &self.sides[1 - from];
        if family == 4 {
            return Ok(format!("ping4 {}", there.address));
        }
        let (address, _) = there.v6.as_ref().context("without IPv6")?;
        let (_, index) = self.sides[from].v6.as_ref().context("without IPv6")?;
        Ok(format!("ping6 {address} {index}"))
    }

    /// Every echo of these sizes is answered as it was sent, one after the other; how many there were.
    ///
    /// # Errors
    ///
    /// One was lost or changed.
    pub fn all_answered(&mut self, from: usize, family: u8, sizes: Sizes) -> Result<u64> {
        let Sizes { from: least, to: most, step, each } = sizes;
        let name = self.sides[from].name;
        let words = format!("{} {least} {most} {step} {each} 4000", self.echo_to(from, family)?);
        let answer = self.must_within(name, &words, Duration::from_secs(600))?;
        let (sent, answered) = (Self::number(&answer, "sent")?, Self::number(&answer, "answered")?);
        ensure!(sent == answered && sent > 0, "{name} {words}: {}", answer.text);
        Ok(sent)
    }
}

/// Sizes of echoes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The smallest.
    pub from: u32,
    /// The largest.
    pub to: u32,
    /// From one to the next.
    pub step: u32,
    /// How many of each.
    pub each: u32,
}

impl Sizes {
    /// So many of one size.
    pub fn one(size: u32, each: u32) -> Self {
        Self { from: size, to: size, step: 1, each }
    }
}
