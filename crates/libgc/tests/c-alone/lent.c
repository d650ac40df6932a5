/* A function that runs with the collector's lock allocates, small objects and large ones, while another
 * thread does so without. Nothing is collected meanwhile. */
#include "sound.h"
#include <stdatomic.h>

enum { MANY = 20000, LARGE = 100000 };

static atomic_int over;

static void *other(void *unused) {
    (void)unused;
    while (!over)
        if (!GC_MALLOC(100))
            fail("no memory");
    return 0;
}

static void *with_the_lock(void *first) {
    void **list = first;
    GC_word before = GC_get_gc_no();
    for (int i = 0; i < MANY; i++) {
        void **one = i % 1000 ? GC_MALLOC(100) : GC_MALLOC(LARGE);
        if (!one)
            fail("no memory with the lock");
        *one = list;
        list = one;
    }
    if (GC_get_gc_no() != before)
        fail("collects with the lock");
    return list;
}

int main(void) {
    pthread_t thread;
    GC_INIT();
    if (GC_pthread_create(&thread, 0, other, 0))
        fail("no thread");
    void **list = 0;
    for (int round = 1; round <= 5; round++) {
        list = GC_call_with_alloc_lock(with_the_lock, list);
        GC_gcollect();
        int count = 0;
        for (void **at = list; at; at = *at)
            count++;
        if (count != round * MANY)
            fail("objects are lost");
    }
    over = 1;
    GC_pthread_join(thread, 0);
    puts("sound");
    return 0;
}
