/* Notes pauses for collections, by libgc's events. A pause begins before the threads are stopped and ends
 * after they go on.
 *
 * If a file is named, each pause writes a line to it as soon as it ends, so that the lines of a killed
 * program are there too: when the pause began (seconds since watch_pauses), its length in seconds, major
 * faults of the process in it, and 1 if a collection began with it (one in steps has several pauses), else
 * 0. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <gc/gc.h>

static struct pauses {
    double start, begin;
    long faults;
    int file;
    /* Whether a collection has begun since the last pause. */
    int begins;
    /* Counts that heapload prints: collections, pauses, and the lengths of the first pauses. A collection may
    have several pauses. */
    long collections, count;
    struct pause {
        double length;
        long faults;
    } first[100000];
} pauses = {.file = -1};

enum { RECORDED = sizeof pauses.first / sizeof *pauses.first };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long major_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_majflt;
}

static void on_event(GC_EventType event)
{
    pauses.collections += event == GC_EVENT_END;
    pauses.begins |= event == GC_EVENT_START;
    if (event == GC_EVENT_PRE_STOP_WORLD) {
        pauses.begin = now();
        pauses.faults = major_faults();
    } else if (event == GC_EVENT_POST_START_WORLD) {
        struct pause pause = {now() - pauses.begin, major_faults() - pauses.faults};
        if (pauses.count < RECORDED)
            pauses.first[pauses.count] = pause;
        pauses.count++;
        /* A system call rather than stdio, because the thread that collects may hold a lock of stdio. */
        if (pauses.file >= 0)
            dprintf(pauses.file, "%.6f %.6f %ld %d\n", pauses.begin - pauses.start, pause.length,
                    pause.faults, pauses.begins);
        pauses.begins = 0;
    }
}

/* Notes pauses from now on. `path` may be NULL. `begin` is O_TRUNC, or O_APPEND where programs that this one
 * starts note theirs, too. Returns false if the file cannot be written. */
static int watch_pauses(const char *path, int begin)
{
    pauses.start = now();
    if (path != NULL && (pauses.file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | begin, 0666)) < 0) {
        perror(path);
        return 0;
    }
    GC_set_on_collection_event(on_event);
    return 1;
}
