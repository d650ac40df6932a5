/* A thread that waits for the collector's lock gets a signal, and the handler takes the last reference to an
object from static data. From then on the reference is on that thread's stack alone, below the frames that
wait. */
#include "sound.h"
#include <signal.h>

#define SMALL 9

static struct node *volatile shared;
static volatile int waits, taken, collected, ended;

static void on_signal(int signal) {
    struct node *volatile mine = shared;
    shared = 0;
    taken = 1;
    while (!collected)
        usleep(100);
    shared = mine;
    mine = 0;
    taken = 0;
}

static void *allocate(void *argument) {
    while (!ended) {
        waits = 1;
        /* Takes the lock. */
        if (!GC_MALLOC(20000))
            fail("memory");
    }
    return argument;
}

/* The lock is held, so the other thread waits for it sooner or later. */
static void *interrupt(void *thread) {
    usleep(2000);
    collected = 0;
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    while (!taken)
        usleep(100);
    return 0;
}

static __attribute__((noinline)) void share(uint64_t number) { shared = tree(SMALL, number); }

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    static pthread_t thread;
    GC_pthread_create(&thread, 0, allocate, 0);
    while (!waits)
        usleep(100);
    for (uint64_t round = 0; round < 60; round++) {
        share(round << 20);
        GC_call_with_alloc_lock(interrupt, &thread);
        GC_gcollect();
        churn(2 << 20);
        collected = 1;
        while (taken)
            usleep(100);
        if (!is_tree(shared, SMALL, round << 20))
            fail("what a handler held");
    }
    ended = 1;
    GC_pthread_join(thread, 0);
    return sound();
}
