/* plimsoll.h: how much memory a program may use now.
 *
 * A program opens a principal and reads at any time, within nanoseconds, how much memory it may use
 * now. It waits for changes where that suits it, gives back what it owes, and reports that it did.
 * If no broker runs, or the broker dies, the numbers come from local sensing. Every wait for a
 * broker has a time limit, and reading cannot fail.
 *
 *     plimsoll *p = plimsoll_open("my-cache", NULL);
 *     plimsoll_numbers now;
 *     for (;;) {
 *         int event = plimsoll_wait(p, 1000, &now);
 *         if (event < 0) { fprintf(stderr, "%s\n", plimsoll_error()); break; }
 *         if (now.owed > 0)
 *             plimsoll_released(p, drop_bytes(now.owed));
 *         else if (now.uses < now.limit)
 *             let_cache_grow_by(now.limit - now.uses);
 *     }
 *     plimsoll_close(p);
 *
 * All sizes are bytes. Times are nanoseconds of CLOCK_MONOTONIC unless a name says otherwise.
 * All functions may be called from any thread, but plimsoll_close() only when no other is using the
 * handle. None may be called from a signal handler.
 *
 * Effects of the library on a program: none when it is loaded. An open principal has one thread
 * (with all signals blocked but faults), some descriptors that are closed on exec, and, while a
 * broker's page is mapped, a handler for SIGBUS, which passes faults on that are not on that page
 * (PLIMSOLL_NO_GUARD turns it off). After fork() the child may only read.
 */
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A registered principal; see plimsoll_open(). */
typedef struct plimsoll plimsoll;

/* Where the numbers come from. */
enum plimsoll_source {
    PLIMSOLL_BROKER = 0, /* a broker that is alive */
    PLIMSOLL_STALE = 1,  /* a broker that gave no sign of life lately: its last numbers */
    PLIMSOLL_LOCAL = 2   /* local sensing: no broker is there */
};

/* How short memory is, for programs that know levels only. */
enum plimsoll_level {
    PLIMSOLL_NORMAL = 0,  /* within its limit */
    PLIMSOLL_WARNING = 1, /* at its limit, or owing with time left */
    PLIMSOLL_CRITICAL = 2 /* owing, and the deadline is near or past */
};

/* Events that plimsoll_wait() returns. Changes that come faster than the program waits for them are
 * merged; the last numbers are always reported. */
enum plimsoll_event {
    PLIMSOLL_TIMEOUT = 0,     /* nothing happened in that time, or plimsoll_interrupt() */
    PLIMSOLL_OWED = 1,        /* `owed` bytes are to be given back before `deadline` */
    PLIMSOLL_RELIEF = 2,      /* nothing is owed any more, or the level fell */
    PLIMSOLL_CHANGED = 3,     /* other numbers, mostly the limit */
    PLIMSOLL_BROKER_LOST = 4, /* the broker is gone; the numbers are local now */
    PLIMSOLL_JOINED = 5       /* a broker is (back) there */
};

/* Negative results. plimsoll_error() gives the message. */
enum plimsoll_failure {
    PLIMSOLL_EINVAL = -1,   /* a null pointer or a value that cannot be */
    PLIMSOLL_EREFUSED = -2, /* the broker refused */
    PLIMSOLL_ESYSTEM = -3,  /* the kernel, or the other end of a socket */
    PLIMSOLL_EINTERNAL = -4 /* a fault of this library; please report it */
};

/* The numbers at one time. Sizes are bytes, times nanoseconds of CLOCK_MONOTONIC. */
typedef struct plimsoll_numbers {
    uint64_t limit;     /* may be used now */
    uint64_t available; /* could be had if it asked */
    uint64_t owed;      /* to be given back, 0 when nothing */
    uint64_t deadline;  /* by when (ns), 0 when nothing is owed */
    uint64_t uses;      /* accounted to it */
    uint64_t share;     /* its guaranteed weighted share; 0 where no broker runs */
    uint64_t heartbeat; /* the source's last sign of life (ns) */
    uint32_t level;     /* enum plimsoll_level */
    uint32_t source;    /* enum plimsoll_source */
} plimsoll_numbers;

/* plimsoll_options.flags */
#define PLIMSOLL_NO_GUARD 1u    /* no SIGBUS handler: a truncated page kills */
#define PLIMSOLL_NO_PROCESS 2u  /* the process is still to come, by plimsoll_attach(): until then no grants */
#define PLIMSOLL_ALONE 4u       /* no broker: local sensing only */
#define PLIMSOLL_ENVIRONMENT 8u /* in a child of a program under `plimsoll run`: use that one's principal */

/* How to register. Initialise it with PLIMSOLL_OPTIONS_INIT. A field of 0 means its default. */
typedef struct plimsoll_options {
    size_t size;         /* sizeof(plimsoll_options) */
    uint32_t weight;     /* 1 to 10000; 0: 100 */
    int32_t priority;    /* -100 to 100; a higher class is served first */
    uint64_t max;        /* never more than this; 0: no bound */
    uint32_t pid;        /* the process; 0: the caller's own */
    uint32_t flags;      /* PLIMSOLL_NO_GUARD, ... */
    const char *adapter; /* who adapts; NULL: "self" */
    const char *socket;  /* the broker's socket; NULL: where brokers are */
} plimsoll_options;

