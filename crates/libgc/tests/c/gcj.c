/* Objects whose first word points to a table that holds their descriptor. */
#include "check.h"
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>

#define COUNT 300
struct table {
    void *some_method;
    GC_word descriptor;
};

struct thing {
    struct table *table;
    void *seen, *not_seen, *also_seen;
};

static void *keep[COUNT];
static int dead_seen, dead_not_seen, plain_calls, debug_calls;
static intptr_t question;

static void on_seen(void *object, void *data) { dead_seen += (intptr_t)data == question; }
static void on_not_seen(void *object, void *data) { dead_not_seen += (intptr_t)data == question; }

static void *watch(GC_finalization_proc how) {
    void *object = GC_malloc(24);
    GC_register_finalizer_no_order(object, how, (void *)question, 0, 0);
    return object;
}

static struct GC_ms_entry *mark(GC_word *address, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                GC_word environment) {
    struct thing *thing = environment == 1 ? GC_USR_PTR_FROM_BASE(address) : (void *)address;
    *(environment == 1 ? &debug_calls : &plain_calls) += 1;
    if (!thing->table)
        return top;
    top = GC_MARK_AND_PUSH(thing->seen, top, limit, &thing->seen);
    return GC_MARK_AND_PUSH(thing->also_seen, top, limit, &thing->also_seen);
}

static struct table table;
static int how;
static int right = 1;

static void fill(void) {
    for (int i = 0; i < COUNT; i++) {
        size_t bytes = how == 2 ? 100000 : sizeof(struct thing);
        struct thing *thing = how == 0   ? GC_gcj_malloc(bytes, &table)
                              : how == 1 ? GC_debug_gcj_malloc(bytes, &table, __FILE__, __LINE__)
                                         : GC_gcj_malloc_ignore_off_page(bytes, &table);
        right &= thing->table == &table && is_filled(thing + 1, 0, bytes - sizeof *thing) && !thing->seen &&
                 !thing->not_seen;
        int kind = GC_get_kind_and_size(GC_base(thing), 0);
        right &= kind == (how == 1 ? GC_gcj_debug_kind : GC_gcj_kind);
        thing->seen = watch(on_seen);
        thing->not_seen = watch(on_not_seen);
        thing->also_seen = watch(on_seen);
        keep[i] = thing;
    }
}

static void try(const char *name, int which, GC_word descriptor) {
    memset(keep, 0, sizeof keep);
    how = which;
    table.descriptor = descriptor;
    question++;
    dead_seen = dead_not_seen = 0;
    below(fill);
    collect_well();
    printf("%s: seen %s, not seen %s, right %d\n", name, dead_seen ? "die" : "live",
           dead_not_seen == 0 ? "live" : MOST(dead_not_seen, COUNT) ? "die" : "partly", right);
}

int main(void) {
    GC_INIT();
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)mark);
    GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)mark);
    CHECK(GC_gcj_kind > 0 && GC_gcj_debug_kind > 0);
    try("length", 0, sizeof(struct thing) | GC_DS_LENGTH);
    try("bitmap", 0, (GC_word)5 << 60 | GC_DS_BITMAP);
    try("procedure", 0, GC_MAKE_PROC(GC_GCJ_RESERVED_MARK_PROC_INDEX, 0));
    CHECK(plain_calls >= COUNT && debug_calls == 0);
    try("large, bitmap", 2, (GC_word)5 << 60 | GC_DS_BITMAP);
    try("debug", 1, sizeof(struct thing) | GC_DS_LENGTH);
    CHECK(debug_calls >= COUNT);
    return 0;
}
