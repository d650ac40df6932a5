/* Functions that may be called before the collector is initialised. None of them initialises it, so settings
that follow still count. */
#include "check.h"
#include <gc/gc_mark.h>
#include <gc/javaxfc.h>
#include <signal.h>

static void *word;
static void *roots[200];
static int died;

static void *nothing(void *argument) { return argument; }

static void on_death(void *object, void *data) { died++; }

static int handles(int signal) {
    struct sigaction action;
    sigaction(signal, 0, &action);
    return action.sa_handler != SIG_DFL;
}

#define EARLY(call)                                                                                          \
    do {                                                                                                     \
        call;                                                                                                \
        printf("%s: %d\n", #call, GC_is_init_called());                                                      \
    } while (0)
#define ZERO(question) EARLY(CHECK((question) == 0))

static void all(void) {
    GC_word a = 1, b = 1, c = 1, d = 1, e = 1;
    struct GC_prof_stats_s stats;
    CHECK(!GC_is_init_called());
    EARLY(GC_set_max_heap_size(24 << 20));
    EARLY(GC_disable());
    EARLY(GC_enable());
    EARLY(GC_start_performance_measurement());
    EARLY(GC_allow_register_threads());
    EARLY(GC_alloc_lock());
    EARLY(GC_alloc_unlock());
    EARLY(GC_call_with_alloc_lock(nothing, 0));
    ZERO(GC_get_heap_size());
    ZERO(GC_get_free_bytes());
    ZERO(GC_get_unmapped_bytes());
    ZERO(GC_get_bytes_since_gc());
    ZERO(GC_get_total_bytes());
    ZERO(GC_get_memory_use());
    ZERO(GC_get_obtained_from_os_bytes());
    ZERO(GC_get_expl_freed_bytes_since_gc());
    ZERO(GC_get_full_gc_total_time());
    EARLY(GC_get_heap_usage_safe(&a, &b, &c, &d, &e));
    CHECK(!a && !b && !c && !d && !e);
    SHOW(GC_get_prof_stats(&stats, sizeof stats) == sizeof stats);
    CHECK(!stats.heapsize_full && !stats.free_bytes_full && !stats.allocd_bytes_before_gc &&
          !stats.obtained_from_os_bytes);
    EARLY(GC_get_prof_stats_unsafe(&stats, sizeof stats));
    EARLY(GC_dump_regions());
    ZERO(GC_is_incremental_mode());
    EARLY(GC_exclude_static_roots(&word, &word + 1));
    EARLY(GC_clear_exclusion_table());
    EARLY(GC_exclude_static_roots(roots, roots + 100));
    EARLY(GC_remove_roots(&word, &word + 1));
    ZERO(GC_is_tmp_root(&word));
    ZERO(GC_base(&word));
    ZERO(GC_toggleref_add(&word, 1));
    ZERO(GC_unregister_disappearing_link(&word));
    ZERO(GC_unregister_long_link(&word));
    EARLY(SHOW(GC_move_disappearing_link(&word, &word)));
    EARLY(SHOW(GC_move_long_link(&word, &word)));
    ZERO(GC_should_invoke_finalizers());
    ZERO(GC_invoke_finalizers());
    EARLY(GC_finalize_all());
    ZERO(GC_is_disabled());
}

static void make(void) {
    for (int i = 0; i < 200; i++) {
        roots[i] = GC_malloc(20);
        GC_register_finalizer(roots[i], on_death, 0, 0, 0);
    }
}

static void *volatile hold[4000];

static void lose(void) {
    for (int i = 0; i < 5; i++)
        hold[i] = GC_debug_malloc(30, "early.c", 1);
    memset((void *)hold, 0, sizeof hold);
}

static int part(const char *name) {
    if (!strcmp(name, "checks")) {
        GC_is_valid_displacement(&word);
        SHOW(GC_is_init_called());
        return 0;
    }
    all();
    GC_set_find_leak(1);
    GC_INIT();
    below(lose);
    wipe();
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1)
        return part(arguments[1]);
    all();
    GC_set_suspend_signal(SIGUSR1);
    GC_INIT();
    CHECK(GC_is_init_called());
    CHECK(GC_get_suspend_signal() == SIGUSR1 && handles(SIGUSR1) && !handles(SIGPWR));
    /* The settings from before count. */
    below(make);
    collect_well();
    CHECK(MOST(died, 100) && died <= 100);
    GC_set_warn_proc(GC_ignore_warn_proc);
    int got = 0;
    while (got < 4000 && (hold[got] = GC_malloc(65536)) != 0)
        got++;
    CHECK(got > 100 && got < 400);
    char said[4000];
    SHOW(again("checks", said, sizeof said));
    SHOW(again("leaks", said, sizeof said));
    SHOW(count_of(said, "early.c"));
    return 0;
}
