/* gcbench: a benchmark of collectors with binary trees, after the one by John Ellis, Pete Kovac and Hans
 * Boehm (section 5.1.1 of the Viengoos paper). A large tree and a large array live to the end. In each
 * iteration it builds trees of growing depth, from the root down and from the leaves up, and drops each of
 * them when it is complete.
 *
 *   gcbench [--iterations N] [--live-depth D] [--max-depth D] [--every N] [--seconds S]
 *           [--no-gc-from N --no-gc-to N]
 *           [--fork] [--threads T] [--finalizers] [--idle S]
 *
 * Prints one JSON object per line: progress every N iterations, "done" at the end, with a checksum that does
 * not depend on the collector. Sizes are bytes, times seconds. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define GC_THREADS
#include <gc/gc.h>
#include "libgc/workload.h"

struct node {
    struct node *left, *right;
    int32_t depth, mark;
};

struct options {
    long iterations, every, no_gc_from, no_gc_to;
    int live_depth, max_depth, threads;
    double seconds, idle;
    bool fork, finalizers;
};

static struct options opt = {.iterations = 400, .every = 10, .no_gc_from = -1, .no_gc_to = -1,
                             .live_depth = 16, .max_depth = 16, .threads = 1};
static pthread_t main_thread;
static long finalized, finalized_elsewhere;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct node *leaf(void)
{
    return need(GC_MALLOC(sizeof(struct node)));
}

/* Builds a full tree of the given depth below a node, from the root down. */
static void grow_down(struct node *node, int depth)
{
    node->depth = depth;
    if (depth == 0)
        return;
    node->left = leaf();
    node->right = leaf();
    grow_down(node->left, depth - 1);
    grow_down(node->right, depth - 1);
}

/* Builds a full tree of the given depth from the leaves up. */
static struct node *grow_up(int depth)
{
    struct node *left = NULL, *right = NULL, *node;
    if (depth > 0) {
        left = grow_up(depth - 1);
        right = grow_up(depth - 1);
    }
    node = leaf();
    node->left = left;
    node->right = right;
    node->depth = depth;
    return node;
}

static uint64_t count(const struct node *node)
{
    return node == NULL ? 0 : 1 + count(node->left) + count(node->right);
}

static void on_finalize(void *object, void *data)
{
    (void)object;
    (void)data;
    finalized++;
    if (!pthread_equal(pthread_self(), main_thread))
        finalized_elsewhere++;
}

/* One iteration. There are fewer trees of a larger depth, so that all depths have about the same number of
nodes. */
static uint64_t iterate(void)
{
    uint64_t nodes = 0;
    for (int depth = 4; depth <= opt.max_depth; depth += 2) {
        long trees = 1L << (opt.max_depth - depth);
        for (long i = 0; i < trees; i++) {
            struct node *tree;
            if (i % 2 == 0) {
                tree = leaf();
                grow_down(tree, depth);
            } else {
                tree = grow_up(depth);
            }
            if (opt.finalizers && i == 0)
                GC_REGISTER_FINALIZER(tree, on_finalize, NULL, NULL, NULL);
            if (i == 0)
                nodes += count(tree);
            tree = NULL;
        }
    }
    return nodes;
}

static long resident(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &size, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * sysconf(_SC_PAGESIZE);
}

static void line(const char *event, long iteration, double start, uint64_t checksum)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"event\":\"%s\",\"iteration\":%ld,\"time\":%.3f,\"collections\":%lu,\"gc_time\":%.3f,"
           "\"heap\":%zu,\"unmapped\":%zu,\"rss\":%ld,\"major_faults\":%ld,\"checksum\":%" PRIu64 "}\n",
           event, iteration, now() - start, (unsigned long)GC_get_gc_no(),
           (double)GC_get_full_gc_total_time() / 1e3,
           GC_get_heap_size(), GC_get_unmapped_bytes(), resident(), usage.ru_majflt, checksum);
    fflush(stdout);
}

static void *worker(void *result)
{
    uint64_t nodes = 0;
    for (long i = 0; i < opt.iterations; i++)
        nodes += iterate();
    *(uint64_t *)result = nodes;
    return NULL;
}

