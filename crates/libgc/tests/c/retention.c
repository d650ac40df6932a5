/* Which references keep an object alive, and which do not. */
#include "check.h"

#define COUNT 500
static int died;
static void *kept[COUNT];
static GC_hidden_pointer disguised[COUNT];

/* Number of the present question. Objects of earlier questions, which may die late, do not count. */
static intptr_t question;

static void on_death(void *object, void *data) { died += (intptr_t)data == question; }

static void *watched(size_t bytes, int atomic) {
    void *object = atomic ? GC_malloc_atomic(bytes) : GC_malloc(bytes);
    GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
    return object;
}

static size_t size = 48;
static ptrdiff_t offset;
static int atomic;

static void drop_all(void) {
    for (int i = 0; i < COUNT; i++)
        watched(size, atomic);
}

static void keep_at_offset(void) {
    for (int i = 0; i < COUNT; i++)
        kept[i] = (char *)watched(size, atomic) + offset;
}

static void disguise(void) {
    for (int i = 0; i < COUNT; i++)
        disguised[i] = GC_HIDE_POINTER(watched(size, atomic));
}

static void begin(action what) {
    memset(kept, 0, sizeof kept);
    question++;
    died = 0;
    below(what);
    collect_well();
}

static void offsets(void) {
    static const size_t sizes[] = {16, 48, 100, 1000, 3000, 5000, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size = sizes[i];
        for (int j = 0; j < 4; j++) {
            offset = j == 0   ? 0
                     : j == 1 ? (ptrdiff_t)size / 2
                     : j == 2 ? (ptrdiff_t)size - 1
                              : (ptrdiff_t)size;
            begin(keep_at_offset);
            printf("%zu bytes, at %s: none died: %s\n", size,
                   j == 0 ? "the start" : j == 1 ? "the middle" : j == 2 ? "the last byte" : "the end",
                   died == 0 ? "yes" : "no");
        }
    }
    size = 48;
    offset = 0;
}

static void in_atomic(void) {
    void **hiding = GC_malloc_atomic(COUNT * sizeof *hiding);
    for (int i = 0; i < COUNT; i++)
        hiding[i] = watched(size, 0);
    kept[0] = hiding;
}

static void in_composite(void) {
    void **holding = GC_malloc(COUNT * sizeof *holding);
    for (int i = 0; i < COUNT; i++)
        holding[i] = watched(size, 0);
    kept[0] = holding;
}

static void in_uncollectable(void) {
    void **holding = GC_malloc_uncollectable(COUNT * sizeof *holding);
    for (int i = 0; i < COUNT; i++)
        holding[i] = watched(size, 0);
    disguised[0] = GC_HIDE_POINTER(holding);
}

static void in_atomic_uncollectable(void) {
    void **holding = GC_malloc_atomic_uncollectable(COUNT * sizeof *holding);
    for (int i = 0; i < COUNT; i++)
        holding[i] = watched(size, 0);
    disguised[0] = GC_HIDE_POINTER(holding);
}

static void in_malloc(void) {
    void **holding = malloc(COUNT * sizeof *holding);
    for (int i = 0; i < COUNT; i++)
        holding[i] = watched(size, 0);
    disguised[0] = GC_HIDE_POINTER(holding);
}

static NOINLINE void on_stack(void) {
    void *volatile local[COUNT];
    question++;
    died = 0;
    for (int i = 0; i < COUNT; i++)
        local[i] = watched(size, 0);
    collect_well();
    CHECK(died == 0);
    for (int i = 0; i < COUNT; i++)
        local[i] = (char *)local[i] + 47;
    collect_well();
    CHECK(died == 0);
    for (int i = 0; i < COUNT; i++)
        local[i] = 0;
    collect_well();
    CHECK(MOST(died, COUNT));
}

static NOINLINE void in_registers(void) {
    question++;
    register void *a __asm__(ONE_REGISTER) = watched(size, 0);
    __asm__ volatile("" : "+r"(a));
    register void *b __asm__(ANOTHER_REGISTER) = watched(size, 0);
    __asm__ volatile("" : "+r"(a), "+r"(b));
    died = 0;
    GC_gcollect();
    GC_invoke_finalizers();
    __asm__ volatile("" : "+r"(a), "+r"(b));
    CHECK(died == 0);
    GC_reachable_here(a);
    GC_reachable_here(b);
}

static long depth(long left) {
    void *volatile mine = watched(size, 0);
    long sum = 1;
    if (left > 0)
        sum += depth(left - 1);
    else
        collect();
    memset(mine, 1, size);
    return sum;
}

/* Objects whose only reference is to one of their first 256 bytes, which is enough for objects of
`ignore_off_page`. */
static void keep_near_start(void) {
    for (int i = 0; i < COUNT; i++) {
        char *object = i % 2 ? GC_malloc_ignore_off_page(size) : GC_malloc_atomic_ignore_off_page(size);
        GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
        kept[i] = object + i % 256;
    }
}

/* If interior pointers do not count, pointers with a registered displacement still do, wherever they are
stored. */
static void keep_displaced(void) {
    void **objects = GC_malloc(COUNT * sizeof *objects);
    for (int i = 0; i < COUNT; i++)
        objects[i] = (char *)watched(size, 0) + (i % 3) * 8;
    kept[0] = (char *)objects + 8;
}

static int displaced(void) {
    GC_set_all_interior_pointers(0);
    GC_register_displacement(8);
    GC_INIT();
    GC_register_displacement(16);
    begin(keep_displaced);
    CHECK(died == 0);
    begin(drop_all);
    CHECK(MOST(died, COUNT));
    below(on_stack);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1)
        return displaced();
    GC_INIT();
    begin(drop_all);
    CHECK(MOST(died, COUNT));
    atomic = 1;
    begin(drop_all);
    CHECK(MOST(died, COUNT));
    size = 30000;
    begin(drop_all);
    CHECK(MOST(died, COUNT));
    atomic = 0;
    begin(drop_all);
    CHECK(MOST(died, COUNT));
    size = 48;
    offsets();
    begin(disguise);
    printf("disguised\n");
    CHECK(MOST(died, COUNT));
    CHECK(GC_REVEAL_POINTER(GC_HIDE_POINTER(kept)) == (void *)kept);
    begin(in_atomic);
    printf("held from an atomic object\n");
    CHECK(MOST(died, COUNT));
    begin(in_composite);
    printf("held from an object\n");
    CHECK(died == 0);
    begin(in_uncollectable);
    printf("held from an uncollectable object\n");
    CHECK(died == 0);
    GC_free(GC_REVEAL_POINTER(disguised[0]));
    collect_well();
    CHECK(MOST(died, COUNT));
    begin(in_atomic_uncollectable);
    printf("held from an atomic uncollectable object\n");
    CHECK(MOST(died, COUNT));
    begin(in_malloc);
    printf("held from malloc's memory\n");
    CHECK(MOST(died, COUNT));
    below(on_stack);
    below(in_registers);
    died = 0;
    question++;
    long length = depth(2000);
    CHECK(length == 2001);
    CHECK(died == 0);
    for (size = 100; size <= 100000; size *= 10) {
        begin(keep_near_start);
        CHECK(died == 0);
    }
    char said[1000];
    SHOW(again("displaced", said, sizeof said));
    return 0;
}
