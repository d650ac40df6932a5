/* A thread ends the process while others collect. The process ends, and its output is written. */
#include "sound.h"

static void *collect(void *argument) {
    struct node *mine = tree(10, (uintptr_t)argument);
    for (;;) {
        GC_gcollect();
        churn(10000);
        if (!is_tree(mine, 10, (uintptr_t)argument))
            fail("a thread's tree");
    }
    return 0;
}

static void *leave(void *argument) {
    usleep((useconds_t)(uintptr_t)argument);
    exit(7);
}

static void *last;

/* An exit handler may use the collector. */
static void on_exit_too(void) {
    last = tree(5, 0);
    GC_gcollect();
    if (!is_tree(last, 5, 0))
        fail("a tree of an exit handler");
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    for (uintptr_t i = 0; i < 40; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (i % 2)
                atexit(on_exit_too);
            pthread_t threads[4];
            for (uintptr_t at = 0; at < 3; at++)
                GC_pthread_create(&threads[at], 0, collect, (void *)at);
            GC_pthread_create(&threads[3], 0, leave, (void *)(1000 + i * 700));
            if (i % 4 == 3)
                pthread_exit(0);
            collect((void *)100);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            fprintf(stderr, "child %d ended with %x\n", (int)i, status);
            fail("a child");
        }
    }
    return sound();
}
