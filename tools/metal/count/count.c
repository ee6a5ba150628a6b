/*
 * Counts the instructions that a machine in QEMU executes, by the address at
 * which each block of them begins: a plugin of QEMU's translator, interface
 * version 1.  The counts are in a file that is mapped, so that whoever wants
 * to know reads it while the machine runs.
 *
 * A string instruction that repeats counts once for each turn.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What of the interface is used (include/qemu/qemu-plugin.h of QEMU 7.2). */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };
typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
    translated_t);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *,
    int, void *, uint64_t);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* A place of the table; one that begins at 0 is free. */
struct place {
	uint64_t begins;
	uint64_t count;
};

/* The first place is for what finds the table full. */
#define	PLACES	(1UL << 20)

static struct place *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct place *
place_of(uint64_t begins)
{
	uint64_t at = (begins * 0x9e3779b97f4a7c15UL) >> 44;
	unsigned long tried;

	for (tried = 0; tried < 1024; tried++, at = (at + 1) % PLACES) {
		if (at == 0)
			continue;
		if (table[at].begins == 0)
			table[at].begins = begins;
		if (table[at].begins == begins)
			return (&table[at]);
	}
	return (&table[0]);
}

static void
translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	struct place *place;

	(void) id;
	pthread_mutex_lock(&lock);
	place = place_of(qemu_plugin_tb_vaddr(block));
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_inline(block,
	    QEMU_PLUGIN_INLINE_ADD_U64, &place->count,
	    qemu_plugin_tb_n_insns(block));
}

/* The argument is counts=FILE. */
__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc,
    char **argv)
{
	const size_t size = PLACES * sizeof (struct place);
	void *map;
	int file;

	(void) info;
	if (argc != 1 || strncmp(argv[0], "counts=", 7) != 0)
		return (-1);
	file = open(argv[0] + 7, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (file < 0 || ftruncate(file, (off_t)size) != 0)
		return (-1);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	(void) close(file);
	if (map == MAP_FAILED)
		return (-1);
	table = map;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return (0);
}
