# gdb's command ibd-links: every link of the driver, and all that it counts, read from the memory of a
# kernel or of a lab. docs/debugging.md has the layout, which rust/ibd/src/dump.rs makes.
#
# IBD_ROOTS, if somebody has set it, are the addresses of the symbol ibd_root in the modules that are
# loaded. Otherwise gdb is asked for them.
import gdb
import struct

MAGIC = b"ibd_v001"
LINK = struct.Struct("<QiIQQQQQ")
VALUE = struct.Struct("<QQQ")
STATES = ["stopped", "waits for port", "waits for P_Key", "waits for broadcast group",
          "waits for queue pair", "up"]


def memory(address, length):
    return bytes(gdb.selected_inferior().read_memory(address, length))


def word(address):
    return struct.unpack("<Q", memory(address, 8))[0]


def string(address):
    text = b""
    while b"\0" not in text:
        text += memory(address + len(text), 8)
    return text.split(b"\0")[0].decode("ascii", "replace")


def roots():
    if "IBD_ROOTS" in globals():
        return IBD_ROOTS
    said = gdb.execute("info variables -q ^ibd_root$", to_string=True)
    return [int(line.split()[0], 16) for line in said.splitlines() if line.startswith("0x")]


def links(root):
    """Addresses of the records behind one symbol."""
    if memory(root, 8) != MAGIC:
        raise gdb.GdbError("%#x: no %s" % (root, MAGIC.decode()))
    first = word(root + 8)
    link = word(first) if first != 0 else 0
    while link != 0:
        yield link
        link = word(link)


def values(first, count):
    for at in range(first, first + count * VALUE.size, VALUE.size):
        kstat, name, value = VALUE.unpack(memory(at, VALUE.size))
        yield string(kstat), string(name), word(value)


class Links(gdb.Command):
    """All links of the driver, with what they count. Nothing is said of what is 0."""

    def __init__(self):
        super().__init__("ibd-links", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for root in roots():
            for link in links(root):
                _, number, port, hca, pkey, dip, first, count = LINK.unpack(memory(link, LINK.size))
                print("link %d pkey %04x port %d of %016x dip %#x" % (number, pkey, port, hca, dip))
                for kstat, name, value in values(first, count):
                    if name == "link_state":
                        print("  %s %s %d (%s)" % (kstat, name, value, STATES[value]))
                    elif value != 0:
                        print("  %s %s %d" % (kstat, name, value))


Links()
