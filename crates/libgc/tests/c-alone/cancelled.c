/* Threads that are cancelled. No function of the collector is a cancellation point: a cancelled thread
returns from each call, and ends at the next cancellation point of the program. */
#include "sound.h"

static void after_that(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    if (before != PTHREAD_CANCEL_ENABLE)
        fail("a thread that cannot be cancelled any more");
}

static void collect(void) { GC_gcollect(); }

static void allocate(void) { churn(8 << 20); }

/* An object of absurd size: the collector writes a warning too. */
static void want_too_much(void) {
    if (GC_MALLOC((size_t)1 << 60))
        fail("an object of absurd size");
}

static void *inside(void *argument) {
    GC_dump();
    return argument;
}

static void say(void) {
    GC_dump();
    GC_call_with_alloc_lock(inside, 0);
}

static void take_lock(void) {
    GC_alloc_lock();
    after_that();
    GC_alloc_unlock();
}

/* The child is a copy of a thread that has been cancelled, but has not ended yet. */
static void divide(void) {
    pid_t child = fork();
    if (child == 0) {
        GC_gcollect();
        check_live();
        _exit(0);
    }
    int oneself, status = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &oneself);
    waitpid(child, &status, 0);
    pthread_setcancelstate(oneself, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("a child");
}

static void *end_at_once(void *argument) { return argument; }

static void create(void) {
    pthread_t thread;
    int oneself;
    if (GC_pthread_create(&thread, 0, end_at_once, 0))
        fail("a thread");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &oneself);
    GC_pthread_join(thread, 0);
    pthread_setcancelstate(oneself, 0);
}

static void (*const calls[])(void) = {collect, allocate, want_too_much, say, take_lock, divide, create};

static volatile int came_back;

static void *is_to_end(void *argument) {
    struct node *mine = tree(6, 100);
    GC_pthread_cancel(pthread_self());
    calls[(uintptr_t)argument]();
    if (!is_tree(mine, 6, 100))
        fail("a thread's tree");
    after_that();
    came_back = 1;
    pthread_testcancel();
    fail("it was not cancelled");
    return 0;
}

/* Works until another thread cancels it, which may happen at any time. */
static void *work(void *argument) {
    for (uintptr_t number = (uintptr_t)argument;; number += 64) {
        struct node *mine = tree(6, number);
        churn(20000);
        if (!is_tree(mine, 6, number))
            fail("a worker's tree");
        pthread_testcancel();
    }
    return 0;
}

static volatile int over;

static void *collect_on(void *argument) {
    /* The sleep lets threads that wait for the lock take it. */
    for (; !over; usleep(300))
        GC_gcollect();
    return argument;
}

/* Waits until it is cancelled; meanwhile collections stop it again and again. */
static void *rest(void *argument) {
    struct node *volatile mine = tree(6, 3);
    pthread_cleanup_push((void (*)(void *))free, malloc(100));
    while (is_tree(mine, 6, 3))
        pause();
    pthread_cleanup_pop(1);
    fail("a resting thread's tree");
    return argument;
}

static void join(pthread_t thread) {
    void *result = 0;
    if (GC_pthread_join(thread, &result) || result != PTHREAD_CANCELED)
        fail("how a thread ended");
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        came_back = 0;
        GC_pthread_create(&threads[0], 0, is_to_end, (void *)i);
        join(threads[0]);
        if (!came_back)
            fail("cancelled in a call of the collector's");
        check_live();
    }
    for (useconds_t round = 0; round < 100; round++) {
        for (uintptr_t i = 0; i < 3; i++)
            GC_pthread_create(&threads[i], 0, work, (void *)(i << 32));
        usleep(round % 20 * 1000);
        for (int i = 0; i < 3; i++)
            GC_pthread_cancel(threads[i]);
        for (int i = 0; i < 3; i++)
            join(threads[i]);
        check_live();
    }
    pthread_t collecting;
    GC_pthread_create(&collecting, 0, collect_on, 0);
    for (int round = 0; round < 20; round++) {
        pthread_t resting[8];
        for (int i = 0; i < 8; i++)
            GC_pthread_create(&resting[i], 0, rest, 0);
        usleep(2000);
        for (int i = 0; i < 8; i++)
            GC_pthread_cancel(resting[i]);
        for (int i = 0; i < 8; i++)
            join(resting[i]);
    }
    over = 1;
    GC_pthread_join(collecting, 0);
    return sound();
}