static uint64_t run_threads(void)
{
    pthread_t threads[64];
    uint64_t *results = need(GC_MALLOC_UNCOLLECTABLE(sizeof(uint64_t) * 64)), sum = 0;
    for (int t = 0; t < opt.threads; t++)
        if (GC_pthread_create(&threads[t], NULL, worker, &results[t]) != 0)
            exit(4);
    for (int t = 0; t < opt.threads; t++) {
        GC_pthread_join(threads[t], NULL);
        sum += results[t];
    }
    return sum;
}

/* Forks a child that allocates and collects. Its exit status says whether its data were right. */
static bool run_child(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        uint64_t first = iterate(), nodes = 0;
        for (long i = 0; i < opt.iterations / 4 + 1; i++)
            nodes = iterate();
        _exit(nodes == first ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double number(const char *name, const char *text)
{
    char *end;
    double value;
    if (text == NULL) {
        fprintf(stderr, "gcbench: %s needs a number\n", name);
        exit(2);
    }
    value = strtod(text, &end);
    if (end == text || *end != '\0') {
        fprintf(stderr, "gcbench: %s: not a number: %s\n", name, text);
        exit(2);
    }
    return value;
}

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--fork") == 0) { opt.fork = true; continue; }
        if (strcmp(name, "--finalizers") == 0) { opt.finalizers = true; continue; }
        double value = number(name, argv[++i]);
        if (strcmp(name, "--iterations") == 0) opt.iterations = (long)value;
        else if (strcmp(name, "--every") == 0) opt.every = (long)value > 0 ? (long)value : 1;
        else if (strcmp(name, "--live-depth") == 0) opt.live_depth = (int)value;
        else if (strcmp(name, "--max-depth") == 0) opt.max_depth = (int)value;
        else if (strcmp(name, "--threads") == 0) opt.threads = (int)value;
        else if (strcmp(name, "--seconds") == 0) opt.seconds = value;
        else if (strcmp(name, "--idle") == 0) opt.idle = value;
        else if (strcmp(name, "--no-gc-from") == 0) opt.no_gc_from = (long)value;
        else if (strcmp(name, "--no-gc-to") == 0) opt.no_gc_to = (long)value;
        else { fprintf(stderr, "gcbench: unknown option %s\n", name); exit(2); }
    }
    if (opt.threads < 1 || opt.threads > 64 || opt.max_depth < 4 || opt.max_depth > 26 || opt.live_depth < 0
        || opt.live_depth > 26) {
        fprintf(stderr, "gcbench: depths are 4 to 26, threads 1 to 64\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    double start, *array;
    struct node *tree;
    uint64_t checksum = 0;
    long i;

    parse(argc, argv);
    main_thread = pthread_self();
    GC_INIT();
    GC_start_performance_measurement();
    start = now();
    tree = leaf();
    grow_down(tree, opt.live_depth);
    array = need(GC_MALLOC_ATOMIC(500000 * sizeof(double)));
    for (i = 0; i < 500000; i++)
        array[i] = 1.0 / (double)(i + 1);
    line("start", 0, start, 0);
    if (opt.threads > 1) {
        checksum = run_threads();
        i = opt.iterations;
    } else {
        for (i = 0; opt.seconds > 0 ? now() - start < opt.seconds : i < opt.iterations; i++) {
            if (i == opt.no_gc_from) GC_disable();
            if (i == opt.no_gc_to) GC_enable();
            checksum += iterate();
            if ((i + 1) % opt.every == 0)
                line("progress", i + 1, start, checksum);
        }
    }
    for (double until = now() + opt.idle; now() < until;) {
        usleep(100000);
        line("idle", i, start, checksum);
    }
    if (opt.fork)
        printf("{\"event\":\"child\",\"right\":%s}\n", run_child() ? "true" : "false");
    if (opt.finalizers)
        printf("{\"event\":\"finalizers\",\"some\":%s,\"elsewhere\":%ld}\n", finalized > 0 ? "true" : "false",
               finalized_elsewhere);
    checksum += count(tree) + (array[999] == 1.0 / 1000.0);
    line("done", i, start, checksum);
    return 0;
}
