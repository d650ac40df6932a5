/* Functions that may be called while the lock is held: in callbacks of collections, and by a thread that took
the lock. */
#include "check.h"
#include <gc/gc_mark.h>

static int calls, wrong;
static int static_word;

static void ask(void) {
    calls++;
    wrong += GC_get_heap_size() == 0 || GC_get_free_bytes() > GC_get_heap_size();
    wrong += GC_get_total_bytes() < GC_get_bytes_since_gc();
    wrong += GC_get_obtained_from_os_bytes() < GC_get_heap_size();
    GC_get_unmapped_bytes();
    GC_get_expl_freed_bytes_since_gc();
    GC_get_full_gc_total_time();
    wrong += GC_get_gc_no() != GC_gc_no;
    GC_should_invoke_finalizers();
    wrong += GC_is_disabled() != 0;
    wrong += GC_get_size_map_at(10) < 10;
    GC_get_parallel();
    GC_is_incremental_mode();
    struct GC_prof_stats_s stats;
    wrong += GC_get_prof_stats_unsafe(&stats, sizeof stats) != sizeof stats;
    GC_is_tmp_root(&static_word);
    GC_get_find_leak();
    GC_set_max_heap_size(0);
    GC_get_non_gc_bytes();
    GC_get_free_space_divisor();
    GC_get_time_limit();
    GC_get_min_bytes_allocd();
    GC_get_rate();
}

static void *objects[10];

static void *ask_with_lock(void *data) {
    ask();
    for (int i = 0; i < 10; i++) {
        char *object = objects[i];
        wrong += GC_base(object + 5) != object || GC_size(object) < 100 || !GC_is_heap_ptr(object);
        wrong += GC_get_kind_and_size(object, 0) != 1;
        GC_is_marked(object);
    }
    return data;
}

static void on_event(GC_EventType event) { ask(); }
static void on_start(void) { ask(); }
static void on_resize(GC_word size) { ask(); }
static GC_ToggleRefStatus on_toggle(void *object) {
    ask();
    wrong += GC_base(object) != object;
    return GC_TOGGLE_REF_DROP;
}
static int on_stop(void) {
    ask();
    return 0;
}
static void on_await(void *object) {
    ask();
    wrong += GC_base(object) != object;
}

/* A finalizer runs without the lock, so every function is allowed. */
static void on_death(void *object, void *data) {
    ask();
    GC_malloc(100);
    GC_gcollect();
    GC_register_finalizer(GC_malloc(10), 0, 0, 0, 0);
}

static void make(void) { GC_register_finalizer(GC_malloc(30), on_death, 0, 0, 0); }
static void on_notify(void) {
    ask();
    GC_invoke_finalizers();
    GC_malloc(100);
}

int main(void) {
    GC_INIT();
    for (int i = 0; i < 10; i++)
        objects[i] = GC_malloc(100);
    CHECK(GC_call_with_alloc_lock(ask_with_lock, &calls) == &calls);
    CHECK(calls == 1 && wrong == 0);
    GC_alloc_lock();
    ask();
    GC_alloc_unlock();
    CHECK(calls == 2 && wrong == 0);
    GC_set_on_collection_event(on_event);
    GC_set_start_callback(on_start);
    GC_set_on_heap_resize(on_resize);
    GC_set_toggleref_func(on_toggle);
    GC_set_await_finalize_proc(on_await);
    GC_toggleref_add(objects[0], 1);
    below(make);
    collect();
    CHECK(GC_try_to_collect(on_stop) == 1);
    GC_expand_hp(1 << 20);
    static void *kept[2000];
    for (int i = 0; i < 2000; i++)
        kept[i] = GC_malloc(10000);
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(on_notify);
    below(make);
    collect();
    GC_malloc(10);
    GC_set_on_collection_event(0);
    GC_set_start_callback(0);
    GC_set_on_heap_resize(0);
    CHECK(calls > 30 && wrong == 0);
    CHECK(kept[0] != kept[1999]);
    return 0;
}
