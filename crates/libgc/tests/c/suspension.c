/* Threads that the program suspends, a world that the program stops, and events about threads. */
#include "check.h"
#include <pthread.h>
#define GC_SUSPEND_THREAD_ID pthread_t
#include <gc/javaxfc.h>

static volatile long steps;
static volatile int stop;

static void *walk(void *argument) {
    void *volatile mine = GC_malloc(100);
    memset(mine, 7, 100);
    while (!stop) {
        steps++;
        GC_malloc(30);
    }
    return is_filled(mine, 7, 100) ? argument : 0;
}

static int moves(void) {
    for (int i = 0; i < 2000; i++) {
        long before = steps;
        usleep(1000);
        if (steps != before)
            return 1;
    }
    return 0;
}

static int stands(void) {
    long before = steps;
    usleep(30000);
    return steps == before;
}

static int suspended_events, resumed_events, other_events, strange_threads;
static pthread_t walker, first;

static void on_thread(GC_EventType event, void *thread) {
    if (event == GC_EVENT_THREAD_SUSPENDED)
        __atomic_add_fetch(&suspended_events, 1, __ATOMIC_SEQ_CST);
    else if (event == GC_EVENT_THREAD_UNSUSPENDED)
        __atomic_add_fetch(&resumed_events, 1, __ATOMIC_SEQ_CST);
    else
        other_events++;
    /* The collecting thread may be either of these two, and then it stops the other one. */
    if ((pthread_t)thread != walker && (pthread_t)thread != first)
        strange_threads++;
}

/* An object that is stored to static data only after a thread was stopped. */
static GC_hidden_pointer hidden;
static char *revealed;

static void hide(void) {
    char *object = GC_malloc(100);
    memset(object, 7, 100);
    hidden = GC_HIDE_POINTER(object);
    revealed = 0;
}

static void reveal(GC_EventType event, void *thread) {
    if (event == GC_EVENT_THREAD_SUSPENDED)
        revealed = GC_REVEAL_POINTER(hidden);
}

static void fill(void) {
    for (int i = 0; i < 100000; i++)
        memset(GC_malloc(100), 0x5a, 100);
}

static void *collector_thread(void *argument) {
    for (int i = 0; i < 5; i++)
        GC_gcollect();
    return 0;
}

static void one_thread(void) {
    CHECK(GC_is_thread_suspended(walker) == 0);
    GC_suspend_thread(walker);
    CHECK(GC_is_thread_suspended(walker) != 0);
    CHECK(stands());
    /* The collector works while a thread is suspended. However often a thread was suspended, one call resumes
    it. */
    for (int i = 0; i < 5; i++)
        collect();
    GC_suspend_thread(walker);
    for (int i = 0; i < 100000; i++)
        GC_malloc(50);
    CHECK(stands());
    pthread_t other;
    GC_pthread_create(&other, 0, collector_thread, 0);
    GC_pthread_join(other, 0);
    CHECK(stands());
    GC_resume_thread(walker);
    CHECK(GC_is_thread_suspended(walker) == 0);
    CHECK(moves());
    GC_resume_thread(walker);
    CHECK(moves());
    for (int i = 0; i < 100; i++) {
        GC_suspend_thread(walker);
        if (i % 10 == 0)
            GC_gcollect();
        GC_resume_thread(walker);
    }
    CHECK(moves());
}

static void the_world(void) {
    GC_stop_world_external();
    int stood = stands();
    GC_start_world_external();
    CHECK(stood);
    CHECK(moves());
    for (int i = 0; i < 50; i++) {
        GC_stop_world_external();
        GC_start_world_external();
    }
    CHECK(moves());
}

static void events(void) {
    GC_set_on_thread_event(on_thread);
    CHECK(GC_get_on_thread_event() == on_thread);
    /* Tried several times, because a thread that waits for the collector's lock need not be stopped. */
    for (int i = 0; i < 1000 && suspended_events < 10; i++) {
        moves();
        GC_gcollect();
    }
    GC_set_on_thread_event(reveal);
    /* No other thread may collect the object. */
    GC_set_disable_automatic_collection(1);
    for (int i = 0; i < 1000 && !revealed; i++) {
        moves();
        below(hide);
        wipe();
        GC_gcollect();
    }
    GC_set_on_thread_event(0);
    CHECK(revealed != 0);
    below(fill);
    CHECK(is_filled(revealed, 7, 100));
    GC_set_disable_automatic_collection(0);
}

int main(void) {
    GC_INIT();
    first = pthread_self();
    CHECK(GC_get_on_thread_event() == 0);
    CHECK(GC_pthread_create(&walker, 0, walk, &suspended_events) == 0);
    CHECK(moves());
    one_thread();
    the_world();
    events();
    stop = 1;
    void *result;
    CHECK(GC_pthread_join(walker, &result) == 0 && result == &suspended_events);
    CHECK(suspended_events >= 10);
    CHECK(suspended_events - resumed_events <= 1 && resumed_events - suspended_events <= 1);
    CHECK(other_events == 0);
    CHECK(strange_threads == 0);
    CHECK(GC_is_thread_suspended(pthread_self()) == 0);
    return 0;
}
