/* A program of 30 MB under a limit on addresses: a live tree, garbage, blocks of malloc, threads with stacks
of their own. The limit is set before the collector is made ("b") or after ("a"), in MB; "u": there is none,
and the collector may take few addresses. */
#include "sound.h"
#include <sys/resource.h>

/* Bytes of addresses that the process has. */
static size_t addresses(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu", &pages) != 1)
        fail("statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *in_thread(void *argument) {
    struct node *mine = tree(8, 5);
    churn(8 << 20);
    if (!is_tree(mine, 8, 5))
        fail("a thread's tree");
    return 0;
}

int main(int count, char **arguments) {
    char what = arguments[1][0];
    rlim_t most = (rlim_t)atol(arguments[1] + 1) << 20;
    struct rlimit limit = {most, most};
    size_t before = addresses();
    if (what == 'b' && setrlimit(RLIMIT_AS, &limit))
        fail("setrlimit");
    GC_INIT();
    live = tree(DEPTH, 0);
    if (what == 'a' && setrlimit(RLIMIT_AS, &limit))
        fail("setrlimit");
    churn(40 << 20);
    for (int i = 0; i < 6; i++) {
        char *block = malloc(2 << 20);
        if (!block)
            fail("no memory for malloc");
        memset(block, 1, 2 << 20);
    }
    pthread_t threads[2];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (int i = 0; i < 2; i++)
        if (GC_pthread_create(&threads[i], &attributes, in_thread, 0))
            fail("no thread");
    for (int i = 0; i < 2; i++)
        GC_pthread_join(threads[i], 0);
    GC_gcollect();
    size_t taken = addresses() - before;
    printf("%zu MB of addresses\n", taken >> 20);
    if (what == 'b' && taken > (48 << 20))
        fail("more addresses than such a program needs");
    return sound();
}
