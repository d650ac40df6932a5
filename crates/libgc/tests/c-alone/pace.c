/* Programs that count their collections and measure their memory: threads that live together, small
strings, objects with finalizers that die at once or live on, a heap that stays small; and one that sets one
signal for two purposes. The programs run over libgc too, for comparison. */
#include "sound.h"
#include <signal.h>

struct note {
    struct note *next;
    long more[3];
};

static size_t begins, occupied;

static void look(void) {
    size_t now = GC_get_heap_size() - GC_get_free_bytes();
    occupied = now > occupied ? now : occupied;
}

/* KiB of a line of /proc/self/status. */
static long status(const char *name) {
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            found = atol(line + strlen(name) + 1);
    if (file)
        fclose(file);
    return found;
}

static unsigned long random_of(unsigned long *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 8;
}

enum { THREADS = 300, KEPT = 16, FRAME = 1024 };
static pthread_barrier_t together;

static void *one_of_many(void *seed) {
    unsigned long state = (unsigned long)seed;
    void *volatile frame[FRAME] = {0};
    pthread_barrier_wait(&together);
    for (int i = 0; i < 2000; i++)
        frame[random_of(&state) % KEPT * (FRAME / KEPT)] = GC_MALLOC(32 + random_of(&state) % 224);
    pthread_barrier_wait(&together);
    return frame[0];
}

static void threads(void) {
    pthread_t all[THREADS];
    pthread_barrier_init(&together, 0, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (GC_pthread_create(&all[i], 0, one_of_many, (void *)(i + 1)))
            fail("no thread");
    for (int i = 0; i < THREADS; i++)
        GC_pthread_join(all[i], 0);
}

/* 4 MB of strings are alive. */
static void strings(void) {
    enum { COUNT = 80000 };
    unsigned long seed = 1;
    char **all = GC_MALLOC(COUNT * sizeof *all);
    for (long i = 0; i < 4000000; i++)
        all[random_of(&seed) % COUNT] = GC_MALLOC_ATOMIC(16 + random_of(&seed) % 64);
}

static void on_death(void *object, void *data) {}

static struct note *with_finalizer(struct note *next) {
    struct note *node = GC_MALLOC(sizeof *node);
    node->next = next;
    GC_REGISTER_FINALIZER_NO_ORDER(node, on_death, 0, 0, 0);
    return node;
}

static void dying(void) {
    for (long i = 0; i < 500000; i++)
        with_finalizer(0);
}

/* One of ten objects lives to the end; three of twenty have finalizers. */
static void score(void) {
    struct note *volatile music = 0, *recent = 0;
    for (long i = 0; i < 2000000; i++) {
        struct note *before = i % 64 < 5 ? 0 : recent;
        if (i % 20 == 0)
            music = with_finalizer(music);
        else if (i % 10 == 5)
            recent = with_finalizer(before);
        else {
            struct note *node = GC_MALLOC(sizeof *node);
            node->next = i % 10 ? before : music;
            if (i % 10)
                recent = node;
            else
                music = node;
        }
    }
}

static void small(void) {
    for (int i = 0; i < 10000; i++) {
        char **holder = GC_MALLOC(11 * sizeof *holder);
        for (int n = 0; n < 11; n++)
            holder[n] = GC_MALLOC_ATOMIC(301);
        look();
    }
}

int main(int count, char **arguments) {
    const char *shape = arguments[1];
    if (!strcmp(shape, "signals")) {
        GC_set_suspend_signal(SIGUSR1);
        GC_set_thr_restart_signal(SIGUSR1);
    }
    long before = status("VmRSS:");
    GC_INIT();
    GC_allow_register_threads();
    begins = GC_get_heap_size();
    if (!strcmp(shape, "threads"))
        threads();
    else if (!strcmp(shape, "strings"))
        strings();
    else if (!strcmp(shape, "dying"))
        dying();
    else if (!strcmp(shape, "score"))
        score();
    else
        small();
    look();
    printf("%lu %ld %zu %zu\n", (unsigned long)GC_get_gc_no(), status("VmHWM:") - before, begins, occupied);
    puts("sound");
    return 0;
}
