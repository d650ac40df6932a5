/* heapload: workloads by which collectors are measured.
 *
 *   heapload gcbench|bintree|largelive [--threads T] [--rounds N] [--depth D] [--live-mb M] [--churn N]
 *            [--hot PERCENT] [--seed S] [--pauses FILE]
 *
 * gcbench    after the benchmark of John Ellis, Pete Kovac and Hans Boehm: trees of growing depth beside a
 *            long-lived tree and array
 * bintree    trees of 16-byte nodes beside a long-lived tree
 * largelive  objects of 64 bytes that live to the end, each with two references to near objects and two to
 *            random ones; then cells of 40 bytes that die young, while a part of the live objects is read
 *
 * Prints one JSON object: times in seconds, sizes in bytes. Pauses, and FILE: see pauses.h. "before_heap" is
 * the resident memory right below the heap's lowest address, where a collector may keep its tables. The
 * checksum does not depend on the collector. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define GC_THREADS
#include "pauses.h"
#include "workload.h"
#include <gc/gc_mark.h>

struct options {
    const char *what, *pauses;
    long threads, rounds, depth, live_mb, churn, hot, seed;
};

static struct options opt = {
    .threads = 1, .rounds = 5, .depth = 20, .live_mb = 600, .churn = 60000000, .hot = 10, .seed = 1};

/* --- gcbench --- */

struct node {
    struct node *left, *right;
    int32_t i, j;
};

static struct node *new_node(struct node *left, struct node *right)
{
    struct node *node = need(GC_MALLOC(sizeof *node));
    node->left = left;
    node->right = right;
    return node;
}

static void populate(int depth, struct node *node)
{
    if (depth <= 0)
        return;
    node->left = new_node(NULL, NULL);
    node->right = new_node(NULL, NULL);
    populate(depth - 1, node->left);
    populate(depth - 1, node->right);
}

static struct node *make_tree(int depth)
{
    if (depth <= 0)
        return new_node(NULL, NULL);
    struct node *left = make_tree(depth - 1);
    return new_node(left, make_tree(depth - 1));
}

static uint64_t gcbench(uint64_t seed)
{
    (void)seed;
    uint64_t sum = 0;
    for (long round = 0; round < opt.rounds; round++) {
        make_tree(18);
        struct node *longest = new_node(NULL, NULL);
        populate(16, longest);
        double *array = need(GC_MALLOC_ATOMIC(500000 * sizeof *array));
        for (int i = 0; i < 250000; i++)
            array[i] = 1.0 / (i + 1);
        for (int depth = 4; depth <= 16; depth += 2) {
            long trees = 2 * (1L << 19) / (1L << (depth + 1));
            for (long i = 0; i < trees; i++)
                populate(depth, new_node(NULL, NULL));
            for (long i = 0; i < trees; i++)
                make_tree(depth);
        }
        sum += longest->left != NULL && array[1000] == 1.0 / 1001;
    }
    return sum;
}

/* --- bintree --- */

struct pair {
    struct pair *left, *right;
};

static struct pair *bottom_up(int depth)
{
    struct pair *pair = need(GC_MALLOC(sizeof *pair));
    if (depth > 0) {
        pair->left = bottom_up(depth - 1);
        pair->right = bottom_up(depth - 1);
    }
    return pair;
}

static uint64_t check(const struct pair *pair)
{
    return pair->left == NULL ? 1 : 1 + check(pair->left) + check(pair->right);
}

static uint64_t bintree(uint64_t seed)
{
    (void)seed;
    uint64_t sum = check(bottom_up((int)opt.depth + 1));
    struct pair *lasting = bottom_up((int)opt.depth);
    for (long depth = 4; depth <= opt.depth; depth += 4) {
        long trees = (1L << (opt.depth - depth + 4)) / opt.threads;
        for (long i = 0; i < trees; i++)
            sum += check(bottom_up((int)depth));
    }
    return sum + check(lasting);
}

/* --- largelive --- */

struct object {
    struct object *near[2], *far[2];
    uint64_t values[4];
};

struct cell {
    struct cell *next;
    uint64_t values[4];
};

static uint64_t largelive(uint64_t seed)
{
    const size_t objects = (size_t)opt.live_mb * (1 << 20) / sizeof(struct object) / (size_t)opt.threads;
    const size_t hot = objects * (size_t)opt.hot / 100;
    struct object **all = need(GC_MALLOC(objects * sizeof *all));
    uint64_t state = seed, sum = 0;
    for (size_t i = 0; i < objects; i++) {
        struct object *object = all[i] = need(GC_MALLOC(sizeof *object));
        object->values[0] = i;
        for (int n = 0; n < 2 && i > 0; n++) {
            object->near[n] = all[i - 1 - next(&state) % (i < 64 ? i : 64)];
            object->far[n] = all[next(&state) % i];
        }
    }
    struct cell *recent = NULL;
    for (long i = 0; i < opt.churn / opt.threads; i++) {
        struct cell *cell = need(GC_MALLOC(sizeof *cell));
        cell->values[0] = (uint64_t)i;
        cell->next = i % 16 != 0 ? recent : NULL;
        recent = cell;
        if (hot > 0 && i % 8 == 0)
            sum += all[next(&state) % hot]->values[0];
    }
    for (size_t i = 0; i < objects; i += 997)
        sum += all[i]->values[0];
    return sum + recent->values[0];
}

