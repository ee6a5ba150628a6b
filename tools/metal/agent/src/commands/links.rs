//! Links: partitions, properties, the daemon that names them.

use core::fmt::Write as _;

use super::{Failure, Named as _, Outcome, Path};
use crate::abi::dld::{self, PROPERTY_PRIVATE, Partition, Property};
use crate::abi::dlmgmt::{DIRECTORY, DOOR, Links, Reply};
use crate::abi::text;
use crate::answer::Answer;
use crate::sys::files::{self, Open};
use crate::sys::{
    self, CREATE_PARTITION, DELETE_PARTITION, DOOR_SERVER, Fd, GET_PROPERTY, SET_PROPERTY, door,
};
use crate::words::Words;

impl AsRef<[u8]> for Reply {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Opens dld's control device for the time of one command.
pub fn with_dld<T>(act: impl FnOnce(Fd) -> Result<T, Failure>) -> Result<T, Failure> {
    let device = files::open(Path::new(dld::DEVICE)?.c(), Open::Both).named("open dld")?;
    let outcome = act(device);
    let _ = files::close(device);
    outcome
}

/// `part-create LINK PORT-LINK INSTANCE PKEY [FORCE]`, and `part-delete` with the same words.
pub fn partition(words: &mut Words<'_>, answer: &mut Answer, create: bool) -> Outcome {
    let mut request = Partition::default();
    request.link = words.number()?;
    request.port_link = words.number()?;
    request.port_instance = words.number()?;
    request.pkey = words.number()?;
    request.force = words.number_or(0)?;
    let (control, name) =
        if create { (CREATE_PARTITION, "create-part") } else { (DELETE_PARTITION, "delete-part") };
    let outcome = with_dld(|dld| control.call(dld, &mut request).named(name));
    if let Err(Failure::Call(call, errno)) = outcome {
        // The driver's own reason, which dladm shows, too.
        let status = request.status;
        return Err(Failure::Status(call, errno, status));
    }
    outcome?;
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " port={:016x} number={}", request.port_guid, request.port_number);
    Ok(())
}

/// `prop-get LINK NAME`.
pub fn get_property(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut property = named(words)?;
    with_dld(|dld| GET_PROPERTY.call(dld, &mut property).named("get-property"))?;
    let _ = if property.number == PROPERTY_PRIVATE {
        write!(answer, " value={}", text(&property.value))
    } else {
        write!(answer, " value={}", property.number_value())
    };
    Ok(())
}

/// `prop-set LINK NAME VALUE`.
pub fn set_property(words: &mut Words<'_>) -> Outcome {
    let mut property = named(words)?;
    if !property.set(words.word()?) {
        return Err(Failure::Words("no value of that property"));
    }
    with_dld(|dld| SET_PROPERTY.call(dld, &mut property).named("set-property"))?;
    Ok(())
}

fn named(words: &mut Words<'_>) -> Result<Property, Failure> {
    let link = words.number()?;
    Property::named(link, words.word()?).ok_or(Failure::Words("no property of that name"))
}

/// `prop-zone LINK ZONE`: the link and its IP interfaces belong to that zone; 0 is the global one.
pub fn set_zone(words: &mut Words<'_>) -> Outcome {
    let mut property = Property::zone(words.number()?, words.number()?);
    with_dld(|dld| SET_PROPERTY.call(dld, &mut property).named("set-zone"))?;
    Ok(())
}

/// `dls-serve`: this process answers what dls asks of dlmgmtd; it does nothing else any more.
pub fn serve_dls(ready: impl FnOnce()) -> Outcome {
    let _ = files::make_directory(Path::new(DIRECTORY)?.c());
    let path = Path::new(DOOR)?;
    let file = files::open(path.c(), Open::Make).named("create the door's file")?;
    let _ = files::close(file);
    door::create(path.c()).named("door-create")?;
    ready();
    let mut links = Links::default();
    door::serve(|question| links.answer(question))
}

/// `dls-start`: dls opens the door.
pub fn start_dls() -> Outcome {
    with_dld(|dld| DOOR_SERVER.call(dld, &mut 1).named("door-server"))?;
    Ok(())
}

/// `adapter PATH CODE [A [B [C [D]]]]`: an event of an adapter for tests.
pub fn adapter(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let path = Path::new(words.word()?)?;
    let code = words.number()?;
    let mut numbers = [0; 4];
    for number in &mut numbers {
        *number = words.number_or(0)?;
    }
    let device = files::open(path.c(), Open::Both).named("open the adapter")?;
    let outcome = sys::adapter(device, code, &mut numbers).named("adapter");
    let _ = files::close(device);
    let value = outcome?;
    let _ = write!(answer, " value={value}");
    numbers.iter().for_each(|number| {
        let _ = write!(answer, " {number}");
    });
    Ok(())
}
