//! `cmn_err`, `panic` and the `printf` family over the kernel's formatter (rules 33 and 41).

mod format;
mod va;

use std::ffi::{c_char, c_int};

use illumos_sys_hdrs::__va_list_tag;
use sim::{Contexts, Rule};

pub(super) use self::format::Arguments;
use self::format::Remark;
pub(super) use self::va::{VaList, variadic};
use super::console::{Level, Message, To};
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::mem::{Mem, c_string};

pub(super) fn unix() -> Vec<Export> {
    let mut exports = export! { ANY: vsnprintf; };
    exports.push(Export::raw("snprintf", snprintf as *const () as usize, Contexts::ANY));
    exports.push(Export::raw("panic", panic as *const () as usize, Contexts::ANY));
    exports
}

pub(super) fn genunix() -> Vec<Export> {
    let mut exports = export! { ANY: vcmn_err, vsprintf; };
    exports.push(Export::raw("cmn_err", cmn_err as *const () as usize, Contexts::ANY));
    exports.push(Export::raw("sprintf", sprintf as *const () as usize, Contexts::ANY));
    exports
}

variadic! {
    /// `void cmn_err(int, const char *, ...)`
    cmn_err, named 2, list in "rdx" => vcmn_err
}
variadic! {
    /// `size_t snprintf(char *, size_t, const char *, ...)`
    snprintf, named 3, list in "rcx" => vsnprintf
}
variadic! {
    /// `char *sprintf(char *, const char *, ...)`
    sprintf, named 2, list in "rdx" => vsprintf
}
variadic! {
    /// `void panic(const char *, ...)`
    panic, named 1, list in "rsi" => vpanic
}

/// Formats and judges the format string.
///
/// # Safety
///
/// `fmt` is a string and `list` holds the arguments it asks for.
unsafe fn formatted(cx: &Cx, fmt: *const c_char, list: *mut __va_list_tag) -> Vec<u8> {
    // SAFETY: by contract.
    let fmt = unsafe { c_string(fmt, None) };
    // SAFETY: by contract.
    let mut args = unsafe { VaList::new(list) };
    let mut remarks = Vec::new();
    let text = format::format(&fmt, &mut args, &mut remarks);
    for remark in remarks {
        let format = String::from_utf8_lossy(&fmt).into_owned();
        match remark {
            Remark::UnknownConversion { letter, at } => {
                let letter = char::from(letter);
                cx.violate(
                    Rule::BadFormat,
                    format!("'{letter}' at byte {at} of \"{format}\" is no conversion"),
                );
            }
            Remark::BadBase(base) => {
                cx.violate(Rule::BadFormat, format!("%b with number base {base} in \"{format}\""));
            }
            Remark::NullString => cx.note(Rule::BadFormat, format!("a NULL string for %s in \"{format}\"")),
            Remark::ZeroPrecision => cx.note(
                Rule::BadFormat,
                format!("%.*s with precision 0 in \"{format}\" prints the whole string"),
            ),
        }
    }
    text
}

unsafe extern "C" fn vsnprintf(
    buf: *mut c_char,
    size: usize,
    fmt: *const c_char,
    list: *mut __va_list_tag,
) -> usize {
    let cx = cx();
    // SAFETY: vsnprintf(9F): a format string and its arguments.
    let text = unsafe { formatted(&cx, fmt, list) };
    cx.check(size <= isize::MAX as usize, Rule::AbsurdArgument, || format!("a buffer of {size} bytes"));
    if size > 0 && size <= isize::MAX as usize {
        // SAFETY: vsnprintf(9F): the buffer has `size` bytes.
        let buf = unsafe { Mem::of(buf, size) };
        let kept = text.len().min(size - 1);
        buf.put(&text[..kept]);
        buf.part(kept, 1).set(0);
    }
    text.len()
}

unsafe extern "C" fn vsprintf(buf: *mut c_char, fmt: *const c_char, list: *mut __va_list_tag) -> *mut c_char {
    let cx = cx();
    // SAFETY: vsprintf(9F): a format string and its arguments.
    let mut text = unsafe { formatted(&cx, fmt, list) };
    text.push(0);
    // SAFETY: vsprintf(9F): the buffer holds the result, however long.
    unsafe { Mem::of(buf, text.len()) }.put(&text);
    buf
}

unsafe extern "C" fn vcmn_err(level: c_int, fmt: *const c_char, list: *mut __va_list_tag) {
    let cx = cx();
    // SAFETY: cmn_err(9F): a format string and its arguments.
    let text = unsafe { formatted(&cx, fmt, list) };
    let Some(known) = Level::from_raw(level) else {
        cx.check(level == 4, Rule::AbsurdArgument, || format!("cmn_err level {level}"));
        return;
    };
    print(&cx, known, &text);
}

unsafe extern "C" fn vpanic(fmt: *const c_char, list: *mut __va_list_tag) -> ! {
    let cx = cx();
    // SAFETY: panic(9F): a format string and its arguments.
    let text = unsafe { formatted(&cx, fmt, list) };
    cx.panic(String::from_utf8_lossy(&text).into_owned())
}

/// Puts a message on the host's log; `CE_PANIC` ends the machine.
fn print(cx: &Cx, level: Level, text: &[u8]) {
    let (to, text) = To::split(text);
    let text = String::from_utf8_lossy(text).trim_end_matches('\n').to_owned();
    let module = match cx.module_name() {
        "" => "kernel",
        name => name,
    };
    let at = cx.kernel().machine().now();
    let message = Message { at, level, to, module: module.to_owned(), text: text.clone() };
    cx.kernel().genunix().console.print(message);
    if level == Level::Panic {
        cx.panic(text);
    }
}

impl super::Genunix {
    /// A message of the kernel's own, with the markers of `cmn_err(9F)`: `!` log only, `^` console only, `?` verbose.
    pub fn cmn_err(&self, cx: &Cx, level: Level, text: &str) {
        print(cx, level, text.as_bytes());
    }

    /// Every message so far, in order.
    pub fn messages(&self) -> Vec<Message> {
        self.console.messages()
    }

    /// Shows each message from now on to `printer` (on whatever thread prints; it must not call into the machine).
    pub fn set_printer(&self, printer: Option<super::Printer>) {
        self.console.set_printer(printer);
    }
}
