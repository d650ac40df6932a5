/* Programs with a live set of a given size in MB. Each round replaces a part of the set: small nodes, large
arrays, objects of many sizes, half of the set at once, in four threads, beside memory of malloc that grows.
The number of rounds is an argument. The programs run over libgc too, for comparison. */
#include "sound.h"
#include <time.h>

struct item {
    struct item *next;
    long number, more[5];
};

static size_t live_bytes;
static long rounds;

/* A random number; each thread has its own seed. */
static unsigned long random_of(unsigned long *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 8;
}

static struct item *item(long number) {
    struct item *item = GC_MALLOC(sizeof *item);
    if (!item)
        fail("no memory");
    item->number = number;
    return item;
}

static void is_all_there(struct item **table, long count) {
    for (long i = 0; i < count; i++)
        if (table[i]->number != i)
            fail("an item");
}

/* A table of items. Each round replaces a random one. */
static void replace(size_t bytes, long rounds, unsigned long seed) {
    long count = bytes / sizeof(struct item);
    struct item **table = GC_MALLOC(count * sizeof *table);
    for (long i = 0; i < count; i++)
        table[i] = item(i);
    for (long i = 0; i < rounds; i++) {
        long at = random_of(&seed) % count;
        table[at] = item(at);
    }
    is_all_there(table, count);
}

/* As `replace`, but in phases: after each, a random half of the items dies, and then as many are made. */
static void burst(void) {
    unsigned long seed = 88172645463325252;
    long count = live_bytes / sizeof(struct item);
    struct item **table = GC_MALLOC(count * sizeof *table);
    for (int phase = 0; phase < 6; phase++) {
        for (long i = 0; i < count; i++)
            if (!table[i])
                table[i] = item(i);
        for (long i = 0; i < rounds / 6; i++) {
            long at = random_of(&seed) % count;
            table[at] = item(at);
        }
        is_all_there(table, count);
        for (long i = 0; i < count; i++)
            if (random_of(&seed) & 1)
                table[i] = 0;
        for (long i = 0; i < rounds / 6; i++) {
            long at = random_of(&seed) % count;
            if (table[at])
                table[at] = item(at);
        }
    }
}

/* Objects of random sizes with this mean, in bytes. `whole`: every byte of them is written. */
static void sizes(long (*size)(unsigned long), long mean, int whole) {
    unsigned long seed = 88172645463325252;
    long count = live_bytes / mean;
    char **table = GC_MALLOC(count * sizeof *table);
    for (long i = 0; i < rounds; i++) {
        long at = random_of(&seed) % count;
        unsigned long dice = random_of(&seed);
        long bytes = size(dice);
        char *object = dice & 1 ? GC_MALLOC(bytes) : GC_MALLOC_ATOMIC(bytes);
        if (!object)
            fail("no memory");
        if (whole)
            memset(object, 1, bytes);
        *(long *)object = at;
        table[at] = object;
    }
    for (long i = 0; i < count; i++)
        if (table[i] && *(long *)table[i] != i)
            fail("an object");
}

static long a_megabyte(unsigned long dice) { return 1 << 20; }

static long any_size(unsigned long dice) {
    long kind = dice / 2 % 1000, part = dice / 2000;
    if (kind < 700)
        return 16 + part % 100;
    if (kind < 950)
        return 100 + part % 900;
    return kind < 998 ? 1000 + part % 6000 : 10000 + part % 90000;
}

/* Takes 50 MB of malloc's memory within a second, once the heap has reached its largest size. */
static void *native(void *argument) {
    usleep(700000);
    for (int i = 0; i < 50; i++) {
        char *memory = malloc(1 << 20);
        if (memory)
            memset(memory, i, 1 << 20);
        usleep(20000);
    }
    return argument;
}

static void *part(void *argument) {
    replace(live_bytes / 4, rounds / 4, (unsigned long)argument * 7919 + 12345);
    return 0;
}

static void threads(void) {
    pthread_t all[4];
    for (long i = 0; i < 4; i++)
        if (GC_pthread_create(&all[i], 0, part, (void *)(i + 1)))
            fail("no thread");
    for (int i = 0; i < 4; i++)
        GC_pthread_join(all[i], 0);
}

int main(int count, char **arguments) {
    GC_INIT();
    GC_allow_register_threads();
    const char *shape = arguments[1];
    live_bytes = atol(arguments[2]) << 20;
    rounds = atol(arguments[3]);
    pthread_t other = 0;
    if (!strcmp(shape, "native") && pthread_create(&other, 0, native, 0))
        fail("no thread");
    if (!strcmp(shape, "burst"))
        burst();
    else if (!strcmp(shape, "large"))
        sizes(a_megabyte, 1 << 20, 1);
    else if (!strcmp(shape, "mixed"))
        sizes(any_size, 400, 0);
    else if (!strcmp(shape, "threads"))
        threads();
    else
        replace(live_bytes, rounds, 88172645463325252);
    if (other)
        pthread_join(other, 0);
    puts("sound");
    return 0;
}