#define PLIMSOLL_OPTIONS_INIT {sizeof(plimsoll_options), 0, 0, 0, 0, 0, NULL, NULL}

/* The value of a field of plimsoll_known that is not known, or has not changed. */
#define PLIMSOLL_UNKNOWN UINT64_MAX

/* Facts that the program reports of itself. Initialise it with PLIMSOLL_KNOWN_INIT. */
typedef struct plimsoll_known {
    size_t size;               /* sizeof(plimsoll_known) */
    uint64_t live;             /* live bytes after the last full collection */
    uint64_t allocation_rate;  /* bytes per second that the program allocates */
    uint64_t collection_speed; /* bytes per second that a collection processes */
    uint64_t demand;           /* what it can make use of, at the most */
    uint64_t floor;            /* what it cannot go below */
    uint64_t reaction_ms;      /* how long giving back takes, milliseconds */
    uint64_t collections;      /* since its start */
    uint64_t collection_ms;    /* milliseconds spent in them since its start */
    uint64_t worth;            /* a cache's: nanoseconds saved in a second by one more MiB */
} plimsoll_known;

#define PLIMSOLL_KNOWN_INIT                                                                        \
    {sizeof(plimsoll_known), PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN,                 \
     PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN,     \
     PLIMSOLL_UNKNOWN}

/* Registers. `name`: 1 to 64 bytes of printable UTF-8. `options` may be NULL. Under `plimsoll run` the
 * process is a principal already: that principal is used, and keeps its weight. Succeeds if no broker
 * runs. Returns NULL if a parameter is invalid or the broker refuses; see plimsoll_error(). */
plimsoll *plimsoll_open(const char *name, const plimsoll_options *options);

/* Reads the numbers, without a lock or a system call. Returns 0 or PLIMSOLL_EINVAL. */
int plimsoll_read(const plimsoll *principal, plimsoll_numbers *numbers);

/* Waits for an event, for `timeout_ms` milliseconds at most (a day if negative). Returns the event, or a
 * negative failure. `numbers` may be NULL. */
int plimsoll_wait(plimsoll *principal, int timeout_ms, plimsoll_numbers *numbers);

/* Makes one plimsoll_wait() return PLIMSOLL_TIMEOUT: the one that another thread is in, or the next. */
int plimsoll_interrupt(plimsoll *principal);

/* A descriptor for poll loops, which is readable while there is an event. Then call plimsoll_wait() with
 * a timeout of 0 until it returns PLIMSOLL_TIMEOUT. The descriptor belongs to the principal. */
int plimsoll_fd(plimsoll *principal);

/* Reports what the program knows of itself. Does not wait. */
int plimsoll_report(plimsoll *principal, const plimsoll_known *known);

/* Reports that the program has given bytes back. Does not wait. Call it after the memory was freed, with
 * the bytes that really were: from then on they are not owed any more, also where the broker has not
 * seen it yet. If the broker then finds the memory still in use, it is owed again. */
int plimsoll_released(plimsoll *principal, uint64_t bytes);

/* Sets the process of the principal. If no broker runs, this is kept until one does. */
int plimsoll_attach(plimsoll *principal, uint32_t pid);

/* Change the registration. If no broker runs, this is kept until one does. `bytes` 0 removes the bound. */
int plimsoll_set_weight(plimsoll *principal, uint32_t weight);
int plimsoll_set_priority(plimsoll *principal, int32_t priority);
int plimsoll_set_max(plimsoll *principal, uint64_t bytes);

/* Ends the registration and frees the handle. NULL is ignored. If the broker hangs, this takes some
 * seconds at most. */
void plimsoll_close(plimsoll *principal);

/* Tells a cache what more memory would be worth to it: a list of keys that it evicted lately. A miss of
 * one of these would have been a hit in a cache that is an eighth larger. All functions may be called
 * from any thread. */
typedef struct plimsoll_ghost plimsoll_ghost;

/* An empty list. NULL if there is no memory. */
plimsoll_ghost *plimsoll_ghost_new(void);

/* The cache has dropped an entry of `bytes` to make room, and `left` bytes are left in it. `key`: a
 * 64-bit hash of the entry's key. Not for entries that became invalid. */
int plimsoll_ghost_evicted(plimsoll_ghost *ghost, uint64_t key, uint64_t bytes, uint64_t left);

/* The cache did not have an entry, and making it took `cost_ns` nanoseconds. */
int plimsoll_ghost_missed(plimsoll_ghost *ghost, uint64_t key, uint64_t cost_ns);

/* Nanoseconds that one more MiB would have saved in a second lately: `worth` of plimsoll_known, to be
 * reported once a second. PLIMSOLL_UNKNOWN in the first second. */
uint64_t plimsoll_ghost_worth(plimsoll_ghost *ghost);

/* NULL is ignored. */
void plimsoll_ghost_free(plimsoll_ghost *ghost);

/* The message of the last failure on this thread, which says what to do. Valid until the next failure on
 * this thread; "" if there was none. */
const char *plimsoll_error(void);

/* The general meaning of a negative result. */
const char *plimsoll_strerror(int failure);

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *plimsoll_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PLIMSOLL_H */
