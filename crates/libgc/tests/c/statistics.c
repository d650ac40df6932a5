/* Statistics. Their values may differ between collectors; the relations between them may not. */
#include "check.h"
#include <gc/gc_mark.h>

static void *volatile hold[2000];

static void fill(size_t bytes) {
    for (int i = 0; i < 2000; i++)
        hold[i] = GC_malloc(bytes);
}

static struct GC_prof_stats_s now(void) {
    struct GC_prof_stats_s stats;
    memset(&stats, 0, sizeof stats);
    if (GC_get_prof_stats(&stats, sizeof stats) != sizeof stats)
        abort();
    return stats;
}

struct larger {
    struct GC_prof_stats_s known;
    GC_word unknown[2];
};

static void *under_lock(void *place) {
    return (void *)GC_get_prof_stats_unsafe(place, sizeof(struct GC_prof_stats_s));
}

static void sums(void) {
    size_t total = GC_get_total_bytes();
    fill(1000);
    CHECK(GC_get_total_bytes() >= total + 2000 * 1000);
    CHECK(GC_get_heap_size() >= 2000 * 1000);
    CHECK(GC_get_heap_size() <= GC_get_obtained_from_os_bytes());
    CHECK(GC_get_free_bytes() <= GC_get_heap_size());
    CHECK(GC_get_heap_size() - GC_get_free_bytes() >= 2000 * 1000);
    CHECK(GC_get_bytes_since_gc() <= GC_get_total_bytes());
    /* The two libraries count different things here, so the value is not compared. */
    GC_get_memory_use();
    total = GC_get_total_bytes();
    GC_gcollect();
    CHECK(GC_get_total_bytes() >= total);
    CHECK(GC_get_bytes_since_gc() < 100000);
    GC_malloc(500000);
    CHECK(GC_get_bytes_since_gc() >= 500000);
}

static void usage(void) {
    GC_word heap = 1, free = 1, unmapped = 1, since = 1, all = 1;
    GC_get_heap_usage_safe(&heap, &free, &unmapped, &since, &all);
    CHECK(heap == GC_get_heap_size() && free == GC_get_free_bytes() && unmapped == GC_get_unmapped_bytes());
    CHECK(since == GC_get_bytes_since_gc() && all == GC_get_total_bytes());
    GC_get_heap_usage_safe(0, 0, 0, 0, 0);
    GC_get_heap_usage_safe(&heap, 0, 0, 0, &all);
}

static void all_at_once(void) {
    struct GC_prof_stats_s stats = now();
    CHECK(stats.heapsize_full == GC_get_heap_size() + GC_get_unmapped_bytes());
    CHECK(stats.free_bytes_full == GC_get_free_bytes() + GC_get_unmapped_bytes());
    CHECK(stats.unmapped_bytes == GC_get_unmapped_bytes());
    CHECK(stats.bytes_allocd_since_gc == GC_get_bytes_since_gc());
    CHECK(stats.allocd_bytes_before_gc == GC_get_total_bytes() - GC_get_bytes_since_gc());
    CHECK(stats.non_gc_bytes == GC_get_non_gc_bytes());
    CHECK(stats.gc_no == GC_get_gc_no());
    CHECK(stats.markers_m1 == (GC_word)GC_get_parallel());
    CHECK(stats.expl_freed_bytes_since_gc == GC_get_expl_freed_bytes_since_gc());
    CHECK(stats.obtained_from_os_bytes == GC_get_obtained_from_os_bytes());
    struct larger larger;
    memset(&larger, 0, sizeof larger);
    CHECK(GC_get_prof_stats(&larger.known, sizeof larger) == sizeof(struct GC_prof_stats_s));
    CHECK(larger.unknown[0] == (GC_word)-1 && larger.unknown[1] == (GC_word)-1);
    memset(&stats, 0, sizeof stats);
    CHECK(GC_get_prof_stats(&stats, 2 * sizeof(GC_word)) == 2 * sizeof(GC_word));
    CHECK(stats.heapsize_full != 0 && stats.gc_no == 0);
    CHECK(GC_call_with_alloc_lock(under_lock, &stats) == (void *)sizeof stats);
    CHECK(stats.gc_no == GC_get_gc_no());
}

/* Dead objects count as reclaimed. */
static void reclaiming(void) {
    struct GC_prof_stats_s stats = now();
    GC_word reclaimed = stats.reclaimed_bytes_before_gc + stats.bytes_reclaimed_since_gc;
    memset((void *)hold, 0, sizeof hold);
    fill(2000);
    collect();
    memset((void *)hold, 0, sizeof hold);
    collect();
    fill(2000);
    collect();
    stats = now();
    CHECK(stats.reclaimed_bytes_before_gc + stats.bytes_reclaimed_since_gc >= reclaimed + 2000 * 1000);
}

/* Bytes that the program freed. */
static void freeing(void) {
    GC_gcollect();
    size_t before = GC_get_expl_freed_bytes_since_gc();
    for (int i = 0; i < 1000; i++)
        GC_free(hold[i]);
    CHECK(GC_get_expl_freed_bytes_since_gc() >= before + 1000 * 2000);
    memset((void *)hold, 0, sizeof hold);
    GC_gcollect();
    CHECK(GC_get_expl_freed_bytes_since_gc() < 1000);
}

/* Bytes that are never collected. */
static void uncollectable(void) {
    GC_word none = GC_get_non_gc_bytes();
    for (int i = 0; i < 200; i++)
        hold[i] = i % 2 ? GC_malloc_uncollectable(100) : GC_malloc_atomic_uncollectable(100);
    GC_word some = GC_get_non_gc_bytes();
    CHECK(some >= none + 180 * 100);
    CHECK(GC_non_gc_bytes == GC_get_non_gc_bytes());
    for (int i = 0; i < 200; i++)
        GC_free(hold[i]);
    CHECK(some - GC_get_non_gc_bytes() >= 180 * 100);

    for (int i = 0; i < 200; i++)
        hold[i] = GC_malloc_uncollectable(100);
    for (int i = 0; i < 200; i++)
        hold[i] = GC_realloc(hold[i], 1000);
    none = GC_get_non_gc_bytes();
    for (int i = 0; i < 200; i++)
        GC_free(hold[i]);
    CHECK(none - GC_get_non_gc_bytes() >= 180 * 1000);
}

/* The text of reports may differ between collectors. This only checks that there are reports. */
static void reports(void) {
    fflush(stdout);
    int out = dup(1), errors = dup(2);
    int file = open("/dev/null", O_WRONLY);
    dup2(file, 1);
    dup2(file, 2);
    GC_dump();
    GC_dump_named("a name");
    GC_dump_named(0);
    GC_dump_regions();
    GC_dump_finalization();
    dup2(out, 1);
    dup2(errors, 2);
}

int main(void) {
    GC_INIT();
    GC_start_performance_measurement();
    sums();
    usage();
    all_at_once();
    reclaiming();
    freeing();
    uncollectable();

    size_t obtained = GC_get_obtained_from_os_bytes();
    GC_gcollect_and_unmap();
    CHECK(GC_get_obtained_from_os_bytes() >= obtained);
    fill(100000);
    unsigned long time = GC_get_full_gc_total_time();
    for (int i = 0; i < 5; i++)
        GC_gcollect();
    CHECK(GC_get_full_gc_total_time() >= time);

    reports();
    return 0;
}