/* --- all of them --- */

static uint64_t (*workload(void))(uint64_t)
{
    if (strcmp(opt.what, "gcbench") == 0)
        return gcbench;
    if (strcmp(opt.what, "bintree") == 0)
        return bintree;
    if (strcmp(opt.what, "largelive") == 0)
        return largelive;
    fprintf(stderr, "heapload: unknown workload: %s\n", opt.what);
    exit(2);
}

static void *run(void *result)
{
    uint64_t *sum = result;
    *sum = workload()(*sum);
    return NULL;
}

static uint64_t run_all(void)
{
    pthread_t threads[64];
    uint64_t sums[64], sum = 0;
    if (opt.threads == 1)
        return workload()((uint64_t)opt.seed);
    for (long t = 0; t < opt.threads; t++) {
        sums[t] = (uint64_t)(opt.seed + t);
        if (GC_pthread_create(&threads[t], NULL, run, &sums[t]) != 0) {
            fprintf(stderr, "heapload: cannot start a thread\n");
            exit(4);
        }
    }
    for (long t = 0; t < opt.threads; t++) {
        GC_pthread_join(threads[t], NULL);
        sum += sums[t];
    }
    return sum;
}

/* Resident bytes of the mappings right below the heap: of the one that ends where the heap begins, of the one
 * that ends where that one begins, and so on. They are the collector's tables, and whatever else happens to
 * lie there. */
static size_t before_heap(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t heap = ((size_t)GC_least_plausible_heap_addr + page - 1) / page * page;
    size_t from, to, end = 0, resident = 0;
    char line[512];
    unsigned char pages[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        return 0;
    while (fgets(line, sizeof line, maps) != NULL)
        if (sscanf(line, "%zx-%zx", &from, &to) == 2 && from < heap) {
            if (from != end)
                resident = 0;
            end = to;
            const size_t last = to < heap ? to : heap;
            for (size_t at = from; at < last; at += sizeof pages * page) {
                const size_t bytes = last - at < sizeof pages * page ? last - at : sizeof pages * page;
                if (mincore((void *)at, bytes, pages) == 0)
                    for (size_t i = 0; i < bytes / page; i++)
                        resident += (pages[i] & 1) * page;
            }
        }
    fclose(maps);
    return end >= heap ? resident : 0;
}

static int by_length(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(uint64_t sum)
{
    static double lengths[RECORDED];
    long recorded = pauses.count < RECORDED ? pauses.count : RECORDED, faults = 0;
    double total = 0;
    struct rusage usage;
    for (long i = 0; i < recorded; i++) {
        lengths[i] = pauses.first[i].length;
        total += lengths[i];
        faults += pauses.first[i].faults;
    }
    qsort(lengths, (size_t)recorded, sizeof *lengths, by_length);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"workload\":\"%s\",\"threads\":%ld,\"seconds\":%.4f,\"cpu\":%.3f,\"collections\":%ld,"
           "\"pauses\":%ld,\"pause_max\":%.6f,\"pause_median\":%.6f,\"pause_total\":%.4f,"
           "\"faults_in_pauses\":%ld,\"major_faults\":%ld,\"rss_peak\":%ld,\"heap\":%zu,"
           "\"before_heap\":%zu,\"checksum\":%" PRIu64 "}\n",
           opt.what, opt.threads, now() - pauses.start,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
           pauses.collections, pauses.count,
           recorded ? lengths[recorded - 1] : 0, recorded ? lengths[recorded / 2] : 0, total, faults,
           usage.ru_majflt, usage.ru_maxrss * 1024, GC_get_heap_size(), before_heap(), sum);
}

static long number(const char *name, const char *text)
{
    char *end;
    long value = text == NULL ? -1 : strtol(text, &end, 10);
    if (text == NULL || end == text || *end != '\0' || value < 0) {
        fprintf(stderr, "heapload: %s needs a number that is not negative\n", name);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        long *value;
    } names[] = {{"--threads", &opt.threads}, {"--rounds", &opt.rounds}, {"--depth", &opt.depth},
                 {"--live-mb", &opt.live_mb}, {"--churn", &opt.churn}, {"--hot", &opt.hot},
                 {"--seed", &opt.seed}};
    opt.what = argc > 1 ? argv[1] : "";
    workload();
    for (int i = 2; i < argc; i += 2) {
        size_t n = 0;
        while (n < sizeof names / sizeof *names && strcmp(argv[i], names[n].name) != 0)
            n++;
        if (strcmp(argv[i], "--pauses") == 0 && i + 1 < argc)
            opt.pauses = argv[i + 1];
        else if (n < sizeof names / sizeof *names)
            *names[n].value = number(argv[i], argv[i + 1]);
        else {
            fprintf(stderr, "heapload: unknown option: %s\n", argv[i]);
            return 2;
        }
    }
    if (opt.threads < 1 || opt.threads > 64 || opt.depth > 30 || opt.seed == 0) {
        fprintf(stderr, "heapload: 1 to 64 threads, a depth of at most 30, a seed that is not 0\n");
        return 2;
    }
    GC_INIT();
    GC_allow_register_threads();
    if (!watch_pauses(opt.pauses, O_TRUNC))
        return 1;
    print(run_all());
    return 0;
}
