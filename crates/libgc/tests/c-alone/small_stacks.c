/* Threads with stacks of a given size in KiB. Whole collections run on the stack of the thread that
allocates. */
#include "sound.h"

static size_t rounds, bytes;

static void *work(void *argument) {
    for (size_t round = 0; round < rounds; round++) {
        struct node *mine = tree(6, (uintptr_t)argument);
        churn(bytes);
        GC_FREE(GC_MALLOC(5000));
        if (round % 4 == 0)
            GC_gcollect();
        if (!is_tree(mine, 6, (uintptr_t)argument))
            fail("a thread's tree");
    }
    return 0;
}

/* A thread that is not registered. Collections are disabled while it allocates, because such a thread may not
collect. */
static void *stranger(void *argument) {
    GC_disable();
    for (int i = 0; i < 100; i++)
        GC_FREE(GC_MALLOC(100));
    GC_enable();
    return argument;
}

int main(int count, char **arguments) {
    GC_INIT();
    live = tree(DEPTH, 0);
    rounds = strtoul(arguments[2], 0, 10);
    bytes = strtoul(arguments[3], 0, 10);
    /* Large enough that there are collections of young objects and incremental ones. */
    struct node *more = tree(17, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, strtoul(arguments[1], 0, 10) << 10))
        fail("the size of a stack");
    pthread_t threads[3], other;
    for (uintptr_t i = 0; i < 3; i++)
        if (GC_pthread_create(&threads[i], &attributes, work, (void *)(i << 20)))
            fail("a thread");
    if (pthread_create(&other, &attributes, stranger, 0))
        fail("another thread");
    pthread_join(other, 0);
    for (int i = 0; i < 3; i++)
        GC_pthread_join(threads[i], 0);
    if (!is_tree(more, 17, 0))
        fail("the larger tree");
    return sound();
}
