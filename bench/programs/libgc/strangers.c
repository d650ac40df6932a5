/* strangers: small programs that use libgc as programs of others do, one of each kind.
 *
 *   strangers KIND [N]
 *
 * threads        1,000 threads that live together; each makes N objects and keeps a few
 * blocks         N blocks of 64 KiB to 4 MiB that hold references; 16 of them live
 * buffers        N blocks without references, of 8, 16, 32, 64 and 128 MiB in turn; two of them live
 * buffers-mixed  as buffers, of any size between these
 * strings        N objects without references, of 16 to 80 bytes; 4 MB of them live
 * score          N objects, some with a finalizer; a tenth live to the end, as in a typesetter
 * finalizers     N objects with finalizers, which die at once
 * typed          N objects with a descriptor of where their references are; 260,000 live
 * uncollectable  N objects that live until they are freed, and hold references
 * free           N objects that the program frees itself
 * small          N holders of eleven objects that die at once, in a heap that is to stay small
 * tight          about 50 MB that live and N objects, most of them dead soon, for runs in little memory
 * addresses      a program of 30 MB with threads and memory of malloc, for runs with few addresses
 * strings-large  as strings, with objects of 2 to 6 KiB; 32 MB of them live
 * cells          N cells that die young, beside a tree of 40 MB
 * servers        8 threads, each of which serves N requests that make small lists
 *
 * Prints one JSON object. The checksum does not depend on the collector. "peak" is the largest resident
 * memory, and "grown" how much of it came after the program's start; both are bytes, as are "heap" and
 * "occupied" (the heap without its free bytes). Times are microseconds. Exits with 3 when an
 * allocation fails. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#define GC_THREADS
#include <gc/gc.h>
#include <gc/gc_typed.h>
#include "workload.h"

static long number;

/* Between two sizes, small ones as likely as large ones by order of magnitude. */
static size_t size_between(uint64_t *state, size_t least, size_t most)
{
    size_t below = least;
    while (below * 2 < most && next(state) % 2)
        below *= 2;
    size_t above = below * 2 < most ? below * 2 : most;
    return below + next(state) % (above - below + 1);
}

struct node {
    struct node *next;
    uint64_t value[3];
};

static struct node *push(struct node *list, uint64_t value)
{
    struct node *node = need(GC_MALLOC(sizeof *node));
    node->next = list;
    node->value[0] = value;
    return node;
}

static uint64_t sum_of(const struct node *list)
{
    uint64_t sum = 0;
    for (; list != NULL; list = list->next)
        sum += list->value[0];
    return sum;
}

/* --- threads that live together --- */

enum { THREADS = 1000, KEPT = 16, STACK = 256 << 10, FRAME = 1024 };

static pthread_barrier_t all_are_there;

static void *one_of_many(void *result)
{
    uint64_t *sum = result, state = *sum;
    /* A stack of a few pages in use, as of a program with some calls below it. */
    struct node *volatile frame[FRAME];
    for (int i = 0; i < FRAME; i++)
        frame[i] = NULL;
    pthread_barrier_wait(&all_are_there);
    for (long i = 0; i < number; i++) {
        struct node *node = need(GC_MALLOC(size_between(&state, sizeof *node, 256)));
        node->value[0] = (uint64_t)i;
        frame[next(&state) % KEPT * (FRAME / KEPT)] = node;
    }
    pthread_barrier_wait(&all_are_there);
    *sum = 0;
    for (int i = 0; i < FRAME; i++)
        *sum += frame[i] != NULL ? frame[i]->value[0] : 0;
    return NULL;
}

static uint64_t threads(void)
{
    static pthread_t all[THREADS];
    static uint64_t sums[THREADS];
    uint64_t sum = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&all_are_there, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) {
        sums[t] = (uint64_t)t + 1;
        if (pthread_create(&all[t], &attributes, one_of_many, &sums[t]) != 0) {
            fprintf(stderr, "strangers: cannot start a thread\n");
            exit(4);
        }
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(all[t], NULL);
        sum += sums[t];
    }
    return sum;
}

/* --- large blocks --- */

enum { PAGE = 4096, BLOCKS = 16, BUFFERS = 2 };

