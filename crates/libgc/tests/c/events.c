/* Callbacks that are told of collections, and that may stop them. */
#include "check.h"
#include <gc/gc_mark.h>

static char order[400];
static int starts, stops, pushes;

static void note(char what) {
    size_t length = strlen(order);
    if (length < sizeof order - 1)
        order[length] = what;
}

static void on_event(GC_EventType event) { note((char)('a' + event)); }

static void on_start(void) {
    starts++;
    /* The event of the start comes before this callback. */
    note('!');
}

static GC_ToggleRefStatus on_toggle(void *object) {
    note('t');
    return GC_TOGGLE_REF_DROP;
}

static void on_roots(void) { pushes++; }

static int always(void) {
    stops++;
    return 1;
}

static int never(void) {
    stops++;
    return 0;
}

static void on_await(void *object) { note('w'); }
static void on_death(void *object, void *data) { note('f'); }
static void make(void) { GC_register_finalizer(GC_malloc(40), on_death, 0, 0, 0); }

static void allocate(void) {
    for (int i = 0; i < 2000000; i++)
        GC_malloc(40);
}

static void allocate_little(void) {
    for (int i = 0; i < 200000; i++)
        GC_malloc(40);
}

static int died;
static void on_count(void *object, void *data) { died++; }
static void make_many(void) {
    for (int i = 0; i < 100; i++)
        GC_register_finalizer(GC_malloc(40), on_count, 0, 0, 0);
}

/* Objects that only a callback stores to static data. */
#define REVEALED 100
static GC_hidden_pointer hidden[REVEALED];
static long *revealed[REVEALED];
static GC_EventType reveals_at;

static void hide(void) {
    for (int i = 0; i < REVEALED; i++) {
        long *object = GC_malloc(100);
        object[0] = i;
        hidden[i] = GC_HIDE_POINTER(object);
        revealed[i] = 0;
    }
}

static void reveal(void) {
    for (int i = 0; i < REVEALED; i++)
        revealed[i] = GC_REVEAL_POINTER(hidden[i]);
}

/* Acts once: it unregisters itself. */
static void reveal_at(GC_EventType event) {
    if (event == reveals_at) {
        reveal();
        GC_set_on_collection_event(0);
    }
}

static int are_whole(void) {
    for (int i = 0; i < REVEALED; i++)
        if (revealed[i][0] != i || revealed[i][1] != 0)
            return 0;
    return 1;
}

static void fill(void) {
    for (int i = 0; i < 100000; i++)
        memset(GC_malloc(100), 0x5a, 100);
}

static void reveal_all(void) {
    static const GC_EventType events[] = {GC_EVENT_PRE_STOP_WORLD, GC_EVENT_POST_STOP_WORLD,
                                          GC_EVENT_MARK_START};
    for (int i = 0; i < 3; i++) {
        below(hide);
        wipe();
        reveals_at = events[i];
        GC_set_on_collection_event(reveal_at);
        GC_gcollect();
        CHECK(GC_get_on_collection_event() == 0);
        below(fill);
        CHECK(are_whole());
    }
    GC_push_other_roots_proc others = GC_get_push_other_roots();
    below(hide);
    wipe();
    GC_set_push_other_roots(reveal);
    GC_gcollect();
    GC_set_push_other_roots(others);
    below(fill);
    CHECK(are_whole());
}

static void order_of_events(void) {
    CHECK(GC_get_on_collection_event() == 0);
    CHECK(GC_get_start_callback() == 0);
    GC_set_on_collection_event(on_event);
    CHECK(GC_get_on_collection_event() == on_event);
    GC_word before = GC_get_gc_no();
    GC_gcollect();
    printf("events: %s\n", order);
    CHECK(GC_get_gc_no() == before + 1 && GC_gc_no == GC_get_gc_no());
    GC_set_start_callback(on_start);
    CHECK(GC_get_start_callback() == on_start);
    memset(order, 0, sizeof order);
    CHECK(GC_try_to_collect(never) == 1);
    CHECK(stops > 0);
    printf("events: %s\n", order);
    CHECK(starts == 1);
    memset(order, 0, sizeof order);
    GC_set_toggleref_func(on_toggle);
    static void *kept;
    kept = GC_malloc(10);
    GC_toggleref_add(kept, 1);
    GC_gcollect_and_unmap();
    printf("events: %s\n", order);
    GC_set_toggleref_func(0);
    below(make);
    below(make);
    GC_set_await_finalize_proc(on_await);
    wipe();
    memset(order, 0, sizeof order);
    GC_gcollect();
    CHECK(strstr(order, "w") != 0 && strstr(order, "f") != 0);
    CHECK(strstr(order, "d") < strstr(order, "w") && strstr(order, "w") < strstr(order, "e"));
    CHECK(strstr(order, "f") > strstr(order, "j"));
    GC_set_await_finalize_proc(0);
    starts = 0;
    memset(order, 0, sizeof order);
    below(allocate);
    CHECK(starts > 0);
    GC_set_on_collection_event(0);
    GC_set_start_callback(0);
}

/* Collections that are stopped do not count. */
static void stopped_ones(void) {
    GC_word before = GC_get_gc_no();
    stops = 0;
    CHECK(GC_try_to_collect(always) == 0);
    CHECK(stops == 1);
    CHECK(GC_get_gc_no() == before);
    GC_stop_func was = GC_get_stop_func();
    CHECK(was != 0 && was() == 0);
    GC_set_stop_func(always);
    CHECK(GC_get_stop_func() == always);
    GC_gcollect();
    CHECK(GC_get_gc_no() == before);
    GC_gcollect_and_unmap();
    CHECK(GC_get_gc_no() == before + 1);
    GC_set_stop_func(was);
}

/* Calls of GC_disable and GC_enable are counted. */
static void disabled(void) {
    CHECK(GC_is_disabled() == 0 && GC_dont_gc == 0);
    GC_word before = GC_get_gc_no();
    GC_disable();
    GC_disable();
    CHECK(GC_is_disabled() != 0 && GC_dont_gc == 2);
    GC_gcollect();
    CHECK(GC_try_to_collect(never) == 0);
    below(allocate_little);
    CHECK(GC_get_gc_no() == before);
    GC_enable();
    CHECK(GC_is_disabled() != 0);
    GC_gcollect();
    CHECK(GC_get_gc_no() == before);
    GC_enable();
    CHECK(GC_is_disabled() == 0);
    GC_gcollect();
    CHECK(GC_get_gc_no() == before + 1);
}

static void no_automatic_ones(void) {
    CHECK(GC_get_disable_automatic_collection() == 0);
    GC_set_disable_automatic_collection(1);
    CHECK(GC_get_disable_automatic_collection() == 1);
    GC_word before = GC_get_gc_no();
    below(allocate_little);
    CHECK(GC_get_gc_no() == before);
    GC_gcollect();
    CHECK(GC_get_gc_no() == before + 1);
    GC_set_disable_automatic_collection(0);
    below(allocate);
    CHECK(GC_get_gc_no() > before + 1);
}

int main(void) {
    GC_INIT();
    order_of_events();
    stopped_ones();
    disabled();
    no_automatic_ones();

    GC_push_other_roots_proc roots = GC_get_push_other_roots();
    GC_set_push_other_roots(on_roots);
    GC_gcollect();
    CHECK(pushes > 0);
    GC_set_push_other_roots(roots);

    reveal_all();

    below(make_many);
    collect_well();
    CHECK(MOST(died, 100));
    CHECK(GC_collect_a_little() == 0);
    return 0;
}
