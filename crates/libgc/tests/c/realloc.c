/* Objects that change their size, aligned objects, and copies of strings. */
#include "check.h"
#include <errno.h>
#include <gc/gc_mark.h>

static const size_t sizes[] = {1,    5,    16,   17,   30,   31,   32,    100,   250,    256,
                               1000, 2000, 2048, 4000, 4096, 5000, 10000, 40000, 100000, 1000000};
#define SIZES (sizeof sizes / sizeof *sizes)

static void all_sizes(const char *name, void *(*get)(size_t), int cleared) {
    int contents = 1, kinds = 1, zeros = 1, bases = 1, enough = 1;
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; j < SIZES; j++) {
            char *object = get(sizes[i]);
            int kind = GC_get_kind_and_size(object, 0);
            memset(object, 0x37, sizes[i]);
            char *other = GC_realloc(object, sizes[j]);
            size_t both = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
            contents &= is_filled(other, 0x37, both);
            kinds &= GC_get_kind_and_size(other, 0) == kind;
            bases &= GC_base(other) == other;
            enough &= GC_size(other) >= sizes[j];
            if (cleared && other != object && sizes[j] > sizes[i])
                zeros &= is_filled(other + sizes[i], 0, sizes[j] - sizes[i]);
            GC_free(other);
        }
    printf("%s: contents %d, kinds %d, zeros %d, bases %d, enough %d\n", name, contents, kinds, zeros, bases,
           enough);
}

static char *growing;

static void grow_slowly(void) {
    growing = GC_malloc_atomic(1);
    growing[0] = 'a';
    int good = 1;
    for (size_t bytes = 1; bytes < 40000; bytes++) {
        growing = GC_realloc(growing, bytes + 1);
        growing[bytes] = (char)('a' + bytes % 26);
    }
    for (size_t i = 0; i < 40000; i++)
        good &= growing[i] == (char)('a' + i % 26);
    CHECK(good);
}

static int died;
static intptr_t question;
static void on_death(void *object, void *data) { died += (intptr_t)data == question; }
static void *volatile stale;

/* References behind the new end of a shrunk object keep nothing alive. */
static void make_shrunk(void) {
    void **object = GC_malloc(100 * sizeof *object);
    for (int i = 0; i < 100; i++) {
        object[i] = GC_malloc(20);
        GC_register_finalizer(object[i], on_death, (void *)question, 0, 0);
    }
    stale = GC_realloc(object, 10 * sizeof *object);
}

static void aligned(void) {
    int good = 1, inside = 1, cleared = 1;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2)
        for (size_t i = 0; i < SIZES; i++) {
            char *object = GC_memalign(alignment, sizes[i]);
            good &= object && (uintptr_t)object % alignment == 0;
            inside &= GC_base(object) != 0 && GC_base(object + sizes[i] - 1) == GC_base(object);
            cleared &= is_filled(object, 0, sizes[i]);
            memset(object, 0x11, sizes[i]);
            void *other = (void *)1;
            int result = GC_posix_memalign(&other, alignment, sizes[i]);
            if (alignment < sizeof(void *))
                good &= result == EINVAL && other == (void *)1;
            else
                good &= result == 0 && (uintptr_t)other % alignment == 0;
        }
    CHECK(good);
    CHECK(inside);
    CHECK(cleared);
    void *other = 0;
    CHECK(GC_posix_memalign(&other, 24, 100) == EINVAL);
    CHECK(GC_posix_memalign(&other, 0, 100) == EINVAL);
    CHECK(GC_posix_memalign(&other, 64, 0) == 0);
    CHECK(GC_posix_memalign(&other, 64, (size_t)-1 / 2) == ENOMEM);
    size_t huge = (size_t)-100;
    __asm__("" : "+r"(huge));
    CHECK(GC_memalign(64, huge) == 0);
    CHECK(GC_memalign((size_t)1 << 30, 100) == 0);
}

