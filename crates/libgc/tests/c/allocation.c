/* Allocation: sizes, alignment, contents and kinds of objects. */
#include "check.h"
#include <gc/gc_mark.h>
#include <gc/gc_inline.h>

static const size_t sizes[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33,
                               63, 64, 100, 127, 128, 200, 255, 256, 500, 512,
                               1000, 1024, 1500, 2000, 2047, 2048, 2049, 3000, 4095, 4096,
                               4097, 5000, 8000, 8191, 8192, 8193, 10000, 16000, 16383, 16384,
                               16385, 20000, 32768, 40000, 65535, 65536, 65537, 100000, 262144, 300000,
                               1000000, 3000000};
#define SIZES (sizeof sizes / sizeof *sizes)

void GC_noop1(GC_word);

struct way {
    const char *name;
    void *(*get)(size_t);
    int cleared;
};

static void *of_kind(size_t bytes) { return GC_malloc_kind(bytes, GC_I_NORMAL); }
static void *of_kind_global(size_t bytes) { return GC_malloc_kind_global(bytes, GC_I_NORMAL); }
static void *generic(size_t bytes) { return GC_generic_malloc(bytes, GC_I_NORMAL); }
static void *generic_atomic(size_t bytes) { return GC_generic_malloc(bytes, GC_I_PTRFREE); }
static void *special(size_t bytes) { return GC_generic_or_special_malloc(bytes, 2); }
static void *special_atomic(size_t bytes) { return GC_generic_or_special_malloc(bytes, 3); }
static void *off_page(size_t bytes) { return GC_generic_malloc_ignore_off_page(bytes, GC_I_NORMAL); }
static void *held(size_t bytes) { return GC_generic_malloc_uncollectable(bytes, 2); }

static const struct way ways[] = {
    {"malloc", GC_malloc, 1},
    {"malloc_atomic", GC_malloc_atomic, 0},
    {"malloc_uncollectable", GC_malloc_uncollectable, 1},
    {"malloc_atomic_uncollectable", GC_malloc_atomic_uncollectable, 0},
    {"malloc_stubborn", GC_malloc_stubborn, 1},
    {"malloc_ignore_off_page", GC_malloc_ignore_off_page, 1},
    {"malloc_atomic_ignore_off_page", GC_malloc_atomic_ignore_off_page, 0},
    {"malloc_kind", of_kind, 1},
    {"malloc_kind_global", of_kind_global, 1},
    {"generic_malloc", generic, 1},
    {"generic_malloc atomic", generic_atomic, 0},
    {"generic_or_special_malloc", special, 1},
    {"generic_or_special_malloc atomic", special_atomic, 0},
    {"generic_malloc_ignore_off_page", off_page, 1},
    {"generic_malloc_uncollectable", held, 1},
};
#define WAYS (sizeof ways / sizeof *ways)

static void try_way(const struct way *way) {
    int nulls = 0, aligned = 1, large_enough = 1, bases = 1, inside = 1, cleared = 1, kept = 1;
    int kind = -1, same_kind = 1;
    unsigned char *got[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        unsigned char *object = got[i] = way->get(sizes[i]);
        if (!object) {
            nulls++;
            continue;
        }
        aligned &= (uintptr_t)object % 16 == 0;
        large_enough &= GC_size(object) >= sizes[i];
        bases &= GC_base(object) == object;
        if (sizes[i])
            inside &= GC_base(object + sizes[i] - 1) == object && GC_base(object + sizes[i] / 2) == object;
        cleared &= !way->cleared || is_filled(object, 0, sizes[i]);
        memset(object, (int)(i * 7 + 1), sizes[i]);
        size_t size = 0;
        int its = GC_get_kind_and_size(object, &size);
        same_kind &= its == GC_get_kind_and_size(object, 0) && (kind == -1 || its == kind) &&
                     size == GC_size(object);
        kind = its;
    }
    GC_gcollect();
    for (size_t i = 0; i < SIZES; i++)
        kept &= got[i] && is_filled(got[i], (int)(i * 7 + 1), sizes[i]);
    printf("%s: nulls %d, aligned %d, large enough %d, bases %d, inside %d, cleared %d, kept %d, "
           "kind %d %d\n",
           way->name, nulls, aligned, large_enough, bases, inside, cleared, kept, same_kind, kind);
}

