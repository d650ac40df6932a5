/* A thread has a hole of uncollectable slots open while another one forks. In the child, those that it did
not hand out are free. And a collection before a table of finalizers grows calls those that are due. */
#include "sound.h"
#include <gc/gc_mark.h>

enum { SIZE = 100 };

static pthread_barrier_t ready;
static void *mine;
static int seen, died;

static void see(void *object, size_t size, void *data) {
    if (size >= SIZE && size < 2 * SIZE)
        seen++;
}

static void *look(void *data) {
    GC_enumerate_reachable_objects_inner(see, data);
    return 0;
}

static void *hold(void *argument) {
    mine = GC_MALLOC_UNCOLLECTABLE(SIZE);
    pthread_barrier_wait(&ready);
    pause();
    return argument;
}

static void forked(void) {
    pthread_t thread;
    pthread_barrier_init(&ready, 0, 2);
    if (GC_pthread_create(&thread, 0, hold, 0))
        fail("a thread");
    pthread_barrier_wait(&ready);
    pid_t child = fork();
    if (child == 0) {
        GC_gcollect();
        GC_call_with_alloc_lock(look, 0);
        if (seen != 1)
            fprintf(stderr, "%d uncollectable objects\n", seen);
        _exit(seen != 1);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the child");
}

static void on_death(void *object, void *data) { died++; }

static void *objects[40000];

static void grown(void) {
    const int all = sizeof objects / sizeof *objects;
    for (int i = 0; i < all; i++)
        objects[i] = GC_MALLOC(16);
    for (int i = 0; i < all; i++) {
        GC_register_finalizer(objects[i], on_death, 0, 0, 0);
        objects[i] = 0;
    }
    if (died == 0)
        fail("no finalizer was called");
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    forked();
    grown();
    return sound();
}