/* Aligned objects of half a page or more are usual objects: they have the requested size, grow, shrink and
can be freed. */
static void aligned_objects(void) {
    int bases = 1, enough = 1, contents = 1;
    for (size_t alignment = 32; alignment <= 4096; alignment *= 2)
        for (size_t i = 0; i < SIZES; i++) {
            if (alignment < 2048 && sizes[i] < 2048)
                continue;
            for (size_t j = 0; j < SIZES; j += 3) {
                char *object = GC_memalign(alignment, sizes[i]);
                void *other = 0;
                GC_posix_memalign(&other, alignment, sizes[i]);
                bases &= GC_base(object) == object && GC_base(other) == other;
                enough &= GC_size(object) >= sizes[i] &&
                          GC_size(object) >= (alignment < 2048 ? 0 : alignment);
                memset(object, 0x29, sizes[i]);
                size_t both = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
                object = GC_REALLOC(object, sizes[j]);
                contents &= is_filled(object, 0x29, both);
                GC_FREE(object);
                GC_FREE(other);
            }
        }
    printf("aligned objects: bases %d, enough %d, contents %d\n", bases, enough, contents);
}

/* The memory of freed objects is used again: a heap of a bounded size is enough. */
static void freed_aligned(void) {
    size_t before = GC_get_heap_size();
    int was = GC_get_disable_automatic_collection();
    GC_set_disable_automatic_collection(1);
    for (int i = 0; i < 20000; i++)
        GC_FREE(GC_memalign(4096, 100 + i % 20000));
    GC_set_disable_automatic_collection(was);
    CHECK(GC_get_heap_size() < before + (64 << 20));
}

static void *volatile aligned_ones[50];

static void make_aligned(void) {
    for (int i = 0; i < 50; i++) {
        aligned_ones[i] = GC_memalign(256, 100);
        void **inner = aligned_ones[i];
        *inner = GC_malloc(30);
        GC_register_finalizer(*inner, on_death, (void *)question, 0, 0);
    }
}

static void quiet(char *message, GC_word argument) {}

int main(void) {
    GC_INIT();
    GC_set_warn_proc(quiet);
    all_sizes("malloc", GC_malloc, 1);
    all_sizes("malloc_atomic", GC_malloc_atomic, 0);
    all_sizes("malloc_uncollectable", GC_malloc_uncollectable, 1);
    all_sizes("malloc_atomic_uncollectable", GC_malloc_atomic_uncollectable, 0);
    CHECK(GC_realloc(0, 0) != 0);
    CHECK(GC_realloc(0, 100) != 0);
    CHECK(is_filled(GC_realloc(0, 1000), 0, 1000));
    CHECK(GC_realloc(GC_malloc(100), 0) == 0);
    char *object = GC_malloc(100);
    memset(object, 3, 100);
    CHECK(GC_realloc(object, (size_t)-1 / 2) == 0);
    CHECK(is_filled(object, 3, 100));
    object = GC_realloc(object, 99);
    CHECK(is_filled(object, 3, 99));
    below(grow_slowly);
    below(make_shrunk);
    collect_well();
    SHOW(died);
    aligned();
    aligned_objects();
    freed_aligned();
    died = 0;
    question++;
    below(make_aligned);
    collect_well();
    CHECK(died == 0);

    errno = 0;
    CHECK(strcmp(GC_strdup("some words"), "some words") == 0);
    CHECK(GC_get_kind_and_size(GC_strdup("x"), 0) == 0);
    CHECK(strcmp(GC_strdup(""), "") == 0);
    CHECK(GC_strdup(0) == 0);
    CHECK(strcmp(GC_strndup("some words", 4), "some") == 0);
    CHECK(strcmp(GC_strndup("some words", 0), "") == 0);
    CHECK(strcmp(GC_strndup("some words", 100), "some words") == 0);
    char *line = GC_malloc_atomic(70000);
    memset(line, 'l', 69999);
    line[69999] = 0;
    char *copy = GC_strdup(line);
    CHECK(copy != line && strcmp(copy, line) == 0);
    CHECK(errno == 0);
    return 0;
}
