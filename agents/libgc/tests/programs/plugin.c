/* Loads libgc late and for itself only, as a plug-in does, never calls GC_init, and makes garbage. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void *(*allocate)(size_t);
typedef size_t (*tell)(void);
int main(int argc, char **argv)
{
    void *library = dlopen("libgc.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || argc < 2) return 2;
    allocate malloc_gc = (allocate)dlsym(library, "GC_malloc");
    tell collections = (tell)dlsym(library, "GC_get_gc_no");
    if (malloc_gc == NULL || collections == NULL) return 3;
    for (long i = 0; i < atol(argv[1]); i++)
        memset(malloc_gc(1000), 1, 1000);
    printf("{\"collections\":%zu}\n", collections());
    return 0;
}
