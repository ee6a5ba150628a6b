//! Echoes of `ping`: by the lab's own stack, or by Linux's `ping` where the stack is Linux's.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use admin::{EchoAnswer, PingSpec, Pinger};
use fakekernel::{Errno, Nanos};

use super::echoes::{Answer, Echoes, Mailbox, Request};
use super::ip::{HostIp, is_loopback};
use super::plumbed::Plumbed;
use crate::host::AppId;
use crate::linux::Namespace;

/// `ENETUNREACH` of `sys/errno.h`.
const UNREACHABLE: Errno = Errno(128);
/// How soon it is noticed that the command was interrupted, or that a program has ended.
const ATTENTION: Nanos = Nanos::from_millis(50);
/// How often programs are looked at.
const LOOK_EVERY: Nanos = Nanos::from_millis(5);
/// Seconds that Linux's `ping` waits for its one answer.
const LINUX_PATIENCE: &str = "10";

/// Whether nobody waits any more.
type GivenUp<'a> = Box<dyn Fn() -> bool + 'a>;

impl HostIp {
    /// Echoes to one address.
    ///
    /// # Errors
    ///
    /// ENETUNREACH when no interface leads there; ENOTSUP for a group on a host whose interfaces are Linux's.
    pub fn pinger<'a>(
        &'a self,
        spec: &PingSpec,
        given_up: GivenUp<'a>,
    ) -> Result<Box<dyn Pinger + 'a>, Errno> {
        if self.has(spec.to) || is_loopback(spec.to) {
            return Ok(Box::new(Own { to: spec.to, out: VecDeque::new(), given_up }));
        }
        let (plumbed, source) = self.route(spec).ok_or(UNREACHABLE)?;
        if let Some(namespace) = &self.namespace {
            if plumbed.is_for_many(spec.to) {
                // Linux's command does not tell who answered.
                return Err(Errno::ENOTSUP);
            }
            let (namespace, to, out) = (namespace.clone(), spec.to, VecDeque::new());
            return Ok(Box::new(Linux { namespace, to, out, given_up }));
        }
        let mailbox = Mailbox::new();
        let app = plumbed.ip.start(Box::new(Echoes::new(source, spec.to, spec.ident, mailbox.clone())));
        Ok(Box::new(Lab { plumbed, app, mailbox, given_up }))
    }
}

/// Looks for an answer again and again, each time until the instant given: until the deadline, or until nobody waits any more.
fn look_for(
    deadline: Duration,
    given_up: &dyn Fn() -> bool,
    mut look: impl FnMut(Nanos) -> Option<EchoAnswer>,
) -> Option<EchoAnswer> {
    let deadline = Nanos(u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
    loop {
        let until = deadline.min(fakekernel::now() + ATTENTION);
        let answer = look(until);
        if answer.is_some() || until >= deadline || given_up() {
            return answer;
        }
    }
}

/// The host itself answers at once.
struct Own<'a> {
    to: IpAddr,
    out: VecDeque<EchoAnswer>,
    given_up: GivenUp<'a>,
}

impl Pinger for Own<'_> {
    fn send(&mut self, sequence: u16, size: usize) -> Result<(), Errno> {
        self.out.push_back(EchoAnswer { from: self.to, sequence, size, after: Duration::ZERO });
        Ok(())
    }

    fn answer(&mut self, deadline: Duration) -> Option<EchoAnswer> {
        look_for(deadline, &self.given_up, |until| {
            let answer = self.out.pop_front();
            if answer.is_none() {
                fakekernel::sleep(until.since(fakekernel::now()));
            }
            answer
        })
    }
}

/// By an application of the lab's stack.
struct Lab<'a> {
    plumbed: Arc<Plumbed>,
    app: AppId,
    mailbox: Arc<Mailbox>,
    given_up: GivenUp<'a>,
}

impl Pinger for Lab<'_> {
    fn send(&mut self, sequence: u16, size: usize) -> Result<(), Errno> {
        self.mailbox.post(Request { sequence, size });
        self.plumbed.ip.kick();
        Ok(())
    }

    fn answer(&mut self, deadline: Duration) -> Option<EchoAnswer> {
        look_for(deadline, &self.given_up, |until| {
            let Answer { from, request: Request { sequence, size }, after } = self.mailbox.answer(until)?;
            Some(EchoAnswer { from, sequence, size, after })
        })
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        self.plumbed.ip.stop(self.app);
    }
}

/// A process of Linux's `ping` for each request; there is a wall clock wherever there is one.
struct Linux<'a> {
    namespace: Arc<Namespace>,
    to: IpAddr,
    out: VecDeque<(EchoAnswer, Nanos, Child)>,
    given_up: GivenUp<'a>,
}

/// One that has ended well; those that have ended otherwise are forgotten.
fn ended(out: &mut VecDeque<(EchoAnswer, Nanos, Child)>) -> Option<EchoAnswer> {
    for _ in 0..out.len() {
        let (answer, begun, mut child) = out.pop_front()?;
        match child.try_wait() {
            Ok(Some(status)) if status.success() => {
                let after = Duration::from_nanos(fakekernel::now().since(begun).0);
                return Some(EchoAnswer { after, ..answer });
            }
            Ok(None) => out.push_back((answer, begun, child)),
            Ok(Some(_)) | Err(_) => {}
        }
    }
    None
}

impl Pinger for Linux<'_> {
    fn send(&mut self, sequence: u16, size: usize) -> Result<(), Errno> {
        let mut ping = self.namespace.command("ping");
        ping.args([
            "-n",
            "-q",
            "-c",
            "1",
            "-W",
            LINUX_PATIENCE,
            "-s",
            &size.to_string(),
            &self.to.to_string(),
        ]);
        ping.stdout(Stdio::null()).stderr(Stdio::null());
        let child = ping.spawn().map_err(|_| Errno::EIO)?;
        let answer = EchoAnswer { from: self.to, sequence, size, after: Duration::ZERO };
        self.out.push_back((answer, fakekernel::now(), child));
        Ok(())
    }

    fn answer(&mut self, deadline: Duration) -> Option<EchoAnswer> {
        let Self { out, given_up, .. } = self;
        look_for(deadline, given_up, |until| {
            let answer = ended(out);
            if answer.is_none() {
                fakekernel::sleep(LOOK_EVERY.min(until.since(fakekernel::now())));
            }
            answer
        })
    }
}

impl Drop for Linux<'_> {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.out {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
