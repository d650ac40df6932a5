/* A thread that collections do not stop unloads libraries, and the C library frees its records of them while
it holds the loader's lock. The program's allocator has a lock too, which another thread holds nearly all the
time, so most collections stop that thread while it holds it. A collector that then waited for the loader's
lock would wait for ever. With "many", static data refers to more objects than the collector had set room
aside for. With "unwilling", a third thread takes the loader's lock with the suspend signal blocked, so that
all threads are stopped only once that lock is free again. */
#include "sound.h"
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <signal.h>

#define WAITS 30
#define LEAST 20
#define MANY 70000

extern void __libc_free(void *);

static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;
static const char *directory;
static volatile int held, waited, ended;
static __thread int unloads;
static struct node *table[MANY];

static int is_done(void) { return waited >= WAITS; }

/* Takes the place of the C library's function, for the loader too. */
void free(void *place) {
    if (unloads) {
        if (pthread_mutex_trylock(&allocator)) {
            waited++;
            pthread_mutex_lock(&allocator);
        }
        pthread_mutex_unlock(&allocator);
    }
    __libc_free(place);
}

static void *unloader(void *argument) {
    char path[4096];
    snprintf(path, sizeof path, "%s/plugin-0.so", directory);
    while (!is_done()) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail(dlerror());
        while (!held)
            sched_yield();
        unloads = 1;
        if (dlclose(library))
            fail(dlerror());
        unloads = 0;
    }
    return argument;
}

static void *blocking(void *argument) { return GC_do_blocking(unloader, argument); }

static int first(struct dl_phdr_info *object, size_t size, void *argument) {
    return object->dlpi_phnum > 0 && size > 0 && !argument;
}

static void *unwilling(void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    while (!is_done()) {
        pthread_sigmask(SIG_BLOCK, &all, &before);
        for (int i = 0; i < 10; i++)
            dl_iterate_phdr(first, 0);
        pthread_sigmask(SIG_SETMASK, &before, 0);
        usleep(200);
    }
    return argument;
}

static void *allocates(void *argument) {
    while (!ended) {
        pthread_mutex_lock(&allocator);
        held = 1;
        for (volatile int i = 0; i < 200000; i++)
            ;
        held = 0;
        pthread_mutex_unlock(&allocator);
        /* So that a thread that waits for the lock gets it now and then. */
        usleep(50);
    }
    return argument;
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    directory = arguments[1];
    int is_blocking = !strcmp(arguments[2], "blocking");
    int is_unwilling = !strcmp(arguments[2], "unwilling");
    GC_INIT();
    live = tree(DEPTH, 0);
    if (!strcmp(arguments[count - 1], "many"))
        for (int i = 0; i < MANY; i++)
            table[i] = node(i, 0, 0);
    pthread_t holder, loader, other;
    if (GC_pthread_create(&holder, 0, allocates, 0) ||
        (is_blocking ? GC_pthread_create(&loader, 0, blocking, 0)
                     : pthread_create(&loader, 0, unloader, 0)) ||
        (is_unwilling && GC_pthread_create(&other, 0, unwilling, 0)))
        fail("a thread");
    while (!is_done() || GC_get_gc_no() < LEAST)
        GC_gcollect();
    ended = 1;
    if (is_blocking)
        GC_pthread_join(loader, 0);
    else
        pthread_join(loader, 0);
    GC_pthread_join(holder, 0);
    if (is_unwilling)
        GC_pthread_join(other, 0);
    for (int i = 0; i < MANY && table[0]; i++)
        if (!is_tree(table[i], 1, i))
            fail("what the table refers to");
    printf("%ld collections\n", (long)GC_get_gc_no());
    return sound();
}