static uint64_t blocks(void)
{
    static char *ring[BLOCKS];
    uint64_t state = 1, sum = 0;
    for (long i = 0; i < number; i++) {
        size_t bytes = size_between(&state, 64 << 10, 4 << 20);
        char *block = need(GC_MALLOC(bytes));
        for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += PAGE) {
            /* It has to be zero. */
            sum += *(uint64_t *)(block + at);
            *(uint64_t *)(block + at) = at + 1;
        }
        ring[i % BLOCKS] = block;
        sum += bytes;
    }
    for (int i = 0; i < BLOCKS; i++)
        sum += ring[i] != NULL ? *(uint64_t *)(ring[i] + PAGE) : 0;
    return sum;
}

static uint64_t fill_buffers(size_t (*size)(long))
{
    static unsigned char *ring[BUFFERS];
    uint64_t sum = 0;
    for (long i = 0; i < number; i++) {
        const size_t bytes = size(i);
        ring[i % BUFFERS] = NULL;
        unsigned char *buffer = ring[i % BUFFERS] = need(GC_MALLOC_ATOMIC(bytes));
        memset(buffer, (int)(i % 251), bytes);
        sum += bytes + buffer[bytes / 2];
    }
    for (int i = 0; i < BUFFERS; i++)
        sum += ring[i] != NULL ? ring[i][PAGE] : 0;
    return sum;
}

static size_t doubled(long i)
{
    return (size_t)8 << 20 << i % 5;
}

static uint64_t buffers(void)
{
    return fill_buffers(doubled);
}

static size_t mixed(long i)
{
    static uint64_t state = 1;
    (void)i;
    return (8 + next(&state) % 121) << 20;
}

static uint64_t buffers_mixed(void)
{
    return fill_buffers(mixed);
}

/* --- small objects without references --- */

static uint64_t strings_between(size_t least, size_t most, size_t alive)
{
    const size_t count = alive * 2 / (least + most);
    char **ring = need(GC_MALLOC(count * sizeof *ring));
    uint64_t state = 1, sum = 0;
    for (long i = 0; i < number; i++) {
        const uint64_t drawn = next(&state);
        const size_t bytes = least + drawn % (most - least + 1);
        char *string = need(GC_MALLOC_ATOMIC(bytes));
        string[0] = (char)i;
        string[bytes - 1] = 1;
        ring[(drawn >> 20) % count] = string;
    }
    for (size_t i = 0; i < count; i++)
        sum += ring[i] != NULL ? (unsigned char)ring[i][0] : 0;
    return sum;
}

static uint64_t strings(void)
{
    return strings_between(16, 80, 4 << 20);
}

static uint64_t strings_large(void)
{
    return strings_between(2 << 10, 6 << 10, 32 << 20);
}

/* --- finalizers --- */

static long finalized;

static void finalize(void *object, void *unused)
{
    (void)object;
    (void)unused;
    finalized++;
}

static struct node *with_finalizer(struct node *list, uint64_t value)
{
    struct node *node = push(list, value);
    GC_REGISTER_FINALIZER_NO_ORDER(node, finalize, NULL, NULL, NULL);
    return node;
}

/* All that died has to be finalized at the end: of these at least 99 of 100, since a word on the stack may
 * keep some alive. */
static uint64_t finalized_of(long dead)
{
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        GC_invoke_finalizers();
    }
    return finalized >= dead / 100 * 99 ? (uint64_t)dead : (uint64_t)finalized;
}

/* Not inlined, so that its frame is gone before the end. */
__attribute__((noinline)) static uint64_t finalizers_die(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < number; i++)
        sum += with_finalizer(NULL, (uint64_t)i)->value[0];
    return sum;
}

static uint64_t finalizers(void)
{
    uint64_t sum = finalizers_die();
    return sum + finalized_of(number);
}

/* A tenth of the objects live, half of these with a finalizer. The others are short lists, and every fifth of
 * them has a finalizer. */
static uint64_t score(void)
{
    static struct node *music;
    struct node *recent = NULL;
    long dead = 0;
    for (long i = 0; i < number; i++) {
        const uint64_t value = (uint64_t)i;
        struct node *before = i % 64 < 5 ? NULL : recent;
        if (i % 10 == 0)
            music = i % 20 == 0 ? with_finalizer(music, value) : push(music, value);
        else if (i % 5 == 0)
            recent = with_finalizer(before, value);
        else
            recent = push(before, value);
        dead += i % 10 == 5;
    }
    recent = NULL;
    return sum_of(music) + finalized_of(dead);
}

