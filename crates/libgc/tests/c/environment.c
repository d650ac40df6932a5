/* Settings by environment variables. */
#include "check.h"

static void *volatile hold[100000];

static long collections_while(size_t bytes) {
    GC_word before = GC_get_gc_no();
    for (int i = 0; i < 100000; i++)
        hold[i % 100] = GC_malloc(bytes);
    return (long)(GC_get_gc_no() - before);
}

static int part(void) {
    GC_INIT();
    printf("  divisor %ld, leak %d, interior %d, disabled %d, full %d, limit %ld, retries %ld, automatic %d, "
           "unmap %d, entire %d\n",
           (long)GC_get_free_space_divisor(), GC_get_find_leak(), GC_get_all_interior_pointers(),
           GC_is_disabled(), GC_get_full_freq(), (long)GC_get_time_limit(), (long)GC_get_max_retries(),
           GC_get_disable_automatic_collection(), GC_get_force_unmap_on_gcollect(), GC_use_entire_heap);
    CHECK(GC_get_heap_size() >= 20 << 20);
    long few = collections_while(100);
    CHECK(few == 0);
    return 0;
}

static void try(const char *name, const char *value) {
    char said[10000];
    setenv(name, value, 1);
    printf("%s=%s\n", name, value);
    fflush(stdout);
    int status = again("part", said, sizeof said);
    printf("  ended with %d, said something: %s\n", status, said[0] ? "yes" : "no");
    unsetenv(name);
}

int main(int count, char **arguments) {
    if (count > 1)
        return part();
    try("NOTHING", "1");
    try("GC_FREE_SPACE_DIVISOR", "5");
    try("GC_FREE_SPACE_DIVISOR", "0");
    try("GC_FREE_SPACE_DIVISOR", "-3");
    try("GC_FREE_SPACE_DIVISOR", "words");
    try("GC_FREE_SPACE_DIVISOR", "7x");
    try("GC_FREE_SPACE_DIVISOR", "7k");
    try("GC_FREE_SPACE_DIVISOR", " +7");
    try("GC_FULL_FREQUENCY", "8");
    try("GC_FULL_FREQUENCY", "9x");
    try("GC_FULL_FREQUENCY", "0");
    try("GC_PAUSE_TIME_TARGET", "0");
    try("GC_PAUSE_TIME_TARGET", "7k");
    try("GC_FULL_FREQUENCY", "-8");
    try("GC_PAUSE_TIME_TARGET", "50");
    try("GC_PAUSE_TIME_TARGET", "3");
    try("GC_ALL_INTERIOR_POINTERS", "1");
    try("GC_DONT_GC", "1");
    try("GC_FIND_LEAK", "");
    try("GC_INITIAL_HEAP_SIZE", "64M");
    try("GC_INITIAL_HEAP_SIZE", "67108864");
    try("GC_INITIAL_HEAP_SIZE", "65536k");
    try("GC_MAXIMUM_HEAP_SIZE", "10g");
    try("GC_FORCE_UNMAP_ON_GCOLLECT", "1");
    try("GC_FORCE_UNMAP_ON_GCOLLECT", "0");
    try("GC_USE_ENTIRE_HEAP", "1");
    try("GC_USE_ENTIRE_HEAP", "0");
    try("GC_PRINT_STATS", "1");
    try("GC_PRINT_VERBOSE_STATS", "1");
    try("GC_MARKERS", "1");
    try("GC_NPROCS", "2");
    try("GC_NO_BLACKLIST_WARNING", "1");
    try("GC_LARGE_ALLOC_WARN_INTERVAL", "3");
    try("GC_UNMAP_THRESHOLD", "0");

    /* The log may be a file. */
    char path[] = "/tmp/plimsoll-libgc-log-XXXXXX", said[1000];
    int file = mkstemp(path);
    setenv("GC_LOG_FILE", path, 1);
    setenv("GC_PRINT_STATS", "1", 1);
    again("part", said, sizeof said);
    CHECK(said[0] == 0);
    CHECK(lseek(file, 0, SEEK_END) > 100);
    close(file);
    unlink(path);
    return 0;
}
