/* The bytes of uncollectable objects are counted exactly, by one thread and by several, some of which the
 * collector is told of only when they run, and which free what others allocated. */
#include "sound.h"

enum { THREADS = 4, OBJECTS = 20000 };

static void *objects[THREADS][OBJECTS];
static pthread_barrier_t all;

static size_t size(int i) { return 1 + (size_t)i * 37 % 700; }

static void allocate(int who) {
    for (int i = 0; i < OBJECTS; i++)
        if (!(objects[who][i] = GC_MALLOC_UNCOLLECTABLE(size(i))))
            fail("no memory");
}

static void release(int who) {
    for (int i = 0; i < OBJECTS; i++)
        GC_FREE(objects[who][i]);
}

static void work(int who) {
    allocate(who);
    pthread_barrier_wait(&all);
    release((who + 1) % THREADS);
}

static void *created(void *who) {
    work((int)(size_t)who);
    return 0;
}


static void *registered(void *who) {
    struct GC_stack_base base;
    if (GC_get_stack_base(&base) || GC_register_my_thread(&base))
        fail("cannot be registered");
    work((int)(size_t)who);
    GC_unregister_my_thread();
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    GC_INIT();
    GC_word begin = GC_get_non_gc_bytes();
    allocate(0);
    GC_word one = GC_get_non_gc_bytes() - begin;
    size_t sum = 0;
    for (int i = 0; i < OBJECTS; i++)
        sum += GC_size(objects[0][i]);
    if (one != sum)
        fail("one thread's objects are not counted");
    release(0);
    if (GC_get_non_gc_bytes() != begin)
        fail("what one thread freed is still counted");
    pthread_barrier_init(&all, 0, THREADS);
    GC_allow_register_threads();
    for (size_t who = 0; who < THREADS; who++)
        if (who % 2 ? GC_pthread_create(&threads[who], 0, created, (void *)who)
                    : pthread_create(&threads[who], 0, registered, (void *)who))
            fail("no thread");
    for (size_t who = 0; who < THREADS; who++)
        who % 2 ? GC_pthread_join(threads[who], 0) : pthread_join(threads[who], 0);
    if (GC_get_non_gc_bytes() != begin)
        fail("the count of several threads is wrong");
    puts("sound");
    return 0;
}