/* --- typed, uncollectable, freed by the program --- */

struct typed {
    uint64_t numbers[3];
    struct typed *left, *right;
    uint64_t mark;
};

static uint64_t typed(void)
{
    enum { SLOTS = 1 << 18 };
    GC_word bitmap[GC_BITMAP_SIZE(struct typed)] = {0};
    GC_set_bit(bitmap, GC_WORD_OFFSET(struct typed, left));
    GC_set_bit(bitmap, GC_WORD_OFFSET(struct typed, right));
    GC_descr descriptor = GC_make_descriptor(bitmap, GC_WORD_LEN(struct typed));
    struct typed **slots = need(GC_MALLOC(SLOTS * sizeof *slots));
    uint64_t state = 1, sum = 0;
    for (long i = 0; i < number; i++) {
        struct typed *one = need(GC_MALLOC_EXPLICITLY_TYPED(sizeof *one, descriptor));
        const uint64_t drawn = next(&state);
        one->mark = (uint64_t)i;
        one->numbers[0] = drawn;
        /* A tree of two levels, so that little lives behind each slot. */
        one->left = i % 3 == 0 ? slots[drawn % SLOTS] : NULL;
        if (one->left != NULL)
            one->left->left = NULL;
        slots[(drawn >> 20) % SLOTS] = one;
    }
    for (long i = 0; i < SLOTS; i++)
        sum += slots[i] != NULL ? slots[i]->mark : 0;
    return sum;
}

static uint64_t freed(void *(*make)(size_t))
{
    enum { SLOTS = 1 << 17 };
    uint64_t **slots = need(GC_MALLOC(SLOTS * sizeof *slots)), state = 1, sum = 0;
    for (long i = 0; i < number; i++) {
        const size_t at = next(&state) % SLOTS;
        if (slots[at] != NULL) {
            sum += *slots[at];
            GC_FREE(slots[at]);
        }
        slots[at] = need(make(size_between(&state, 16, 512)));
        *slots[at] = (uint64_t)i;
    }
    return sum;
}

static void *make_uncollectable(size_t bytes)
{
    return GC_MALLOC_UNCOLLECTABLE(bytes);
}

static uint64_t uncollectable(void)
{
    return freed(make_uncollectable);
}

static void *make_collectable(size_t bytes)
{
    return GC_MALLOC(bytes);
}

static uint64_t freed_by_hand(void)
{
    return freed(make_collectable);
}

/* --- a heap that is to stay small --- */

enum { SONS = 11, SON = 301 };

static uint64_t small(void)
{
    uint64_t sum = 0;
    for (long i = 0; i < number; i++) {
        char **holder = need(GC_MALLOC(SONS * sizeof *holder));
        for (int son = 0; son < SONS; son++) {
            holder[son] = need(GC_MALLOC_ATOMIC(SON));
            holder[son][0] = (char)i;
        }
        sum += (unsigned char)holder[i % SONS][0];
    }
    return sum;
}

/* --- little memory, few addresses --- */

static uint64_t tight(void)
{
    enum { LIVE = 50 << 20, SLOTS = LIVE / 128 };
    struct node **slots = need(GC_MALLOC(SLOTS * sizeof *slots));
    uint64_t state = 1, sum = 0;
    for (long i = 0; i < SLOTS + number; i++) {
        const size_t bytes = size_between(&state, sizeof **slots, 256);
        const size_t at = i < SLOTS ? (size_t)i : next(&state) % SLOTS;
        /* A tenth of what comes later stays, in the place of another. */
        struct node *node = need(GC_MALLOC(bytes));
        node->value[0] = (uint64_t)i;
        if (i < SLOTS || i % 10 == 0)
            slots[at] = node;
    }
    for (size_t i = 0; i < SLOTS; i++)
        sum += slots[i]->value[0];
    return sum;
}

static void *churn(void *unused)
{
    (void)unused;
    for (int i = 0; i < 400000; i++) {
        void **object = need(GC_MALLOC(64));
        *object = object;
    }
    return NULL;
}

static uint64_t addresses(void)
{
    enum { CHUNKS = 6, CHUNK = 2 << 20, WORKERS = 2 };
    struct node *list = NULL;
    pthread_t workers[WORKERS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    for (long i = 0; i < 100000; i++)
        list = push(list, (uint64_t)i);
    for (int i = 0; i < CHUNKS; i++)
        memset(need(malloc(CHUNK)), 1, CHUNK);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], &attributes, churn, NULL) != 0) {
            fprintf(stderr, "strangers: cannot start a thread\n");
            exit(4);
        }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    GC_gcollect();
    return sum_of(list);
}

