/* Threads that registered themselves are registered until the program's own destructors have run. */
#include "sound.h"
#undef pthread_create
#undef pthread_join

#define THREADS 8

static pthread_key_t key;
static void *kept[THREADS];

static void at_end(void *place) {
    uintptr_t at = (uintptr_t)place - 1;
    struct node *own = tree(8, at + 100);
    GC_gcollect();
    churn(1000);
    if (!is_tree(own, 8, at + 100) || !is_tree(kept[at], 8, at))
        fail("a tree in a destructor");
    if (at % 2)
        GC_unregister_my_thread();
}

static void *work(void *place) {
    struct GC_stack_base base;
    GC_get_stack_base(&base);
    if (GC_register_my_thread(&base) != GC_SUCCESS)
        fail("registering");
    kept[(uintptr_t)place - 1] = tree(8, (uintptr_t)place - 1);
    pthread_setspecific(key, place);
    return 0;
}

int main(void) {
    GC_INIT();
    GC_allow_register_threads();
    live = tree(DEPTH, 0);
    /* This key is made after the collector's own, so that its destructor runs later. */
    pthread_key_create(&key, at_end);
    pthread_t threads[THREADS];
    for (uintptr_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], 0, work, (void *)(at + 1));
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], 0);
    GC_gcollect();
    return sound();
}
