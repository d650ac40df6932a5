/* What collections take, by libgc's events. A pause is from before the world is stopped to after it is started again.
 *
 * A file that is named gets one line per pause, at its end, so that what a killed program said of itself is there:
 * when it began (seconds since we were asked to watch), how long it was, major faults of the process in it. */
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
    /* What print() of heapload tells: collections, pauses, and the first of these. A collection may have several. */
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
    if (event == GC_EVENT_PRE_STOP_WORLD) {
        pauses.begin = now();
        pauses.faults = major_faults();
    } else if (event == GC_EVENT_POST_START_WORLD) {
        struct pause pause = {now() - pauses.begin, major_faults() - pauses.faults};
        if (pauses.count < RECORDED)
            pauses.first[pauses.count] = pause;
        pauses.count++;
        /* Straight to the kernel: whoever collects may be anywhere in stdio. */
        if (pauses.file >= 0)
            dprintf(pauses.file, "%.6f %.6f %ld\n", pauses.begin - pauses.start, pause.length, pause.faults);
    }
}

/* From now on. The file may be NULL. False where it cannot be written. */
static int watch_pauses(const char *path)
{
    pauses.start = now();
    if (path != NULL && (pauses.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0) {
        perror(path);
        return 0;
    }
    GC_set_on_collection_event(on_event);
    return 1;
}