/* --- small objects that die young --- */

static struct node *tree(int depth)
{
    struct node *node = push(NULL, (uint64_t)depth);
    if (depth > 0) {
        node->next = tree(depth - 1);
        node->value[1] = (uint64_t)tree(depth - 1);
    }
    return node;
}

static uint64_t cells(void)
{
    struct node *lasting = tree(19), *recent = NULL;
    uint64_t sum = 0;
    for (long i = 0; i < number; i++) {
        recent = push(i % 32 != 0 ? recent : NULL, (uint64_t)i);
        if (i % 32 == 31)
            sum += sum_of(recent);
    }
    return sum + sum_of(lasting);
}

static void *server(void *result)
{
    uint64_t *sum = result;
    for (long i = 0; i < number; i++) {
        struct node *list = NULL;
        for (int n = 0; n < 50; n++)
            list = push(list, (uint64_t)(i + n));
        *sum += sum_of(list);
    }
    return NULL;
}

static uint64_t servers(void)
{
    enum { WORKERS = 8 };
    pthread_t workers[WORKERS];
    static uint64_t sums[WORKERS];
    uint64_t sum = 0;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, server, &sums[i]) != 0) {
            fprintf(stderr, "strangers: cannot start a thread\n");
            exit(4);
        }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i], NULL);
        sum += sums[i];
    }
    return sum;
}

/* --- all of them --- */

static const struct kind {
    const char *name;
    uint64_t (*run)(void);
    long number;
} kinds[] = {
    {"threads", threads, 2000},
    {"blocks", blocks, 4000},
    {"buffers", buffers, 150},
    {"buffers-mixed", buffers_mixed, 100},
    {"strings", strings, 20000000},
    {"score", score, 4000000},
    {"finalizers", finalizers, 3000000},
    {"typed", typed, 8000000},
    {"uncollectable", uncollectable, 10000000},
    {"free", freed_by_hand, 10000000},
    {"small", small, 10000},
    {"tight", tight, 2000000},
    {"addresses", addresses, 0},
    {"strings-large", strings_large, 1000000},
    {"cells", cells, 30000000},
    {"servers", servers, 40000},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Bytes of this line of /proc/self/status, which is in KiB. */
static size_t status(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %zu", &kib);
    fclose(file);
    return kib << 10;
}

static uint64_t microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

int main(int argc, char **argv)
{
    const struct kind *kind = kinds;
    while (argc > 1 && kind < kinds + KINDS && strcmp(kind->name, argv[1]) != 0)
        kind++;
    char *end = argc > 2 ? argv[2] : "";
    number = argc > 2 ? strtol(argv[2], &end, 10) : kind < kinds + KINDS ? kind->number : 0;
    if (argc < 2 || argc > 3 || kind == kinds + KINDS || number < 0 || *end != '\0') {
        fprintf(stderr, "strangers: KIND [N], where KIND is one of");
        for (size_t i = 0; i < KINDS; i++)
            fprintf(stderr, " %s", kinds[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    const size_t before = status("VmRSS");
    struct timespec begin, done;
    struct rusage usage;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    GC_INIT();
    const uint64_t sum = kind->run();
    const size_t occupied = GC_get_heap_size() - GC_get_free_bytes();
    clock_gettime(CLOCK_MONOTONIC, &done);
    getrusage(RUSAGE_SELF, &usage);
    const size_t peak = status("VmHWM");
    printf("{\"kind\":\"%s\",\"microseconds\":%ld,\"processor\":%" PRIu64 ",\"collections\":%lu,"
           "\"minor_faults\":%ld,\"peak\":%zu,\"grown\":%zu,\"heap\":%zu,\"occupied\":%zu,"
           "\"checksum\":%" PRIu64 "}\n",
           kind->name, (done.tv_sec - begin.tv_sec) * 1000000 + (done.tv_nsec - begin.tv_nsec) / 1000,
           microseconds(usage.ru_utime) + microseconds(usage.ru_stime), (unsigned long)GC_get_gc_no(),
           usage.ru_minflt, peak, peak > before ? peak - before : 0, GC_get_heap_size(), occupied, sum);
    return 0;
}
