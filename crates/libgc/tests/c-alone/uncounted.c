/* Suspend signals that belong to no collection are sent to threads that wait for the lock or block. Their
answers must not count for other threads: while one thread cannot be stopped, the collector must not take the
world for stopped. */
#include "sound.h"
#include <signal.h>
#include <time.h>

static volatile long stops;
static volatile int stop, refused;

static void on_event(GC_EventType event) {
    if (event == GC_EVENT_POST_STOP_WORLD)
        stops++;
}

static void *rest(void *argument) {
    usleep(20);
    return argument;
}

static void *work(void *argument) {
    for (long rounds = 0; !stop; rounds++) {
        /* Each takes the lock. */
        if (!GC_MALLOC(20000))
            fail("memory");
        if (rounds % 10 == 0)
            GC_do_blocking(rest, 0);
        if (rounds % 50 == 0)
            GC_gcollect();
    }
    return argument;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void *refuse(void *argument) {
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, GC_get_suspend_signal());
    for (int i = 0; i < 300; i++) {
        pthread_sigmask(SIG_BLOCK, &set, &before);
        const long seen = stops;
        const double start = now();
        while (now() < start + 0.002)
            ;
        if (stops != seen)
            fail("a collection did not wait for a thread");
        pthread_sigmask(SIG_SETMASK, &before, 0);
    }
    refused = 1;
    return argument;
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    GC_set_on_collection_event(on_event);
    pthread_t workers[3], refusing;
    for (int i = 0; i < 3; i++)
        GC_pthread_create(&workers[i], 0, work, 0);
    GC_pthread_create(&refusing, 0, refuse, 0);
    while (!refused) {
        for (int i = 0; i < 3; i++)
            pthread_kill(workers[i], GC_get_suspend_signal());
        usleep(20);
    }
    GC_pthread_join(refusing, 0);
    stop = 1;
    for (int i = 0; i < 3; i++)
        GC_pthread_join(workers[i], 0);
    if (stops < 50)
        fail("collections");
    check_live();
    return sound();
}
