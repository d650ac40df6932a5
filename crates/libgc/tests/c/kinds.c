/* Kinds of objects that a program defines: descriptors of all four tags, mark procedures, and lists of free
objects. */
#include "check.h"
#include <gc/gc_mark.h>

#define COUNT 300
static void *keep[COUNT];
static GC_hidden_pointer followed[COUNT], ignored[COUNT];
static unsigned kind;
static int dead_followed, dead_ignored, calls, wrong_environment;
static intptr_t question;

static void on_followed(void *object, void *data) { dead_followed += (intptr_t)data == question; }
static void on_ignored(void *object, void *data) { dead_ignored += (intptr_t)data == question; }

static void *watch(GC_finalization_proc how) {
    void *object = GC_malloc(24);
    GC_register_finalizer_no_order(object, how, (void *)question, 0, 0);
    return object;
}

/* Words 1 and 3 of an object are references; word 2 is not. The last word or the first may be a
descriptor. */
static GC_word in_object, at_start;
static size_t bytes = 64;

static void fill(void) {
    for (int i = 0; i < COUNT; i++) {
        GC_word *object = GC_generic_malloc(bytes, (int)kind);
        object[0] = at_start;
        object[bytes / sizeof *object - 1] = in_object;
        object[1] = (GC_word)watch(on_followed);
        object[2] = (GC_word)watch(on_ignored);
        object[3] = (GC_word)watch(on_followed);
        keep[i] = object;
    }
}

static void try(const char *name) {
    memset(keep, 0, sizeof keep);
    question++;
    dead_followed = dead_ignored = 0;
    below(fill);
    collect_well();
    printf("%s: followed %s, ignored %s\n", name,
           dead_followed == 0 ? "live" : MOST(dead_followed, 2 * COUNT) ? "die" : "partly",
           dead_ignored == 0 ? "live" : MOST(dead_ignored, COUNT) ? "die" : "partly");
    int own = 1;
    for (int i = 0; i < COUNT; i++)
        own &= GC_get_kind_and_size(keep[i], 0) == (int)kind;
    CHECK(own);
}

static struct GC_ms_entry *mark(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                GC_word environment) {
    calls++;
    wrong_environment += environment != 5;
    for (int i = 1; i <= 3; i += 2)
        top = GC_MARK_AND_PUSH((void *)object[i], top, limit, (void **)&object[i]);
    return top;
}

static struct GC_ms_entry *mark_nothing(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                        GC_word environment) {
    return top;
}

static void *under_lock(void *data) {
    void **list = GC_new_free_list_inner();
    kind = GC_new_kind_inner(list, 0 | GC_DS_LENGTH, 1, 1);
    *(unsigned *)data = GC_new_proc_inner(mark_nothing);
    return list;
}

static unsigned new_kind(GC_word descriptor, int size, int clear) {
    void **list = GC_new_free_list();
    if (!list)
        abort();
    return kind = GC_new_kind(list, descriptor, size, clear);
}

static void *elder;
struct list {
    struct list *link;
    long number;
};

/* A long chain of objects of a kind with a mark procedure. */
static struct GC_ms_entry *mark_list(GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *limit,
                                     GC_word environment) {
    struct list *list = (struct list *)object;
    return GC_MARK_AND_PUSH(list->link, top, limit, (void **)&list->link);
}

static void make_list(void) {
    struct list *list = 0;
    for (long i = 0; i < 50000; i++) {
        struct list *next = GC_generic_malloc(sizeof *next, (int)kind);
        next->link = list;
        next->number = i;
        list = next;
    }
    elder = list;
}

static int too_many(const char *what) {
    for (int i = 0; i < 100; i++)
        if (!strcmp(what, "kinds"))
            new_kind(GC_DS_LENGTH, 1, 1);
        else
            GC_new_proc(mark_nothing);
    return 0;
}

