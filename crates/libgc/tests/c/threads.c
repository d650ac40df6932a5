/* Threads that the collector creates: their stacks are roots, they are stopped, joined, detached,
cancelled. */
#include "check.h"
#include <gc/javaxfc.h>
#include <pthread.h>
#include <signal.h>

#define THREADS 8
#define COUNT 100

struct node {
    struct node *next;
    long number;
};

/* Builds lists that only its stack holds, while others collect. */
static void *build(void *argument) {
    long bad = 0;
    for (int round = 0; round < 30; round++) {
        struct node *list = 0;
        for (long i = 0; i < 1000; i++) {
            struct node *node = GC_malloc(sizeof *node);
            bad += node->next || node->number;
            node->next = list;
            node->number = i;
            list = node;
            if (i % 10 == 0)
                memset(GC_malloc_atomic(200), 0xff, 200);
        }
        if (round % 10 == (intptr_t)argument % 10)
            GC_gcollect();
        long expected = 1000;
        for (struct node *node = list; node; node = node->next)
            bad += node->number != --expected;
        bad += expected != 0;
    }
    return (void *)bad;
}

static void many_threads(void) {
    pthread_t threads[THREADS];
    long bad = 0, failed = 0;
    for (intptr_t i = 0; i < THREADS; i++)
        failed += GC_pthread_create(&threads[i], 0, build, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result = (void *)1;
        failed += GC_pthread_join(threads[i], &result);
        bad += (long)result;
    }
    CHECK(failed == 0);
    CHECK(bad == 0);
}

/* The argument and the result of a thread are kept. */
static void *pass_on(void *argument) {
    struct node *node = argument;
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    struct node *result = GC_malloc(sizeof *result);
    result->number = node->number + 1;
    return result;
}

static pthread_t passing;

static void start_passing(void) {
    struct node *node = GC_malloc(sizeof *node);
    node->number = 41;
    GC_pthread_create(&passing, 0, pass_on, node);
}

static void results(void) {
    below(start_passing);
    collect();
    usleep(20000);
    for (int i = 0; i < 3; i++)
        collect();
    for (int i = 0; i < 10000; i++)
        memset(GC_malloc(sizeof(struct node)), 0xaa, sizeof(struct node));
    void *result;
    CHECK(GC_pthread_join(passing, &result) == 0);
    CHECK(((struct node *)result)->number == 42);
    CHECK(GC_pthread_join(pthread_self(), 0) != 0);
}

static volatile int detached_done;
static int registered;

static void *detached(void *argument) {
    registered += GC_thread_is_registered();
    GC_malloc(100);
    __atomic_add_fetch(&detached_done, 1, __ATOMIC_SEQ_CST);
    return GC_malloc(10);
}

static void wait_for(volatile int *what, int value) {
    while (*what != value)
        usleep(1000);
}

static void detaching(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    CHECK(GC_pthread_create(&thread, &attributes, detached, 0) == 0);
    wait_for(&detached_done, 1);
    CHECK(GC_pthread_create(&thread, 0, detached, 0) == 0);
    CHECK(GC_pthread_detach(thread) == 0);
    wait_for(&detached_done, 2);
    CHECK(registered == 2);
    GC_gcollect();
    /* A thread with a stack of a size of its own. */
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_JOINABLE);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    CHECK(GC_pthread_create(&thread, &attributes, build, 0) == 0);
    void *result;
    CHECK(GC_pthread_join(thread, &result) == 0 && !result);
    pthread_attr_destroy(&attributes);
}

static volatile int waiting;

static void *wait_for_cancel(void *argument) {
    struct node *node = GC_malloc(sizeof *node);
    node->number = 5;
    waiting = 1;
    for (;;) {
        GC_malloc(50);
        pthread_testcancel();
        usleep(100);
    }
    GC_reachable_here(node);
    return 0;
}

static void *leave(void *argument) {
    struct node *node = GC_malloc(sizeof *node);
    node->number = 17;
    GC_pthread_exit(node);
    return 0;
}

