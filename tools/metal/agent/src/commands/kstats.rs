//! Statistics of the kernel: a link's, and what its allocators hold.

use core::fmt::Write as _;

use zerocopy::FromZeros as _;

use super::{Failure, Named as _, Outcome};
use crate::abi::system::{Kstat, Named};
use crate::abi::text;
use crate::answer::Answer;
use crate::sys::Errno;
use crate::sys::kstats::Kstats;
use crate::words::Words;

/// How many statistics a kernel may have, and how many values one of them.
const MANY: usize = 6000;
const VALUES: usize = 256;

fn with_headers(act: impl FnOnce(&Kstats, &[Kstat]) -> Outcome) -> Outcome {
    let device = Kstats::open().named("open kstat")?;
    let mut headers = [Kstat::new_zeroed(); MANY];
    let count = device.headers(&mut headers).named("kstat chain")?;
    act(&device, &headers[..count])
}

/// `kstats [MODULE]`: the names of the statistics, of one module if it is given.
pub fn list(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let wanted = words.maybe();
    with_headers(|_, headers| {
        for one in headers.iter().filter(|one| wanted.is_none_or(|module| text(&one.module) == module)) {
            // Writing to a Text cannot fail, here and below.
            let _ = write!(answer, " {}:{}:{}", text(&one.module), one.instance, text(&one.name));
        }
        Ok(())
    })
}

/// `kstat MODULE INSTANCE NAME`: its numbers.
pub fn values(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (module, instance, name) = (words.word()?, words.number::<u32>()?, words.word()?);
    let is_it =
        |one: &&Kstat| text(&one.module) == module && one.instance == instance && text(&one.name) == name;
    with_headers(|device, headers| {
        let one = headers.iter().find(is_it).ok_or(Failure::Call("kstat", Errno(2)))?;
        let mut values = [Named::new_zeroed(); VALUES];
        let (count, at) = device.values(one, &mut values).named("kstat read")?;
        for value in &values[..count] {
            if let Some(number) = value.number() {
                let _ = write!(answer, " {}={number}", text(&value.name));
            }
        }
        let _ = write!(answer, " snaptime={at}");
        Ok(())
    })
}

/// `kstat-form MODULE INSTANCE NAME`: its class, and the names and types of its values in their order.
pub fn form(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (module, instance, name) = (words.word()?, words.number::<u32>()?, words.word()?);
    let is_it =
        |one: &&Kstat| text(&one.module) == module && one.instance == instance && text(&one.name) == name;
    with_headers(|device, headers| {
        let one = headers.iter().find(is_it).ok_or(Failure::Call("kstat", Errno(2)))?;
        let mut values = [Named::new_zeroed(); VALUES];
        let (count, _) = device.values(one, &mut values).named("kstat read")?;
        let _ = write!(answer, " class={}", text(&one.class));
        for value in &values[..count] {
            let _ = write!(answer, " {}:{}", text(&value.name), value.type_name());
        }
        Ok(())
    })
}

/// `memory`: what is in use of every kmem cache (buffers) and of every vmem arena (octets), and when, in nanoseconds since the start.
pub fn memory(answer: &mut Answer) -> Outcome {
    with_headers(|device, headers| {
        let mut values = [Named::new_zeroed(); VALUES];
        let mut last = 0;
        for one in headers {
            let (kind, field) = match (text(&one.module), text(&one.class)) {
                ("unix", "kmem_cache") => ("cache", "buf_inuse"),
                ("vmem", "vmem") => ("arena", "mem_inuse"),
                _ => continue,
            };
            // One that has gone meanwhile holds nothing.
            let Ok((count, at)) = device.values(one, &mut values) else { continue };
            last = at;
            let value = values[..count].iter().find(|value| text(&value.name) == field);
            if let Some(number) = value.and_then(Named::number) {
                let _ = write!(answer, " {kind}/{}={number}", text(&one.name));
            }
        }
        let _ = write!(answer, " at={last}");
        Ok(())
    })
}
