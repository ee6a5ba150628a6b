typedef unsigned int uint_t;
typedef unsigned long size_t;
typedef unsigned long uintptr_t;
typedef unsigned char uchar_t;
typedef unsigned short ushort_t;
typedef struct { void *_opaque[1]; } kmutex_t;
typedef struct { ushort_t _opaque; } kcondvar_t;
typedef struct { void *_opaque[1]; } krwlock_t;
#define	NULL ((void *)0)

struct mod_ops { void *p[3]; };
extern struct mod_ops mod_miscops, mod_driverops;
extern int hz;
extern char p0[];
extern short minclsyspri;

struct modlmisc { struct mod_ops *ops; const char *info; };
struct modlinkage { int rev; void *link[7]; };

int mod_install(struct modlinkage *);
int mod_remove(struct modlinkage *);
int mod_info(struct modlinkage *, void *);
void mutex_init(kmutex_t *, char *, int, void *);
void mutex_enter(kmutex_t *);
int mutex_tryenter(kmutex_t *);
void mutex_exit(kmutex_t *);
void mutex_destroy(kmutex_t *);
int mutex_owned(kmutex_t *);
void cv_init(kcondvar_t *, char *, int, void *);
void cv_destroy(kcondvar_t *);
void cv_wait(kcondvar_t *, kmutex_t *);
long cv_timedwait(kcondvar_t *, kmutex_t *, long);
long cv_reltimedwait(kcondvar_t *, kmutex_t *, long, int);
void cv_signal(kcondvar_t *);
void cv_broadcast(kcondvar_t *);
void rw_init(krwlock_t *, char *, int, void *);
void rw_enter(krwlock_t *, int);
void rw_exit(krwlock_t *);
void rw_destroy(krwlock_t *);
void *thread_create(void *, size_t, void (*)(), void *, size_t, void *, int, short);
void thread_join(unsigned long);
void thread_exit(void);
unsigned long timeout(void (*)(void *), void *, long);
long untimeout(unsigned long);
void delay(long);
long ddi_get_lbolt(void);
int ddi_add_softintr(void *, int, void **, void **, void *, uint_t (*)(char *), char *);
void ddi_remove_softintr(void *);
void ddi_trigger_softintr(void *);
void *ddi_taskq_create(void *, const char *, int, short, uint_t);
int ddi_taskq_dispatch(void *, void (*)(void *), void *, uint_t);
void ddi_taskq_wait(void *);
void ddi_taskq_destroy(void *);
unsigned long callb_add(int (*)(void *, int), void *, int, char *);
int callb_delete(unsigned long);

#define	DID(t) (*(unsigned long *)((char *)(t) + 272))
#define	SPAWN(f, a) DID(thread_create(NULL, 0, (void (*)())f, a, 0, p0, 2, minclsyspri))

static struct modlmisc probe_misc = { &mod_miscops, "probe" };
static struct modlinkage probe_linkage = { 1, { &probe_misc, NULL } };
#ifndef	OWN_LINKAGE
int _init(void) { return (mod_install(&probe_linkage)); }
int _fini(void) { return (mod_remove(&probe_linkage)); }
int _info(void *p) { return (mod_info(&probe_linkage, p)); }
#endif