/* Descriptors of a kind. Returns the mark procedure. */
static unsigned of_kinds(void) {
    CHECK(new_kind(GC_DS_LENGTH, 1, 1) >= 4);
    unsigned before = kind;
    try("a length that is the size");
    CHECK(new_kind(0, 0, 0) == before + 1);
    try("no references");
    new_kind(16 | GC_DS_LENGTH, 0, 1);
    try("a length of two words");
    new_kind(((GC_word)5 << 60) | GC_DS_BITMAP, 0, 1);
    try("a bitmap of the words 1 and 3");
    unsigned procedure = GC_new_proc(mark);
    CHECK(procedure >= GC_RESERVED_MARK_PROCS && procedure < GC_MAX_MARK_PROCS);
    new_kind(GC_MAKE_PROC(procedure, 5), 0, 1);
    try("a procedure");
    CHECK(calls >= COUNT && wrong_environment == 0);
    CHECK(GC_new_proc(mark_nothing) == procedure + 1);
    new_kind(GC_MAKE_PROC(procedure + 1, 0), 0, 1);
    try("a procedure that does nothing");
    return procedure;
}

static void of_objects(unsigned procedure) {
    /* The descriptor is the first word of the object. */
    new_kind(0 | GC_DS_PER_OBJECT, 0, 1);
    at_start = ((GC_word)5 << 60) | GC_DS_BITMAP;
    try("a bitmap in the first word");
    at_start = 16 | GC_DS_LENGTH;
    try("a length in the first word");
    at_start = GC_MAKE_PROC(procedure, 5);
    try("a procedure in the first word");
    at_start = 0;
    /* The descriptor is the last word of the object, found from its size. */
    new_kind((GC_word)(-sizeof(GC_word)) | GC_DS_PER_OBJECT, 1, 1);
    bytes = 63 / 8 * 8 + 8 - 1;
    bytes = 56;
    in_object = ((GC_word)5 << 60) | GC_DS_BITMAP;
    GC_word *probe = GC_generic_malloc(bytes, (int)kind);
    bytes = GC_size(probe);
    if (bytes % 16 == 0 && GC_get_all_interior_pointers())
        bytes -= 1;
    CHECK(GC_size(GC_generic_malloc(bytes, (int)kind)) / 8 == GC_size(probe) / 8);
    bytes = GC_size(probe) / 8 * 8;
    in_object = 0;
    /* The first word points to a type; the descriptor is the second word of the type. */
    static GC_word type[2];
    type[1] = ((GC_word)5 << 60) | GC_DS_BITMAP;
    bytes = 64;
    new_kind((GC_word)(-(GC_signed_word)(sizeof(GC_word) + GC_INDIR_PER_OBJ_BIAS)) | GC_DS_PER_OBJECT, 0, 1);
    at_start = (GC_word)type;
    try("a bitmap in the type");
    type[1] = GC_MAKE_PROC(procedure, 5);
    try("a procedure in the type");
    type[1] = 32 | GC_DS_LENGTH;
    try("a length in the type");
    at_start = 0;
}

static void lists(void) {
    bytes = 64;
    new_kind(GC_MAKE_PROC(GC_new_proc(mark_list), 0), 0, 1);
    below(make_list);
    collect_well();
    long expected = 50000;
    int whole = 1;
    for (struct list *list = elder; list; list = list->link)
        whole &= list->number == --expected;
    CHECK(whole && expected == 0);

    /* Objects are cleared if their kind asks for that. */
    elder = 0;
    collect_well();
    int cleared = 1;
    for (int i = 0; i < 50000; i++) {
        struct list *list = GC_generic_malloc(sizeof *list, (int)kind);
        cleared &= !list->link && !list->number;
        list->number = 1;
    }
    CHECK(cleared);
}

int main(int count, char **arguments) {
    GC_INIT();
    if (count > 1)
        return too_many(arguments[1]);
    (void)followed;
    (void)ignored;
    unsigned procedure = of_kinds();
    of_objects(procedure);
    unsigned inner = 0;
    CHECK(GC_call_with_alloc_lock(under_lock, &inner) != 0);
    CHECK(inner == procedure + 2);
    try("made with the lock held");

    lists();
    CHECK(GC_mark_and_push != 0);
    CHECK(GC_get_debug_header_size() == GC_debug_header_size);
    CHECK(GC_USR_PTR_FROM_BASE((char *)0) == (void *)GC_get_debug_header_size());
    char *object = GC_malloc(100);
    char said[1000];
    SHOW(again("kinds", said, sizeof said));
    SHOW(again("procedures", said, sizeof said));
    CHECK((void *)object >= GC_least_plausible_heap_addr &&
          (void *)object <= GC_greatest_plausible_heap_addr);
    return 0;
}
