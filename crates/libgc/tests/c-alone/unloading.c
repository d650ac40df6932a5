/* Libraries are loaded and unloaded while other threads collect. Objects that a library refers to live, even
if it was loaded during a collection, and a library that is gone is not read. A given number of threads load
and unload: registered, not registered, in a blocking region, or with the suspend signal blocked while they
are in the loader. */
#include "sound.h"
#include <dlfcn.h>
#include <signal.h>

#define SMALL 4
#define ROUNDS 60
#define LEAST 20

static const char *directory;
static volatile int left;

struct plugin {
    void *library;
    void **slots;
    char *room;
};

static struct plugin load(uintptr_t number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/plugin-%d.so", directory, (int)number);
    struct plugin plugin = {dlopen(path, RTLD_NOW | RTLD_LOCAL), 0, 0};
    if (!plugin.library)
        fail(dlerror());
    plugin.slots = dlsym(plugin.library, "slots");
    plugin.room = dlsym(plugin.library, "room");
    return plugin;
}

static void unload(struct plugin *plugin) {
    if (dlclose(plugin->library))
        fail(dlerror());
}

static __attribute__((noinline)) void fill(void **slots, uint64_t number) {
    for (int i = 0; i < 4; i++)
        slots[i] = tree(SMALL, number + i * 100);
}

static __attribute__((noinline)) void clear_stack(void) {
    volatile char room[8000];
    memset((char *)room, 0, sizeof room);
}

static void *registered(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct plugin plugin = load(number);
        /* From here on only the library refers to the new trees. */
        fill(plugin.slots, number << 20 | round << 10);
        clear_stack();
        for (int i = 0; i < 3; i++)
            GC_MALLOC(20000);
        for (int i = 0; i < 4; i++)
            if (!is_tree(plugin.slots[i], SMALL, (number << 20 | round << 10) + i * 100))
                fail("what a library refers to");
        unload(&plugin);
    }
    __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *unregistered(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        struct plugin plugin = load((uintptr_t)argument);
        plugin.room[round * 997] = 1;
        unload(&plugin);
    }
    __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *blocking(void *argument) { return GC_do_blocking(unregistered, argument); }

static void *unwilling(void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    for (int round = 0; round < ROUNDS / 4; round++) {
        pthread_sigmask(SIG_BLOCK, &all, &before);
        struct plugin plugin = load((uintptr_t)argument);
        unload(&plugin);
        pthread_sigmask(SIG_SETMASK, &before, 0);
        usleep(1000);
    }
    __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void *work(void *argument) {
    for (long round = 0; left > 0; round++) {
        struct node *mine = tree(8, (uintptr_t)argument);
        churn(200000);
        if (round % 4 == 0)
            GC_gcollect();
        if (!is_tree(mine, 8, (uintptr_t)argument))
            fail("a thread's tree");
    }
    return argument;
}

int main(int count, char **arguments) {
    if (count < 4)
        return 2;
    directory = arguments[1];
    const char *who = arguments[2];
    int threads = atoi(arguments[3]);
    GC_INIT();
    live = tree(DEPTH, 0);
    left = threads;
    pthread_t loaders[64], workers[2];
    for (intptr_t i = 0; i < threads; i++) {
        void *(*kinds[])(void *) = {registered, unregistered, blocking, unwilling};
        const char *names[] = {"registered", "unregistered", "blocking", "unwilling"};
        int kind = (int)(i % 4);
        for (int at = 0; at < 4; at++)
            if (!strcmp(who, names[at]))
                kind = at;
        if (kind == 1 ? pthread_create(&loaders[i], 0, kinds[kind], (void *)i)
                      : GC_pthread_create(&loaders[i], 0, kinds[kind], (void *)i))
            fail("a thread");
    }
    for (uintptr_t i = 0; i < 2; i++)
        GC_pthread_create(&workers[i], 0, work, (void *)(i << 32));
    for (int i = 0; i < threads; i++)
        pthread_join(loaders[i], 0);
    for (int i = 0; i < 2; i++)
        GC_pthread_join(workers[i], 0);
    printf("%ld collections\n", (long)GC_get_gc_no());
    while (GC_get_gc_no() < LEAST)
        GC_gcollect();
    return sound();
}
