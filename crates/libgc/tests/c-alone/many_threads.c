/* A given number of threads, each with a tree that only its stack refers to. */
#include "sound.h"

static pthread_barrier_t ready, collected;

static void *hold(void *argument) {
    struct node *mine = tree(3, (uintptr_t)argument);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&collected);
    if (!is_tree(mine, 3, (uintptr_t)argument))
        fail("a thread's tree");
    /* All threads run at the same time. */
    mine = tree(4, (uintptr_t)argument);
    if (!is_tree(mine, 4, (uintptr_t)argument))
        fail("a thread's second tree");
    return mine;
}

int main(int count, char **arguments) {
    long wanted = atol(arguments[1]), got = 0;
    GC_INIT();
    live = tree(DEPTH, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_barrier_init(&ready, 0, (unsigned)wanted + 1);
    pthread_barrier_init(&collected, 0, (unsigned)wanted + 1);
    pthread_t *threads = GC_MALLOC_UNCOLLECTABLE((size_t)wanted * sizeof *threads);
    while (got < wanted) {
        int error = GC_pthread_create(&threads[got], &attributes, hold, (void *)got);
        if (error) {
            /* The machine allows no more threads. The process exits without waiting for those that run. */
            printf("%ld of %ld threads: %s\n", got, wanted, strerror(error));
            for (int i = 0; i < 3; i++)
                GC_gcollect();
            return sound();
        }
        got++;
    }
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        churn(4 << 20);
        check_live();
    }
    pthread_barrier_wait(&collected);
    for (long i = 0; i < got; i++) {
        void *result = 0;
        if (GC_pthread_join(threads[i], &result) || !is_tree(result, 4, (uint64_t)i))
            fail("what a thread returned");
    }
    printf("%ld of %ld threads\n", got, wanted);
    return sound();
}
