/* container: a service in a small container, as Container.java, for libgc.
 *
 *   container LIVE-MB MB-PER-SECOND SECONDS steady|native|burst [MB]
 *
 * The live data are LIVE-MB megabytes of arrays of 1 KB; MB-PER-SECOND of them are replaced per second.
 * Besides: `native` fills MB
 * megabytes of malloc's memory three seconds after the start, within one second; `burst` doubles the live
 * data every three seconds,
 * for one second. Prints one JSON object per line, about twice a second: "work" counts the kilobytes that
 * were replaced. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <gc/gc.h>

enum { ARRAY = 1000, MEGABYTE = 1 << 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *array(void)
{
    void *memory = GC_MALLOC_ATOMIC(ARRAY);
    if (memory == NULL) {
        fprintf(stderr, "container: out of memory\n");
        exit(3);
    }
    memset(memory, 1, ARRAY);
    return memory;
}

/* A table of `count` arrays. */
static void **table(long count)
{
    void **all = GC_MALLOC((size_t)count * sizeof *all);
    if (all == NULL) {
        fprintf(stderr, "container: out of memory\n");
        exit(3);
    }
    for (long i = 0; i < count; i++)
        all[i] = array();
    return all;
}

int main(int argc, char **argv)
{
    if (argc < 5 || atol(argv[1]) < 1) {
        fprintf(stderr, "usage: container LIVE-MB MB-PER-SECOND SECONDS steady|native|burst [MB]\n");
        return 2;
    }
    long count = atol(argv[1]) * 1024, rate = atol(argv[2]);
    double seconds = atof(argv[3]);
    bool native = strcmp(argv[4], "native") == 0, bursts = strcmp(argv[4], "burst") == 0;
    long more = argc > 5 ? atol(argv[5]) : 0, buffers = 0, work = 0, at = 0;
    GC_INIT();
    void **kept = table(count), **burst = NULL;
    double start = now(), shown = start;
    for (double t = start; t - start < seconds; t = now()) {
        double passed = t - start;
        for (long i = 0; i < rate * 10; i++, work++) {
            at = (at + 7919) % count;
            kept[at] = array();
        }
        bool filling = native && passed > 3 && buffers < more;
        if (filling && (double)buffers < (passed - 3) * (double)more) {
            void *buffer = malloc(MEGABYTE);
            if (buffer == NULL)
                return 3;
            memset(buffer, 1, MEGABYTE);
            buffers++;
        }
        bool full = bursts && (long)passed % 3 == 2;
        if (!full)
            burst = NULL;
        else if (burst == NULL)
            burst = table(count);
        if (t - shown > 0.5) {
            shown = t;
            printf("{\"work\":%ld,\"buffers\":%ld}\n", work, buffers);
            fflush(stdout);
        }
        struct timespec pause = {.tv_nsec = filling ? 5000000 : 10000000};
        nanosleep(&pause, NULL);
    }
    /* The live data are read here, so that the compiler cannot remove them. */
    printf("{\"work\":%ld,\"buffers\":%ld,\"live\":%d}\n", work, buffers,
           kept[at] != NULL && burst != (void **)1);
    return 0;
}
