//! Zones with an exclusive IP stack.

use core::fmt::Write as _;

use super::{Named as _, Outcome, Path};
use crate::answer::Answer;
use crate::sys::{files, zones};
use crate::words::Words;

/// `zone-create NAME ROOT`: the root is a directory, made if it is not there.
pub fn create(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let (name, root) = (Path::new(words.word()?)?, Path::new(words.word()?)?);
    let _ = files::make_directory(root.c());
    let id = zones::create(name.c(), root.c()).named("zone_create")?;
    // Writing to a Text cannot fail.
    let _ = write!(answer, " zone={id}");
    Ok(())
}

/// `zone-link ZONE LINK on|off`.
pub fn link(words: &mut Words<'_>) -> Outcome {
    let (zone, link) = (words.number()?, words.number()?);
    zones::own_link(zone, link, words.word()? == "on").named("zone_datalink")?;
    Ok(())
}

/// `zone-shutdown ZONE`.
pub fn shut_down(words: &mut Words<'_>) -> Outcome {
    zones::shut_down(words.number()?).named("zone_shutdown")?;
    Ok(())
}

/// `zone-destroy ZONE`.
pub fn destroy(words: &mut Words<'_>) -> Outcome {
    zones::destroy(words.number()?).named("zone_destroy")?;
    Ok(())
}

/// `enter ZONE`: this process is in the zone from now on.
pub fn enter(words: &mut Words<'_>) -> Outcome {
    zones::enter(words.number()?).named("zone_enter")?;
    Ok(())
}

/// `node PATH DEVICE-PATH`: a node of the same device as that path has.
pub fn node(words: &mut Words<'_>) -> Outcome {
    let path = Path::new(words.word()?)?;
    let device = files::device_of(Path::new(words.word()?)?.c()).named("stat")?;
    files::make_node(path.c(), device).named("mknod")?;
    Ok(())
}
