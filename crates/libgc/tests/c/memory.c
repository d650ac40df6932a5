/* Lack of memory: huge sizes, bounds on the heap, and the callbacks that are called then. */
#include "check.h"
#include <errno.h>
#include <gc/gc_gcj.h>
#include <gc/gc_typed.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

static int warned, asked;
static size_t asked_for;
static int told;
static void *reserve;

static void on_warning(char *message, GC_word argument) { warned++; }

static void *on_no_memory(size_t bytes) {
    asked++;
    asked_for = bytes;
    told = errno;
    return 0;
}

static void *give_reserve(size_t bytes) {
    asked++;
    return reserve;
}

static void huge_sizes(void) {
    static const size_t sizes[] = {(size_t)-1, (size_t)-2, (size_t)-16, (size_t)-17, (size_t)-4096,
                                   (size_t)-5000, (size_t)-16384, (size_t)-1 / 2, (size_t)-1 / 2 + 1,
                                   (size_t)-1 / 4, (size_t)1 << 60, (size_t)1 << 55};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i];
        void *got[] = {GC_malloc(bytes), GC_malloc_atomic(bytes), GC_malloc_uncollectable(bytes),
                       GC_malloc_atomic_uncollectable(bytes), GC_malloc_ignore_off_page(bytes),
                       GC_malloc_atomic_ignore_off_page(bytes), GC_realloc(0, bytes), GC_memalign(64, bytes),
                       GC_debug_malloc(bytes, "here", 1), GC_malloc_explicitly_typed(bytes, 0),
                       GC_generic_malloc(bytes, 1),
                       GC_malloc_kind(bytes, 1), GC_realloc(GC_malloc(10), bytes)};
        int nulls = 0;
        for (size_t j = 0; j < sizeof got / sizeof *got; j++)
            nulls += got[j] == 0;
        printf("huge size %zu: nulls %d of %zu\n", i, nulls, sizeof got / sizeof *got);
    }
}

static void hooks(void) {
    GC_oom_func before = GC_get_oom_fn();
    CHECK(before != 0 && before(100) == 0);
    GC_set_oom_fn(on_no_memory);
    CHECK(GC_get_oom_fn() == on_no_memory && GC_oom_fn == on_no_memory);
    asked = 0;
    size_t much = (size_t)-1 / 2;
    CHECK(GC_malloc(much) == 0 && asked == 1 && asked_for == much);
    CHECK(errno == ENOMEM && told == ENOMEM);
    errno = 0;
    CHECK(GC_malloc_atomic(much) == 0 && asked == 2 && asked_for == much);
    CHECK(GC_malloc_ignore_off_page(much) == 0 && asked == 3 && asked_for == much);
    GC_oom_fn = give_reserve;
    reserve = GC_malloc(64);
    CHECK(GC_get_oom_fn() == give_reserve);
    void *(*volatile get)(size_t) = GC_malloc;
    CHECK(get(much) == reserve);
    get = GC_malloc_atomic;
    CHECK(get(much) == reserve);
    CHECK(asked == 5);
    GC_set_oom_fn(before);
}

static void *volatile hold[4000];

static void bounded(void) {
    GC_set_max_heap_size(32 << 20);
    GC_set_oom_fn(on_no_memory);
    asked = 0;
    int count = 0;
    while (count < 4000 && (hold[count] = GC_malloc(65536)) != 0)
        count++;
    CHECK(asked == 1);
    CHECK(count > 200 && count < 600);
    CHECK(warned > 0);
    CHECK(GC_get_heap_size() <= 33 << 20);
    /* The memory of dropped objects is used again. */
    for (int i = 0; i < count; i += 2)
        hold[i] = 0;
    int again = 0;
    while (again < count && (hold[again] || (hold[again] = GC_malloc(65000)) != 0))
        again++;
    memset((void *)hold, 0, sizeof hold);
    GC_set_max_heap_size(0);
    int more = 0;
    for (int i = 0; i < 1500; i++)
        more += (hold[i] = GC_malloc(65536)) != 0;
    CHECK(more == 1500);
    memset((void *)hold, 0, sizeof hold);
    collect();
}

static int resizes, shrunk;
static GC_word last_size;

static void on_resize(GC_word size) {
    resizes++;
    shrunk += size < last_size;
    last_size = size;
}

static void growth(void) {
    CHECK(GC_get_on_heap_resize() == 0);
    GC_set_on_heap_resize(on_resize);
    CHECK(GC_get_on_heap_resize() == on_resize);
    GC_word before = GC_get_no_dls() + GC_get_heap_size();
    CHECK(GC_expand_hp(1 << 20) == 1);
    for (int i = 0; i < 4000; i++)
        hold[i] = GC_malloc(100000);
    CHECK(resizes > 0);
    CHECK(last_size >= before);
    GC_set_on_heap_resize(0);
    memset((void *)hold, 0, sizeof hold);
    collect();
    CHECK(GC_expand_hp((size_t)1 << 60) == 0);
    CHECK(GC_expand_hp(0) == 1);
}

static void on_abort(const char *message) { printf("abort function: %s\n", message ? "a message" : "none"); }

static int part(const char *name) {
    GC_set_warn_proc(on_warning);
    if (!strcmp(name, "abort on oom")) {
        GC_INIT();
        GC_abort_on_oom();
        GC_malloc((size_t)-1 / 2);
    } else if (!strcmp(name, "abort function")) {
        GC_INIT();
        CHECK(GC_get_abort_func() != 0);
        GC_set_abort_func(on_abort);
        CHECK(GC_get_abort_func() == on_abort);
        GC_abort_on_oom();
        GC_malloc((size_t)-1 / 2);
    } else if (!strcmp(name, "abort function, error")) {
        GC_INIT();
        GC_set_abort_func(on_abort);
        GC_debug_free(&warned);
    } else if (!strcmp(name, "bounded by environment")) {
        GC_INIT();
        GC_set_oom_fn(on_no_memory);
        int count = 0;
        while (count < 4000 && (hold[count] = GC_malloc(65536)) != 0)
            count++;
        CHECK(asked == 1 && count > 100 && count < 400);
    }
    return 0;
}

int main(int argument_count, char **arguments) {
    if (argument_count > 1)
        return part(arguments[1]);
    GC_INIT();
    GC_warn_proc before = GC_get_warn_proc();
    CHECK(before != 0);
    GC_set_warn_proc(on_warning);
    CHECK(GC_get_warn_proc() == on_warning);
    int out = dup(2), nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 2);
    huge_sizes();
    dup2(out, 2);
    CHECK(warned > 0);
    hooks();
    bounded();
    growth();
    GC_set_warn_proc(GC_ignore_warn_proc);
    CHECK(GC_get_warn_proc() == GC_ignore_warn_proc);
    GC_ignore_warn_proc("nothing is said: %ld", 5);
    CHECK(GC_malloc((size_t)-1 / 2) == 0);
    GC_set_warn_proc(before);
    char said[2000];
    static const char *parts[] = {"abort on oom", "abort function", "abort function, error"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int status = again(parts[i], said, sizeof said);
        printf("%s: ended with %d\n", parts[i], status);
    }
    setenv("GC_MAXIMUM_HEAP_SIZE", "16M", 1);
    SHOW(again("bounded by environment", said, sizeof said));
    return 0;
}
