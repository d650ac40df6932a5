/* Large objects that come and go in plenty of memory: their pages are used again, so that there are no more
page faults than the memory that the program has at its largest, a few times over. "z": objects of 64 KiB to
4 MiB, which are zeroed; "p": objects without references of 8 to 32 MiB. */
#include "sound.h"
#include <sys/resource.h>

static struct rusage used(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used;
}

int main(int count, char **arguments) {
    enum { SLOTS = 8 };
    int zeroed = arguments[1][0] == 'z';
    size_t least = zeroed ? 64 << 10 : 8 << 20, most = zeroed ? 4 << 20 : 32 << 20;
    GC_INIT();
    live = tree(DEPTH, 0);
    char **slots = GC_MALLOC(SLOTS * sizeof *slots);
    unsigned seed = 7;
    size_t all = 0, pages = 0;
    for (int i = 0; i < (zeroed ? 1200 : 150); i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t size = least + (size_t)(seed >> 8) % (most - least);
        char *block = zeroed ? GC_MALLOC(size) : GC_MALLOC_ATOMIC(size);
        if (!block)
            fail("no memory");
        for (size_t at = 0; at < size; at += 4096) {
            if (zeroed && block[at])
                fail("a block that is not zero");
            block[at] = 1;
        }
        slots[(seed >> 4) % SLOTS] = block;
        all += size >> 12;
    }
    pages = (size_t)used().ru_maxrss >> 2;
    long faults = used().ru_minflt;
    printf("%ld faults for %zu pages at most, %zu in all\n", faults, pages, all);
    fflush(stdout);
    if ((size_t)faults > 6 * pages)
        fail("memory was given back that was needed again");
    return sound();
}
