/* plimsoll.h: live by the memory that there is.
 *
 * A program opens a principal and reads at any time, within nanoseconds, how much memory it may use
 * now. It waits for changes where that suits it, gives back what it owes, and says so. Where no
 * broker runs, or when the broker dies, the numbers come from local sensing; nothing ever blocks on
 * a broker without a bound, and reading cannot fail.
 *
 *     plimsoll *p = plimsoll_open("my-cache", NULL);
 *     plimsoll_numbers now;
 *     for (;;) {
 *         int event = plimsoll_wait(p, -1, &now);
 *         if (event < 0) { fprintf(stderr, "%s\n", plimsoll_error()); break; }
 *         resize_cache(now.limit);
 *         if (now.owed > 0)
 *             plimsoll_released(p, drop_bytes(now.owed));
 *     }
 *     plimsoll_close(p);
 *
 * All sizes are bytes. Times are nanoseconds of CLOCK_MONOTONIC unless a name says otherwise.
 * All functions may be called from any thread, but plimsoll_close() only when no other is using the
 * handle. None may be called from a signal handler.
 *
 * What the library does to a program: nothing when it is loaded. An open principal has one thread
 * (all signals blocked but faults), some descriptors that are closed on exec, and, while a broker's
 * page is mapped, a handler for SIGBUS that passes on what is not its own (PLIMSOLL_NO_GUARD turns
 * it off). After fork() a child may only read.
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

/* Who says so. */
enum plimsoll_source {
    PLIMSOLL_BROKER = 0, /* a broker that is alive */
    PLIMSOLL_STALE = 1,  /* a broker that gave no sign of life lately: its last numbers */
    PLIMSOLL_LOCAL = 2   /* local sensing: no broker is there */
};

/* How urgent it is, for programs that only know levels. */
enum plimsoll_level {
    PLIMSOLL_NORMAL = 0,  /* within its limit */
    PLIMSOLL_WARNING = 1, /* at its limit, or owing with time left */
    PLIMSOLL_CRITICAL = 2 /* owing, and the deadline is near or past */
};

/* What plimsoll_wait() comes back with. Changes that come faster than they are waited for are
 * merged; the last numbers are always told. */
enum plimsoll_event {
    PLIMSOLL_TIMEOUT = 0,     /* nothing happened in that time, or plimsoll_interrupt() */
    PLIMSOLL_OWED = 1,        /* `owed` bytes are to be given back before `deadline` */
    PLIMSOLL_RELIEF = 2,      /* nothing is owed any more, or the level fell */
    PLIMSOLL_CHANGED = 3,     /* other numbers, mostly the limit */
    PLIMSOLL_BROKER_LOST = 4, /* the broker is gone; the numbers are local now */
    PLIMSOLL_JOINED = 5       /* a broker is (back) there */
};

/* Negative results; plimsoll_error() has the words. */
enum plimsoll_failure {
    PLIMSOLL_EINVAL = -1,   /* a null pointer or a value that cannot be */
    PLIMSOLL_EREFUSED = -2, /* the broker refused */
    PLIMSOLL_ESYSTEM = -3,  /* the kernel, or the other end of a socket */
    PLIMSOLL_EINTERNAL = -4 /* a fault of this library; please report it */
};

/* The numbers of one moment. */
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
#define PLIMSOLL_NO_PROCESS 2u  /* the process is still to come: plimsoll_attach(); nothing is granted until then */
#define PLIMSOLL_ALONE 4u       /* no broker: local sensing only */
#define PLIMSOLL_ENVIRONMENT 8u /* in a child of a program under `plimsoll run`: use that one's principal */

/* How to register. Begin with PLIMSOLL_OPTIONS_INIT; what is zero gets its default. */
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

/* A field of plimsoll_known that is not known, or has not changed. */
#define PLIMSOLL_UNKNOWN UINT64_MAX

/* What the program knows of itself. Begin with PLIMSOLL_KNOWN_INIT. */
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
} plimsoll_known;

#define PLIMSOLL_KNOWN_INIT                                                                        \
    {sizeof(plimsoll_known), PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN,                 \
     PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN, PLIMSOLL_UNKNOWN}

/* Registers. `name`: 1 to 64 bytes of printable UTF-8. `options` may be NULL. Under `plimsoll run` the
 * process is a principal already: that one is used, with the weight it has. Succeeds where no broker runs. NULL on failure: a parameter that cannot be, or a refusal; see plimsoll_error(). */
plimsoll *plimsoll_open(const char *name, const plimsoll_options *options);

/* The numbers now: no lock, no system call. 0, or PLIMSOLL_EINVAL. */
int plimsoll_read(const plimsoll *principal, plimsoll_numbers *numbers);

/* Waits for an event at most `timeout_ms` milliseconds (a day when negative). Gives the event, or a
 * negative failure. `numbers` may be NULL. */
int plimsoll_wait(plimsoll *principal, int timeout_ms, plimsoll_numbers *numbers);

/* Makes one plimsoll_wait(), of another thread now or the next one, come back with
 * PLIMSOLL_TIMEOUT. */
int plimsoll_interrupt(plimsoll *principal);

/* A descriptor for poll loops, readable while there is an event; then call plimsoll_wait() with no
 * time until it says PLIMSOLL_TIMEOUT. Belongs to the principal. */
int plimsoll_fd(plimsoll *principal);

/* Tells what the program knows of itself. Does not wait. */
int plimsoll_report(plimsoll *principal, const plimsoll_known *known);

/* Tells that the program gave bytes back. Does not wait. */
int plimsoll_released(plimsoll *principal, uint64_t bytes);

/* Gives it its process. Kept for later where no broker runs. */
int plimsoll_attach(plimsoll *principal, uint32_t pid);

/* Change it. Kept for later where no broker runs. `bytes` 0 takes the bound away. */
int plimsoll_set_weight(plimsoll *principal, uint32_t weight);
int plimsoll_set_priority(plimsoll *principal, int32_t priority);
int plimsoll_set_max(plimsoll *principal, uint64_t bytes);

/* Ends the registration and frees the handle. NULL is ignored. Takes some seconds at the most,
 * when a broker hangs. */
void plimsoll_close(plimsoll *principal);

/* What the last failure on this thread was, with what to do. Valid until the next failure on this
 * thread; "" when there was none. */
const char *plimsoll_error(void);

/* What a negative result means, in general. */
const char *plimsoll_strerror(int failure);

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *plimsoll_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PLIMSOLL_H */