static int dirty_ones;

/* Memory that is used again is cleared again. */
static void churn(void) {
    for (int i = 0; i < 200000; i++) {
        size_t bytes = sizes[i % 30];
        unsigned char *object = GC_malloc(bytes);
        if (!is_filled(object, 0, bytes))
            dirty_ones++;
        memset(object, 0xa5, bytes);
    }
    for (int i = 0; i < 300; i++) {
        size_t bytes = sizes[i % SIZES];
        unsigned char *object = GC_malloc(bytes);
        if (!is_filled(object, 0, bytes))
            dirty_ones++;
        memset(object, 0x5a, bytes);
    }
}

struct pair {
    struct pair *first, *second;
};

static void freed_places(void) {
    int dirty = 0;
    for (int round = 0; round < 3; round++) {
        unsigned char *objects[64];
        for (int i = 0; i < 64; i++) {
            objects[i] = GC_malloc(100 + 700 * (size_t)(i % 40));
            dirty += !is_filled(objects[i], 0, 100 + 700 * (size_t)(i % 40));
            memset(objects[i], 0xee, 100 + 700 * (size_t)(i % 40));
        }
        for (int i = 0; i < 64; i++)
            GC_free(objects[i]);
    }
    CHECK(dirty == 0);
}

int main(void) {
    CHECK(GC_is_init_called() == 0);
    GC_INIT();
    CHECK(GC_is_init_called() != 0);
    GC_init();
    for (size_t i = 0; i < WAYS; i++)
        try_way(&ways[i]);
    below(churn);
    CHECK(dirty_ones == 0);
    freed_places();

    struct pair *pair = GC_NEW(struct pair);
    CHECK(pair && !pair->first && !pair->second);
    CHECK(GC_NEW_ATOMIC(struct pair) != 0);
    CHECK(GC_NEW_UNCOLLECTABLE(struct pair) != 0);
    CHECK(GC_malloc(0) != 0);
    CHECK(GC_malloc(0) != GC_malloc(0));
    GC_change_stubborn(pair);
    GC_end_stubborn_change(pair);
    GC_ptr_store_and_dirty(&pair->first, pair);
    CHECK(pair->first == pair);
    GC_PTR_STORE_AND_DIRTY(&pair->second, pair);
    CHECK(pair->second == pair);
    GC_free(0);
    GC_free(pair);

    int local;
    CHECK(GC_base(&local) == 0);
    CHECK(GC_base(0) == 0);
    CHECK(GC_base(stdout) == 0);
    CHECK(GC_is_heap_ptr(&local) == 0);
    CHECK(GC_is_heap_ptr(0) == 0);
    CHECK(GC_is_heap_ptr(GC_malloc(10)) != 0);
    CHECK(GC_is_heap_ptr((char *)GC_malloc(100000) + 70000) != 0);

    CHECK(GC_get_size_map_at(-1) == (size_t)-1);
    CHECK(GC_get_size_map_at(1 << 20) == (size_t)-1);
    CHECK(GC_get_size_map_at(2049) == (size_t)-1);
    int holds = 1, rounded = 1;
    for (int i = 0; i < 300; i++) {
        size_t mapped = GC_get_size_map_at(i);
        holds &= mapped >= (size_t)i && mapped >= 16;
        rounded &= mapped % 16 == 0 && mapped <= (size_t)i + 64 && mapped == GC_size(GC_malloc((size_t)i));
    }
    CHECK(holds);
    CHECK(rounded);
    CHECK(GC_clear_stack(&local) == (void *)&local);
    CHECK(GC_clear_stack(0) == 0);
    GC_noop1(5);
    return 0;
}
