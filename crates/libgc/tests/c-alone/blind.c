/* No file can be opened from the start, so /proc does not say where the stack of the first thread is. Objects
that only the stack refers to live all the same, even if the reference lies far above the frame of main. */
#include "sound.h"
#include <sys/resource.h>

static __attribute__((noinline)) void begin(void) {
    char room[40000];
    memset(room, 1, sizeof room);
    __asm__ volatile("" ::"r"(room) : "memory");
    GC_INIT();
}

static void *another(void *argument) {
    struct node *volatile own = tree(10, 5);
    churn(16 << 20);
    if (!is_tree(own, 10, 5))
        fail("what a thread has");
    return argument;
}

int main(void) {
    struct rlimit none = {3, 3};
    if (setrlimit(RLIMIT_NOFILE, &none))
        fail("setrlimit");
    begin();
    struct node *volatile own = tree(12, 9);
    live = tree(DEPTH, 0);
    pthread_t thread;
    if (GC_pthread_create(&thread, 0, another, 0))
        fail("a thread");
    for (int i = 0; i < 6; i++) {
        churn(8 << 20);
        GC_gcollect();
        if (!is_tree(own, 12, 9))
            fail("what the stack refers to");
    }
    GC_pthread_join(thread, 0);
    return sound();
}
