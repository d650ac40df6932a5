/* Names that libgc exports and only its private headers declare. */
#include "check.h"

extern GC_abort_func GC_on_abort;
extern void **const GC_objfreelist_ptr, **const GC_aobjfreelist_ptr, **const GC_uobjfreelist_ptr,
    **const GC_auobjfreelist_ptr;
extern void GC_incr_bytes_allocd(size_t bytes);
extern void GC_incr_bytes_freed(size_t bytes);

static void on_abort(const char *message) {}

static void *add(void *argument) {
    GC_incr_bytes_allocd(1000);
    GC_incr_bytes_freed(300);
    return argument;
}

static void counting(void) {
    GC_gcollect();
    size_t since = GC_get_bytes_since_gc(), total = GC_get_total_bytes();
    size_t freed = GC_get_expl_freed_bytes_since_gc();
    GC_call_with_alloc_lock(add, 0);
    SHOW(GC_get_bytes_since_gc() - since);
    SHOW(GC_get_total_bytes() - total);
    SHOW(GC_get_expl_freed_bytes_since_gc() - freed);
    total = GC_get_total_bytes();
    GC_gcollect();
    CHECK(GC_get_total_bytes() >= total && GC_get_total_bytes() - total < 1000);
    CHECK(GC_get_bytes_since_gc() < 1000);
    GC_incr_bytes_allocd(0);
    GC_incr_bytes_freed(0);
}

/* An inline allocator: it takes an object from a list, and has the list filled if it is empty. */
#define GRANULES 3
#define BYTES (GRANULES * 16)
#define COUNT 2000

static void *taken[COUNT];

static void *take(void) {
    void **list = GC_objfreelist_ptr + GRANULES;
    void **object = *list;
    if (!object)
        return GC_malloc(BYTES - 1);
    *list = *object;
    *object = 0;
    return object;
}

static void give_back(void *object) {
    void **list = GC_objfreelist_ptr + GRANULES;
    memset(object, 0, BYTES);
    *(void **)object = *list;
    *list = object;
}

static int distinct(void) {
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        wrong += !is_filled(taken[i], 0, BYTES);
        memset(taken[i], 1, BYTES);
    }
    return !wrong;
}

static void in_line(void) {
    GC_disable();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++)
            taken[i] = take();
        CHECK(distinct());
        for (int i = 0; i < COUNT; i += 2) {
            give_back(taken[i]);
            taken[i] = 0;
        }
        for (int i = 0; i < COUNT; i += 2)
            taken[i] = take();
        for (int i = 1; i < COUNT; i += 2)
            memset(taken[i], 0, BYTES);
        CHECK(distinct());
        for (int i = 0; i < COUNT; i += 3)
            give_back(taken[i]);
        memset(taken, 0, sizeof taken);
        GC_enable();
        GC_gcollect();
        GC_disable();
    }
    GC_enable();
}

int main(void) {
    GC_INIT();
    GC_abort_func usual = GC_on_abort;
    CHECK(GC_on_abort != 0 && GC_on_abort == GC_get_abort_func());
    CHECK(GC_objfreelist_ptr && GC_aobjfreelist_ptr && GC_uobjfreelist_ptr && GC_auobjfreelist_ptr);
    CHECK(GC_objfreelist_ptr != GC_aobjfreelist_ptr);
    GC_set_abort_func(on_abort);
    CHECK(GC_on_abort == on_abort);
    GC_on_abort = usual;
    CHECK(GC_get_abort_func() == usual);
    counting();
    in_line();
    return 0;
}
