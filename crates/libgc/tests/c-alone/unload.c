/* The library that needed the collector is unloaded while threads still run that used the collector. */
#include "sound.h"
#include <dlfcn.h>

static void *use(void *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(dlerror());
    void (*init)(void) = (void (*)(void))dlsym(library, "GC_init");
    void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "GC_malloc");
    void (*collect)(void) = (void (*)(void))dlsym(library, "GC_gcollect");
    init();
    for (int i = 0; i < 100000; i++)
        if (!allocate(50))
            fail("no memory");
    collect();
    dlclose(library);
    return 0;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, use, "libgc.so.1") || pthread_join(thread, 0))
        fail("a thread");
    puts("sound");
    return 0;
}
