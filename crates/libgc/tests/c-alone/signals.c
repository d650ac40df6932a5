/* Signals at a high rate while collections stop and start the threads. Handlers read objects, on the thread's
stack and on an alternate one, and interrupted calls go on. */
#include "sound.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t handled, wrong;
static __thread struct node *mine;

static void on_signal(int signal) {
    handled++;
    if (!is_tree(live->left, DEPTH - 1, 0) || (mine && !is_tree(mine, 6, mine->number - 62)))
        wrong = 1;
}

static volatile int stop;

static void *work(void *argument) {
    mine = tree(6, (uintptr_t)argument);
    struct node *held = mine;
    for (long rounds = 0; !stop || rounds < 20; rounds++) {
        churn(300000);
        if (rounds % 8 == 0)
            GC_gcollect();
    }
    mine = 0;
    if (!is_tree(held, 6, (uintptr_t)argument))
        fail("a thread's tree");
    return 0;
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGVTALRM, &action, 0);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGPROF, &action, 0);
    /* libgc has to be told of alternate stacks. */
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &start, &bytes);
    GC_register_altstack(start, bytes, stack.ss_sp, stack.ss_size);
    sigaltstack(&stack, 0);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        GC_pthread_create(&threads[i], 0, work, (void *)(i * 1000));
    struct itimerval often = {{0, 3100}, {0, 3100}};
    setitimer(ITIMER_REAL, &often, 0);
    setitimer(ITIMER_VIRTUAL, &often, 0);
    setitimer(ITIMER_PROF, &often, 0);
    for (int i = 0; i < 60; i++) {
        churn(500000);
        GC_gcollect();
        check_live();
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        GC_pthread_join(threads[i], 0);
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, 0);
    setitimer(ITIMER_VIRTUAL, &often, 0);
    setitimer(ITIMER_PROF, &often, 0);
    if (wrong || handled < 20)
        fail("what handlers read");
    return sound();
}
