/* Functions that inspect pointers and objects. */
#include "check.h"
#include <gc/gc_mark.h>
#include <sys/mman.h>

static int not_same, not_visible, not_valid;
static void on_not_same(void *p, void *q) { not_same++; }
static void on_not_visible(void *p) { not_visible++; }
static void on_not_valid(void *p) { not_valid++; }

static void *static_word;

#define COUNT 1000
static void *kept[COUNT];
static int seen, seen_bytes_ok = 1, seen_base_ok = 1;
static unsigned char was_seen[COUNT];

static void visit(void *object, size_t bytes, void *data) {
    seen_base_ok &= data == &seen && GC_base(object) == object;
    seen_bytes_ok &= bytes == GC_size(object);
    seen++;
    for (int i = 0; i < COUNT; i++)
        if (kept[i] == object)
            was_seen[i] = 1;
}

static void *enumerate(void *data) {
    GC_enumerate_reachable_objects_inner(visit, data);
    return 0;
}

static GC_hidden_pointer dropped[COUNT];

static void make(void) {
    for (int i = 0; i < COUNT; i++) {
        kept[i] = i % 2 ? GC_malloc(20 + i * 13 % 9000) : GC_malloc_atomic(20 + i * 7 % 5000);
        dropped[i] = GC_HIDE_POINTER(GC_malloc(48));
    }
}

static int marked;

static void *bits(void *data) {
    void *object = kept[1];
    marked = GC_is_marked(object);
    GC_clear_mark_bit(object);
    marked = marked * 10 + GC_is_marked(object);
    GC_set_mark_bit(object);
    marked = marked * 10 + GC_is_marked(object);
    GC_set_mark_bit(object);
    marked = marked * 10 + GC_is_marked(object);
    return 0;
}

static void *count_dropped(void *data) {
    int *count = data;
    for (int i = 0; i < COUNT; i++)
        *count += GC_is_marked(GC_REVEAL_POINTER(dropped[i]));
    return 0;
}

static int part(const char *name) {
    GC_INIT();
    char *object = GC_malloc(100), *other = GC_malloc(100);
    if (!strcmp(name, "same"))
        GC_same_obj(object, other);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1)
        return part(arguments[1]);
    GC_INIT();
    below(make);
    collect();
    GC_call_with_alloc_lock(enumerate, &seen);
    int all = 0;
    for (int i = 0; i < COUNT; i++)
        all += was_seen[i];
    SHOW(all);
    CHECK(seen >= COUNT && seen_bytes_ok && seen_base_ok);
    GC_call_with_alloc_lock(bits, 0);
    SHOW(marked);
    int left = 0;
    collect();
    GC_call_with_alloc_lock(count_dropped, &left);
    /* A stale reference to a free object may keep the list of free objects behind it. */
    CHECK(left < COUNT / 4);

    GC_same_obj_print_proc = on_not_same;
    GC_is_visible_print_proc = on_not_visible;
    GC_is_valid_displacement_print_proc = on_not_valid;
    char *object = GC_malloc(100), *other = GC_malloc(100), *large = GC_malloc(100000);
    int local;
    CHECK(GC_same_obj(object, object) == object && not_same == 0);
    CHECK(GC_same_obj(object + 50, object) == object + 50 && not_same == 0);
    CHECK(GC_same_obj(object + 99, object + 1) == object + 99 && not_same == 0);
    CHECK(GC_same_obj(object, other) == object && not_same == 1);
    CHECK(GC_same_obj(large + 90000, large) == large + 90000 && not_same == 1);
    CHECK(GC_same_obj(large + 200000, large) == large + 200000 && not_same == 2);
    CHECK(GC_same_obj(&local, &not_same) == &local && not_same == 2);
    CHECK(GC_same_obj(&local, object) == &local && not_same == 3);
    CHECK(GC_same_obj(object, &local) == object && not_same == 4);
    not_same = 0;
    void *pointer = object;
    CHECK(GC_pre_incr(&pointer, 10) == object + 10 && pointer == object + 10);
    CHECK(GC_post_incr(&pointer, 5) == object + 10 && pointer == object + 15);
    CHECK(GC_pre_incr(&pointer, -15) == object && pointer == object);
    CHECK(not_same == 0);
    GC_pre_incr(&pointer, 5000000);
    CHECK(not_same == 1);

    CHECK(GC_is_visible(object) == object && not_visible == 0);
    CHECK(GC_is_visible(&local) == &local && not_visible == 0);
    CHECK(GC_is_visible(&static_word) == &static_word && not_visible == 0);
    void *elsewhere = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* The address could belong to a thread's stack, so it counts as visible. */
    CHECK(GC_is_visible(elsewhere) == elsewhere && not_visible == 0);
    CHECK(GC_is_valid_displacement(object) == object && not_valid == 0);
    CHECK(GC_is_valid_displacement(object + 8) == object + 8 && not_valid == 0);
    CHECK(GC_is_valid_displacement(&local) == &local && not_valid == 0);
    CHECK(GC_is_valid_displacement(0) == 0 && not_valid == 0);
    GC_register_displacement(24);

    size_t size = 0;
    CHECK(GC_get_kind_and_size(GC_malloc_atomic(100), &size) == 0 && size >= 100);
    CHECK(GC_get_kind_and_size(large, &size) == 1 && size >= 100000);
    char said[1000];
    SHOW(again("same", said, sizeof said));
    return 0;
}
