# Run by gdb on a kernel: one line for each call between mac and the driver, as calls.rs describes.
import gdb
import re

# Above this text stand OUT, where the lines go, CALLBACKS, a list of (symbol, length,
# whose, name, shape, whether it returns a value), and
# UPCALLS, a list of (function of mac, shape).

inferior = gdb.selected_inferior()
out = open(OUT, "a")
links = {}
open_calls = {}


def register(name):
    return int(gdb.parse_and_eval("(unsigned long)$" + name))


def memory(address, length):
    return bytes(inferior.read_memory(address, length))


def string(address):
    return memory(address, 64).split(b"\0")[0].decode("ascii", "replace")


def link(whose, handle):
    numbers = links.setdefault(whose, {})
    return "%s%d" % (whose, numbers.setdefault(handle, len(numbers) + 1))


def argument(shape):
    if shape == "on":
        return str(register("rsi") & 0xFFFFFFFF)
    if shape == "number":
        value = register("rsi") & 0xFFFFFFFF
        return "%d" % (value - (1 << 32) if value >> 31 else value)
    if shape == "numbers":
        return "%d, %d" % (register("rsi") & 0xFFFFFFFF, register("rdx") & 0xFFFFFFFF)
    if shape == "capability":
        return "%#x" % (register("rsi") & 0xFFFFFFFF)
    if shape == "on-address":
        return "%d, %s" % (register("rsi") & 0xFFFFFFFF, memory(register("rdx"), 20).hex())
    if shape == "address":
        return memory(register("rsi"), 20).hex()
    if shape == "property":
        return "%s, %#x" % (string(register("rsi")), register("rdx") & 0xFFFFFFFF)
    return ""


class Entry(gdb.Breakpoint):
    def __init__(self, address, whose, name, shape):
        super().__init__("*%#x" % address, internal=True)
        self.whose, self.name, self.shape = whose, name, shape

    def stop(self):
        who = link(self.whose, register("rdi"))
        open_calls[register("rsp")] = "%s %s(%s)" % (who, self.name, argument(self.shape))
        return False


class Return(gdb.Breakpoint):
    def __init__(self, address, returns):
        super().__init__("*%#x" % address, internal=True)
        self.returns = returns

    def stop(self):
        call = open_calls.pop(register("rsp"), None)
        if call is not None:
            say(call + (" = %d" % (register("rax") & 0xFFFFFFFF) if self.returns else ""))
        return False


class Up(gdb.Breakpoint):
    def __init__(self, address, name, shape):
        super().__init__("*%#x" % address, internal=True)
        self.function, self.shape = name, shape

    def stop(self):
        say("%s(%s)" % (self.function, argument(self.shape)))
        return False


def place(symbol):
    return int(gdb.parse_and_eval("(unsigned long)&'%s'" % symbol))


def say(line):
    out.write(line + "\n")
    out.flush()


for symbol, length, whose, name, shape, returns in CALLBACKS:
    start = place(symbol)
    Entry(start, whose, name, shape)
    for instruction in gdb.selected_frame().architecture().disassemble(start, start + length - 1):
        if instruction["asm"].startswith("ret"):
            Return(instruction["addr"], returns)
for name, shape in UPCALLS:
    Up(place(name), name, shape)
say("== traced")
gdb.execute("continue")
