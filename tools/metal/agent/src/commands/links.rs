//! Links: partitions, properties, the daemon that names them.

use core::fmt::Write as _;

use super::{Failure, Named as _, Outcome, Path};
use crate::abi::dld::{self, PROPERTY_PRIVATE, Partition, Port, Property};
use crate::abi::dlmgmt::{DIRECTORY, DOOR, Links, NAMELESS, Reply};
use crate::abi::text;
use crate::answer::Answer;
use crate::sys::files::{self, Open};
use crate::sys::{
    self, CREATE_PARTITION, DELETE_PARTITION, DOOR_SERVER, Fd, GET_PROPERTY, PARTITION_INFORMATION,
    SET_PROPERTY, door, now,
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
    let began = now();
    let outcome = with_dld(|dld| control.call(dld, &mut request).named(name));
    if let Err(Failure::Call(call, errno)) = outcome {
        // The driver's own reason, which dladm shows, too.
        let status = request.status;
        return Err(Failure::Status(call, errno, status));
    }
    outcome?;
    let us = now() - began;
    // Writing to a Text cannot fail, here and below.
    let _ = write!(answer, " port={:016x} number={} us={us}", request.port_guid, request.port_number);
    Ok(())
}

/// `part-info LINK`: what the driver says about a partition.
pub fn partition_information(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut asked = Partition::default();
    (asked.command, asked.port_link) = (dld::ABOUT_PARTITION, words.number()?);
    with_dld(|dld| PARTITION_INFORMATION.call(dld, &mut asked).named("part-info"))?;
    let Partition { port_link, port_instance, port_number, link, force, pkey, .. } = asked;
    let _ = write!(answer, " port={port_link} instance={port_instance} number={port_number}");
    let _ = write!(answer, " link={link} force={force} pkey={pkey:04x} adapter={:016x}", asked.hca_guid);
    let _ = write!(answer, " guid={:016x}", asked.port_guid);
    Ok(())
}

/// `port-info INSTANCE [SIZE]`: how many P_Keys a port's table has, or, told so, what they are.
pub fn port_information(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut port = Port::default();
    (port.command, port.instance) = (dld::TABLE_SIZE, words.number()?);
    let mut keys = [0; 256];
    if let Some(size) = words.maybe() {
        port.command = dld::ABOUT_PORT;
        port.table_size = size.parse().map_err(|_| Failure::Words("no number"))?;
    }
    let outcome = with_dld(|dld| sys::port_information(dld, &mut port, &mut keys).named("port-info"));
    if let Err(Failure::Call(call, errno)) = outcome {
        return Err(Failure::Status(call, errno, port.status));
    }
    outcome?;
    let _ = write!(answer, " size={}", port.table_size);
    if port.command == dld::ABOUT_PORT {
        let _ = write!(answer, " number={} guid={:016x} keys=", port.number, port.port_guid);
        for key in keys.iter().take(port.table_size as usize) {
            let _ = write!(answer, "{key:04x}.");
        }
    }
    Ok(())
}

fn write_value(property: &Property, answer: &mut Answer) {
    let _ = if property.number == PROPERTY_PRIVATE {
        write!(answer, " value={}", text(&property.value))
    } else {
        write!(answer, " value={}", property.number_value())
    };
}

/// `prop-get LINK NAME`.
pub fn get_property(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut property = named(words)?;
    with_dld(|dld| GET_PROPERTY.call(dld, &mut property).named("get-property"))?;
    write_value(&property, answer);
    let _ = write!(answer, " permission={}", property.permission());
    Ok(())
}

/// `prop-default LINK NAME`.
pub fn property_default(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut property = named(words)?;
    property.flags = dld::DEFAULT;
    with_dld(|dld| GET_PROPERTY.call(dld, &mut property).named("get-property"))?;
    write_value(&property, answer);
    Ok(())
}

/// `prop-possible LINK NAME`: ranges of values.
pub fn property_values(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let mut property = named(words)?;
    property.want_possible();
    with_dld(|dld| GET_PROPERTY.call(dld, &mut property).named("get-property"))?;
    let mut any = false;
    for (least, most) in property.ranges() {
        let _ = write!(answer, " {least}-{most}");
        any = true;
    }
    if !any {
        answer.push(b" none");
    }
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
    let nameless = Path::new(NAMELESS)?;
    door::serve(|question| {
        links.named = files::open(nameless.c(), Open::Read).and_then(files::close).is_err();
        links.answer(question)
    })
}

/// `dls-names on|off`: whether dls is told the names of partitions, from now on.
pub fn name_partitions(words: &mut Words<'_>) -> Outcome {
    let path = Path::new(NAMELESS)?;
    if words.word()? == "on" {
        files::remove(path.c()).named("unlink")?;
    } else {
        files::open(path.c(), Open::Make).and_then(files::close).named("create")?;
    }
    Ok(())
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
