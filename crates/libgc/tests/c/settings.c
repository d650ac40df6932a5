/* Every setting: its default, and that reading it returns what was written. */
#include "check.h"
#include <gc/gc_mark.h>
#include <signal.h>

#define DEFAULT(name) printf("GC_get_" #name " = %ld\n", (long)GC_get_##name())
#define ROUND(name, value)                                                                                   \
    do {                                                                                                     \
        __typeof__(GC_get_##name()) before = GC_get_##name();                                                \
        GC_set_##name(value);                                                                                \
        printf("GC_set_" #name "(" #value "): %ld\n", (long)GC_get_##name());                                \
        GC_set_##name(before);                                                                               \
        if (GC_get_##name() != before)                                                                       \
            printf("  not set back\n");                                                                      \
    } while (0)

static void all(const char *when) {
    printf("%s\n", when);
    DEFAULT(find_leak);
    DEFAULT(all_interior_pointers);
    DEFAULT(finalize_on_demand);
    DEFAULT(java_finalization);
    DEFAULT(dont_expand);
    DEFAULT(full_freq);
    DEFAULT(non_gc_bytes);
    DEFAULT(no_dls);
    DEFAULT(free_space_divisor);
    DEFAULT(max_retries);
    DEFAULT(dont_precollect);
    DEFAULT(time_limit);
    DEFAULT(allocd_bytes_per_finalizer);
    DEFAULT(min_bytes_allocd);
    DEFAULT(rate);
    DEFAULT(max_prior_attempts);
    DEFAULT(disable_automatic_collection);
    DEFAULT(manual_vdb_allowed);
    DEFAULT(force_unmap_on_gcollect);
    DEFAULT(pages_executable);
    DEFAULT(suspend_signal);
    DEFAULT(thr_restart_signal);
    struct GC_timeval_s limit = GC_get_time_limit_tv();
    printf("%lu %lu\n", limit.tv_ms, limit.tv_nsec);
    CHECK(GC_get_on_heap_resize() == 0);
    CHECK(GC_get_finalizer_notifier() == 0);
    CHECK(GC_get_on_collection_event() == 0);
    CHECK(GC_get_on_thread_event() == 0);
    CHECK(GC_get_start_callback() == 0);
    CHECK(GC_get_toggleref_func() == 0);
    CHECK(GC_get_await_finalize_proc() == 0);
    CHECK(GC_get_stop_func() != 0);
    CHECK(GC_get_oom_fn() != 0);
    CHECK(GC_get_abort_func() != 0);
    CHECK(GC_get_warn_proc() != 0);
    SHOW(GC_is_incremental_mode());
    SHOW(GC_is_disabled());
}

static void variables(void) {
    SHOW(GC_find_leak);
    SHOW(GC_all_interior_pointers);
    SHOW(GC_finalize_on_demand);
    SHOW(GC_java_finalization);
    SHOW(GC_dont_expand);
    SHOW(GC_use_entire_heap);
    SHOW(GC_full_freq);
    SHOW(GC_non_gc_bytes);
    SHOW(GC_no_dls);
    SHOW(GC_free_space_divisor);
    SHOW(GC_max_retries);
    SHOW(GC_dont_precollect);
    SHOW(GC_time_limit);
    SHOW(GC_dont_gc);
    CHECK(GC_stackbottom != 0);
    CHECK(GC_parallel == GC_get_parallel());
    CHECK(GC_on_heap_resize == 0);
    CHECK(GC_finalizer_notifier == 0);
    CHECK(GC_oom_fn == GC_get_oom_fn());
}

static void notify(void) {}

/* Settings that are made before the collector is initialised. */
static int early(void) {
    GC_set_suspend_signal(SIGUSR1);
    GC_set_thr_restart_signal(SIGUSR2);
    CHECK(GC_get_suspend_signal() == SIGUSR1 && GC_get_thr_restart_signal() == SIGUSR2);
    GC_set_pages_executable(1);
    GC_set_dont_precollect(1);
    GC_set_all_interior_pointers(0);
    GC_set_markers_count(1);
    GC_set_finalize_on_demand(1);
    GC_INIT();
    raise(SIGUSR2);
    CHECK(GC_get_suspend_signal() == SIGUSR1 && GC_get_thr_restart_signal() == SIGUSR2);
    CHECK(GC_get_pages_executable() == 1);
    CHECK(GC_get_all_interior_pointers() == 0);
    /* Without the extra byte that lets pointers refer to the end of an object. */
    CHECK(GC_size(GC_malloc(16)) == 16);
    CHECK(GC_size(GC_malloc(64)) == 64);
    CHECK(GC_get_size_map_at(16) == 16);
#ifdef __x86_64__
    unsigned char *code = GC_malloc(4096);
    static const unsigned char returns_seven[] = {0xb8, 7, 0, 0, 0, 0xc3};
    memcpy(code, returns_seven, sizeof returns_seven);
    __asm__ volatile("" : "+r"(code) : : "memory");
    SHOW(((int (*)(void))(uintptr_t)code)());
    code = GC_malloc(400000);
    memcpy(code, returns_seven, sizeof returns_seven);
    __asm__ volatile("" : "+r"(code) : : "memory");
    SHOW(((int (*)(void))(uintptr_t)code)());
#endif
    GC_gcollect();
    CHECK(GC_get_parallel() == 0);
    return 0;
}

static void rounds(void) {
    ROUND(finalize_on_demand, 1);
    ROUND(java_finalization, 0);
    ROUND(dont_expand, 1);
    ROUND(full_freq, 5);
    ROUND(non_gc_bytes, 12345);
    ROUND(no_dls, 1);
    ROUND(free_space_divisor, 7);
    ROUND(max_retries, 4);
    ROUND(dont_precollect, 1);
    ROUND(time_limit, 33);
    ROUND(allocd_bytes_per_finalizer, 999);
    ROUND(min_bytes_allocd, 4096);
    ROUND(rate, 20);
    ROUND(max_prior_attempts, 6);
    ROUND(disable_automatic_collection, 1);
    ROUND(manual_vdb_allowed, 1);
    ROUND(force_unmap_on_gcollect, 1);
    ROUND(all_interior_pointers, 0);
}

static void two_ways(void) {
    struct GC_timeval_s limit = {44, 55};
    GC_set_time_limit_tv(limit);
    SHOW(GC_get_time_limit());
    GC_set_time_limit(66);
    limit = GC_get_time_limit_tv();
    printf("%lu %lu\n", limit.tv_ms, limit.tv_nsec);
    GC_set_time_limit(GC_TIME_UNLIMITED);
    /* The variable and the functions access the same setting. */
    GC_free_space_divisor = 9;
    SHOW(GC_get_free_space_divisor());
    GC_set_max_retries(3);
    SHOW(GC_max_retries);
    GC_max_retries = 0;
    GC_finalizer_notifier = notify;
    CHECK(GC_get_finalizer_notifier() == notify);
    GC_set_finalizer_notifier(0);
    CHECK(GC_finalizer_notifier == 0);
}

int main(int count, char **arguments) {
    if (count > 1)
        return early();
    all("before");
    GC_INIT();
    all("after");
    raise(SIGXCPU);
    variables();
    rounds();
    two_ways();
    /* After initialisation it is too late to change it. */
    int signal = GC_get_suspend_signal();
    GC_set_suspend_signal(SIGUSR1);
    GC_set_thr_restart_signal(SIGUSR1);
    CHECK(GC_get_suspend_signal() == signal);
    GC_set_log_fd(2);
    printf("version %x, header %x\n", GC_get_version(),
           GC_TMP_VERSION_MAJOR << 16 | GC_TMP_VERSION_MINOR << 8 | GC_TMP_VERSION_MICRO);
    GC_gcollect();
    char said[1000];
    SHOW(again("early", said, sizeof said));
    GC_deinit();
    return 0;
}
