/* Forks inside callbacks and finalizers, and in a program whose other threads collect. Parent and child go
on. */
#include "sound.h"
#include <gc/gc_mark.h>

static int children, failed, forking = 1;

static void fork_once(void) {
    if (!forking)
        return;
    forking = 0;
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0)
        return;
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "a child ended with %x\n", status);
        failed++;
    }
    children++;
}

static void on_event(GC_EventType event) {
    static int left = 0;
    if (left-- == 0) {
        fork_once();
        left = 12;
    }
}

static void on_resize(GC_word bytes) { fork_once(); }
static void on_death(void *object, void *data) { fork_once(); }
static void *on_no_memory(size_t bytes) {
    fork_once();
    return 0;
}
static void on_warning(char *message, GC_word value) { fork_once(); }
static void on_start(void) { fork_once(); }

static void work(void) {
    for (int i = 0; i < 3; i++) {
        churn(3 << 20);
        GC_gcollect();
        check_live();
    }
}

/* After a fork in a callback, parent and child go on. */
static void part(int which) {
    pid_t self = getpid();
    forking = 1;
    switch (which) {
    case 0:
        GC_set_on_collection_event(on_event);
        break;
    case 1:
        GC_set_on_heap_resize(on_resize);
        break;
    case 2:
        for (int i = 0; i < 100; i++)
            GC_register_finalizer(GC_MALLOC(40), on_death, 0, 0, 0);
        break;
    case 3:
        GC_set_oom_fn(on_no_memory);
        if (GC_MALLOC((size_t)1 << 60))
            fail("a large object");
        break;
    case 4:
        GC_set_warn_proc(on_warning);
        GC_FREE((void *)16);
        break;
    default:
        GC_set_start_callback(on_start);
    }
    if (which == 1) {
        if (!GC_expand_hp(8 << 20))
            fail("no more heap");
    }
    work();
    if (getpid() != self)
        _exit(forking ? 2 : 0);
    if (forking)
        fail("a callback was not called");
}

static volatile int stop;

static void *busy(void *argument) {
    struct node *mine = tree(8, (uintptr_t)argument);
    while (!stop) {
        churn(100000);
        if (argument)
            GC_gcollect();
        if (!is_tree(mine, 8, (uintptr_t)argument))
            fail("a thread's tree");
    }
    return 0;
}

static void with_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        if (GC_pthread_create(&threads[i], 0, busy, (void *)i))
            fail("a thread");
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            work();
            _exit(0);
        }
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "a child of many threads ended with %x\n", status);
            failed++;
        }
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        GC_pthread_join(threads[i], 0);
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    for (int which = 0; which < 6; which++) {
        /* Each part runs in a process of its own, because callbacks cannot be unregistered. */
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            failed = 0;
            part(which);
            if (children != 1)
                fprintf(stderr, "%d children\n", children);
            _exit(failed || children != 1);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) {
            fprintf(stderr, "part %d ended with %x\n", which, status);
            failed++;
        }
    }
    with_threads();
    if (failed)
        fail("children");
    return sound();
}
