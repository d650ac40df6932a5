/* Threads that give their processor up when they have allocated a quantum: `turns QUANTUM BYTES THREADS` has
each thread allocate BYTES bytes. The library calls `sched_yield` to give way, which is this program's own
here. It checks at each call what the calling thread has allocated since the last one, by the sizes that
`GC_size` tells. QUANTUM is 0 where nobody is expected to give way. */
#include "sound.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

/* The quantum in bytes, and what each thread allocates. */
static size_t quantum, much;
/* How many threads there are beside the first one. */
static int threads;
/* Bytes that this thread allocated since it last gave way, and those of the last object. */
static __thread size_t spent, last;
/* How often this thread gave way, and its number. The number is 0 while the thread is not counted. */
static __thread long given;
static __thread int me;
/* More is allocated than the quantum, on purpose. */
static __thread int late;
/* The thread that allocated last; how many allocate. */
static atomic_int latest, at_it;
/* How often threads gave way while all were at it, and how often another one ran then. */
static atomic_long all_given, others_ran;
/* How often a thread gave way while its objects were not counted here. */
static atomic_long uncounted;

static pthread_barrier_t begin;

int sched_yield(void) {
    if (!me) {
        uncounted++;
        return (int)syscall(SYS_sched_yield);
    }
    if (!quantum)
        fail("gives way without a reason");
    if (spent < quantum)
        fail("gives way too early");
    if (spent - last >= quantum && !late)
        fail("gives way too late");
    spent = 0;
    given++;
    int all = at_it == threads;
    syscall(SYS_sched_yield);
    if (all && at_it == threads) {
        all_given++;
        others_ran += latest != me;
    }
    return 0;
}

/* Counts an object that this thread has got. */
static void *count(void *object) {
    if (!object)
        fail("no memory");
    if (quantum && spent >= quantum)
        fail("does not give way");
    last = GC_size(object);
    spent += last;
    latest = me;
    return object;
}

/* Objects of all sizes, from several functions. */
static void allocate(unsigned seed) {
    size_t done = 0;
    while (done < much) {
        seed = seed * 1664525u + 1013904223u;
        size_t small = 1 + (seed >> 16) % 200;
        switch ((seed >> 8) % 64) {
        case 0:
            count(GC_MALLOC(1 + (seed >> 12) % 60000));
            break;
        case 1:
            count(GC_malloc_ignore_off_page(20000));
            break;
        case 2:
            GC_FREE(count(GC_MALLOC(small)));
            break;
        case 3:
            GC_FREE(count(GC_MALLOC_UNCOLLECTABLE(small)));
            break;
        case 4: {
            char *object = count(GC_MALLOC(small));
            char *grown = GC_REALLOC(object, small + 300);
            if (grown != object)
                count(grown);
            break;
        }
        default:
            count((seed >> 9) & 1 ? GC_MALLOC(small) : GC_MALLOC_ATOMIC(small));
        }
        done += last;
    }
}

static void *run(void *argument) {
    pthread_barrier_wait(&begin);
    me = (int)(uintptr_t)argument;
    at_it++;
    allocate((unsigned)me);
    at_it--;
    printf("thread %d gave way %ld times\n", me, given);
    me = 0;
    return 0;
}

static void *under_the_lock(void *argument) {
    (void)argument;
    size_t wanted = quantum;
    quantum = 0;
    for (int i = 0; i < 10; i++)
        count(GC_MALLOC(100));
    quantum = wanted;
    return 0;
}

/* Under the collector's lock nobody gives way: the next object after that ends the turn. */
static void in_callbacks(void) {
    while (spent < quantum)
        count(GC_MALLOC(100));
    long before = given;
    late = 1;
    GC_call_with_alloc_lock(under_the_lock, 0);
    count(GC_MALLOC(100));
    late = 0;
    if (given != before + 1)
        fail("does not give way after a callback");
}

int main(int words, char **arguments) {
    if (words != 4)
        fail("usage: turns QUANTUM BYTES THREADS");
    quantum = (size_t)atol(arguments[1]);
    much = (size_t)atol(arguments[2]);
    threads = atoi(arguments[3]);
    /* All threads on one processor. The library looks at this when it begins. */
    cpu_set_t all, one;
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        fail("no processor of its own");
    GC_INIT();
    pthread_t all_threads[64];
    pthread_barrier_init(&begin, 0, (unsigned)threads + 1);
    for (uintptr_t i = 1; i <= (uintptr_t)threads; i++)
        if (GC_pthread_create(&all_threads[i - 1], 0, run, (void *)i))
            fail("no thread");
    me = -1;
    /* While leaks are looked for, each object takes the lock. */
    if (quantum && !GC_get_find_leak())
        in_callbacks();
    if (!threads)
        allocate(1);
    me = 0;
    live = tree(DEPTH, 0);
    pthread_barrier_wait(&begin);
    for (int i = 0; i < threads; i++)
        GC_pthread_join(all_threads[i], 0);
    printf("thread 0 gave way %ld times\n", given + uncounted);
    printf("gave way to another thread %ld of %ld times\n", others_ran, all_given);
    /* Whether it does is the kernel's decision; but if it never did, nobody would have to ask. */
    if (all_given > 100 && !others_ran)
        fail("gives way to nobody");
    return sound();
}
