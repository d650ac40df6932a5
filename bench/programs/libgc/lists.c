/* lists: threads with phases. Each thread builds a list, walks through it, and drops it, until all lists are
 * built. The live data of a collection depend on how many threads have a list just then.
 *
 *   lists [--threads T] [--lists N] [--bytes B] [--spread PERCENT] [--walks W]
 *
 * A list has B bytes; with --spread, up to PERCENT more or less. Prints one JSON object at the end: how many
 * collections there were, the lists that each thread built at least and at most, and the processor time in
 * seconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#define GC_THREADS
#include <gc/gc.h>

enum { MOST_THREADS = 256 };

struct node {
    struct node *next;
    uint64_t value[2];
};

/* Values of the arguments: numbers of threads, lists and walks, bytes of a list, percent. */
static long threads = 16, lists = 1000, bytes = 1100000, spread = 0, walks = 20;
/* Lists that no thread has begun. */
static atomic_long left;
/* Lists that each thread has built. Only the thread writes its own. */
static long built[MOST_THREADS];
/* A sum over the nodes that walks saw, so that no compiler leaves the walks out. */
static atomic_ulong sum;

/* Bytes of the list with this number: the same in each run. */
static long size_of(long number) {
    uint64_t mixed = ((uint64_t)number + 1) * 0x9e3779b97f4a7c15u;
    long percent = spread ? (long)((mixed >> 33) % (2 * spread + 1)) - spread : 0;
    return bytes + bytes / 100 * percent;
}

/* A list of this many bytes. Not inlined, as `walk`: its frame is gone when the thread waits, so that no word
 * on the stack keeps the last list alive. */
__attribute__((noinline)) static struct node *build(long much) {
    struct node *first = NULL;
    for (long made = 0; made < much; made += GC_size(first)) {
        struct node *node = GC_MALLOC(sizeof *node);
        if (!node) {
            fputs("lists: no memory\n", stderr);
            exit(1);
        }
        node->next = first;
        node->value[0] = made;
        first = node;
    }
    return first;
}

__attribute__((noinline)) static void walk(struct node *first) {
    uint64_t seen = 0;
    for (long walked = 0; walked < walks; walked++)
        for (struct node *node = first; node; node = node->next)
            seen += node->value[0];
    sum += seen;
}

static void *work(void *place) {
    long *mine = place;
    for (long number; (number = atomic_fetch_sub(&left, 1)) > 0; ++*mine)
        walk(build(size_of(number)));
    return NULL;
}

static void read_arguments(int count, char **arguments) {
    struct { const char *name; long *value; } known[] = {
        {"--threads", &threads}, {"--lists", &lists}, {"--bytes", &bytes},
        {"--spread", &spread}, {"--walks", &walks},
    };
    int at = 1;
    for (; at + 1 < count; at += 2) {
        size_t which = 0;
        while (which < 5 && strcmp(known[which].name, arguments[at]))
            which++;
        char *end = arguments[at + 1];
        long value = strtol(arguments[at + 1], &end, 10);
        if (which == 5 || *end || end == arguments[at + 1] || value < 0)
            break;
        *known[which].value = value;
    }
    if (at < count || threads < 1 || threads > MOST_THREADS || spread > 100) {
        fputs("lists: [--threads 1..256] [--lists N] [--bytes B] [--spread 0..100] [--walks W]\n", stderr);
        exit(2);
    }
}

int main(int count, char **arguments) {
    GC_INIT();
    read_arguments(count, arguments);
    left = lists;
    pthread_t all[MOST_THREADS];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, &built[i])) {
            fputs("lists: no thread\n", stderr);
            return 1;
        }
    long least = lists, most = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        least = built[i] < least ? built[i] : least;
        most = built[i] > most ? built[i] : most;
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double seconds = use.ru_utime.tv_sec + use.ru_stime.tv_sec
                     + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
    printf("{\"collections\":%lu,\"least\":%ld,\"most\":%ld,\"processor\":%.3f}\n",
           (unsigned long)GC_get_gc_no(), least, most, seconds);
    return 0;
}
