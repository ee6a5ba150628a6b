# Run by gdb on a kernel: who has allocated what is still there, as owners.rs describes.
import gdb
import struct

# Above this text stand WANTED, a set of names (cache/NAME, arena/NAME), and SINCE, nanoseconds
# since the machine started, and where in genunix's text the addresses of its two lists are.

# Where amd64 has the fields of kmem_cache_t, kmem_bufctl_audit_t, kmem_buftag_t (sys/kmem_impl.h),
# vmem_t and vmem_seg_t (sys/vmem_impl.h); the kernel is built without descriptions of its types.
CACHE_NAME, CACHE_FLAGS, CACHE_BUFTAG = 104, 204, 280
CACHE_LINK, CACHE_MASK, CACHE_TABLE = 224, 336, 440
KMF_AUDIT = 1
ALLOCATED = 0xA110C8EDA110C8ED
ARENA_NEXT, ARENA_TABLE, ARENA_MASK = 104, 136, 144
FRAMES = 20

inferior = gdb.selected_inferior()


def memory(address, length):
    return bytes(inferior.read_memory(address, length))


def word(address):
    return struct.unpack("<Q", memory(address, 8))[0]


def words(address, count):
    return struct.unpack("<%dQ" % count, memory(address, 8 * count))


def string(address, length):
    return memory(address, length).split(b"\0")[0].decode("ascii", "replace")


def variable(reference):
    at, addend = reference
    return (struct.unpack("<i", memory(TEXT + at, 4))[0] - addend) & (1 << 64) - 1


def chains(table, mask, next_at):
    for entry in words(table, mask + 1):
        while entry != 0:
            yield entry
            entry = word(entry + next_at)


def caches():
    head = variable(CACHES) + 16
    node = word(head)
    while node != head:
        yield node - CACHE_LINK
        node = word(node)


def arenas():
    arena = word(variable(ARENAS))
    while arena != 0:
        yield arena
        arena = word(arena + ARENA_NEXT)


def buffers(cache):
    """Stacks of the buffers that are not free; a freed one may wait in a magazine."""
    flags, tag = struct.unpack("<I", memory(cache + CACHE_FLAGS, 4))[0], word(cache + CACHE_BUFTAG)
    if flags & KMF_AUDIT == 0:
        return
    mask, table = word(cache + CACHE_MASK), word(cache + CACHE_TABLE)
    for control in chains(table, mask, 0):
        fields = words(control, 24)
        address, owner, time, depth = fields[1], fields[3], fields[4], fields[8] & 0xFFFFFFFF
        if owner != cache or time < SINCE:
            continue
        bufctl, state = words(address + tag + 8, 2)
        if (bufctl ^ state) & 0xFFFFFFFF == ALLOCATED & 0xFFFFFFFF:
            yield 1, fields[9 : 9 + min(depth, 15)]


def segments(arena):
    """Stacks of what is allocated from an arena, with octets."""
    for segment in chains(word(arena + ARENA_TABLE), word(arena + ARENA_MASK), 16):
        fields = words(segment, 29)
        if fields[8] >= SINCE:
            depth = (fields[6] >> 16) & 0xFF
            yield fields[1] - fields[0], fields[9 : 9 + min(depth, 20)]


def named(address):
    said = gdb.execute("info symbol %#x" % (address - 1), to_string=True)
    if said.startswith("No symbol"):
        return "%#x" % address
    function, place = said.split(" in section")[0].split(" + ")[0], said.split(" of ")
    module = place[1].strip().rsplit("/", 1)[-1] if len(place) > 1 else "unix"
    return function if module in ("unix", "genunix") else "%s`%s" % (module, function)


def tell(what, found):
    stacks = {}
    for size, stack in found:
        count, octets = stacks.get(stack, (0, 0))
        stacks[stack] = (count + 1, octets + size)
    for stack, (count, octets) in sorted(stacks.items(), key=lambda one: -one[1][0]):
        names = [named(address) for address in stack[:FRAMES]]
        unit = "%d" % count if octets == count else "%d, %d octets" % (count, octets)
        print("owner %s %s: %s" % (what, unit, " < ".join(names)))


for cache in caches():
    name = "cache/" + string(cache + CACHE_NAME, 32)
    if name in WANTED:
        tell(name, buffers(cache))
for arena in arenas():
    name = "arena/" + string(arena, 30)
    if name in WANTED:
        tell(name, segments(arena))