static void ending(void) {
    pthread_t thread;
    void *result;
    CHECK(GC_pthread_create(&thread, 0, wait_for_cancel, 0) == 0);
    wait_for(&waiting, 1);
    CHECK(GC_pthread_cancel(thread) == 0);
    CHECK(GC_pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    GC_gcollect();
    CHECK(GC_pthread_create(&thread, 0, leave, 0) == 0);
    usleep(10000);
    collect();
    CHECK(GC_pthread_join(thread, &result) == 0 && ((struct node *)result)->number == 17);
}

/* Threads that are cancelled, or end, while frames of the collector are on their stacks. */
static volatile int asleep, cleaned;

static void clean(void *argument) { cleaned++; }

static void *sleep_long(void *argument) {
    pthread_cleanup_push(clean, 0);
    asleep = 1;
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return 0;
}

static void *join(void *argument) {
    void *result;
    pthread_cleanup_push(clean, 0);
    asleep = 1;
    GC_pthread_join(*(pthread_t *)argument, &result);
    pthread_cleanup_pop(1);
    return 0;
}

static void *block(void *argument) { return GC_do_blocking(sleep_long, argument); }
static void *active(void *argument) { return GC_call_with_gc_active(sleep_long, argument); }
static void *block_active(void *argument) { return GC_do_blocking(active, argument); }

static void *end_inside(void *argument) {
    GC_pthread_exit((void *)7);
    return 0;
}
static void *block_end(void *argument) { return GC_do_blocking(end_inside, argument); }
static void *end_at_once(void *argument) {
    pthread_exit((void *)8);
    return 0;
}
static void *block_end_at_once(void *argument) { return GC_do_blocking(end_at_once, argument); }

/* A thread that was cancelled collects, and ends at its next cancellation point. */
static volatile int collected;

static void *collect_first(void *argument) {
    pthread_cleanup_push(clean, 0);
    pthread_cancel(pthread_self());
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    for (int i = 0; i < 20000; i++)
        memset(GC_malloc(1000), 1, 1000);
    collected = GC_malloc((size_t)1 << 45) == 0;
    GC_gcollect_and_unmap();
    collected++;
    pthread_testcancel();
    collected++;
    pthread_cleanup_pop(1);
    return 0;
}

static void cancelled_in(const char *where, void *(*start)(void *), void *argument) {
    pthread_t thread;
    void *result = 0;
    int failed = GC_pthread_create(&thread, 0, start, argument);
    wait_for(&asleep, 1);
    usleep(20000);
    asleep = 0;
    failed += GC_pthread_cancel(thread);
    failed += GC_pthread_join(thread, &result);
    printf("%s: failed %d, cancelled: %d, cleaned %d\n", where, failed, result == PTHREAD_CANCELED, cleaned);
    GC_gcollect();
}

static void ends_in(const char *where, void *(*start)(void *)) {
    pthread_t thread;
    void *result = 0;
    int failed = GC_pthread_create(&thread, 0, start, 0) || GC_pthread_join(thread, &result);
    printf("%s: failed %d, result %ld, cleaned %d\n", where, failed, (long)result, cleaned);
    GC_gcollect();
}

static void quiet(char *message, GC_word argument) {}

static void cancelling(void) {
    pthread_t awaited;
    GC_set_warn_proc(quiet);
    CHECK(GC_pthread_create(&awaited, 0, sleep_long, 0) == 0);
    wait_for(&asleep, 1);
    asleep = 0;
    cancelled_in("joining", join, &awaited);
    CHECK(GC_pthread_cancel(awaited) == 0 && GC_pthread_join(awaited, 0) == 0);
    cancelled_in("blocking", block, 0);
    cancelled_in("active while blocking", block_active, 0);
    ends_in("the end in a blocking region", block_end);
    ends_in("and without the collector", block_end_at_once);
    ends_in("collecting", collect_first);
    SHOW(collected);
}

static void masks(void) {
    sigset_t set, now;
    sigfillset(&set);
    CHECK(GC_pthread_sigmask(SIG_BLOCK, &set, 0) == 0);
    pthread_sigmask(SIG_SETMASK, 0, &now);
    printf("suspend signal %s, another %s\n", sigismember(&now, GC_get_suspend_signal()) ? "blocked" : "free",
           sigismember(&now, SIGUSR1) ? "blocked" : "free");
    CHECK(GC_pthread_sigmask(SIG_SETMASK, &set, &now) == 0);
    CHECK(sigismember(&now, SIGUSR1) == 1);
    pthread_sigmask(SIG_SETMASK, 0, &now);
    printf("suspend signal %s, another %s\n", sigismember(&now, GC_get_suspend_signal()) ? "blocked" : "free",
           sigismember(&now, SIGUSR2) ? "blocked" : "free");
    CHECK(GC_pthread_sigmask(SIG_UNBLOCK, &set, 0) == 0);
    CHECK(GC_pthread_sigmask(77, &set, 0) != 0);
    CHECK(GC_pthread_sigmask(SIG_BLOCK, 0, &now) == 0 && !sigismember(&now, SIGUSR1));
}

/* Threads that start threads. */
static void *nest(void *argument) {
    intptr_t depth = (intptr_t)argument;
    if (depth == 0)
        return 0;
    pthread_t thread;
    void *result;
    struct node *node = GC_malloc(sizeof *node);
    node->number = depth;
    if (GC_pthread_create(&thread, 0, nest, (void *)(depth - 1)) || GC_pthread_join(thread, &result))
        return (void *)-1000;
    GC_gcollect();
    return (void *)((intptr_t)result + node->number);
}

int main(void) {
    GC_INIT();
    CHECK(GC_thread_is_registered() != 0);
    many_threads();
    results();
    detaching();
    ending();
    cancelling();
    masks();
    SHOW((intptr_t)nest((void *)12));
    /* Programs may take the lock and start markers themselves. Threads that wait for the lock are stopped all
    the same. */
    GC_alloc_lock();
    GC_alloc_unlock();
    GC_start_mark_threads();
    many_threads();
    return 0;
}
