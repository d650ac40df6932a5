/* Roots: where the collector looks for references outside of objects, and where it does not. */
#include "check.h"
#include <dlfcn.h>
#include <gc/gc_mark.h>
#include <sys/mman.h>

#define COUNT 200
static int died;
static void *slots[COUNT];
static void *spare[COUNT];
static void **hidden;

static intptr_t question;

static void on_death(void *object, void *data) { died += (intptr_t)data == question; }

static void **target;

static void fill(void) {
    for (int i = 0; i < COUNT; i++) {
        void *object = GC_malloc(40);
        GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
        target[i] = object;
    }
}

static void fill_into(void **place) {
    died = 0;
    question++;
    target = place;
    below(fill);
    collect_well();
}

static int asked_of_plugin, asked_of_program, refuse;

static int has_roots(const char *name, void *start, size_t bytes) {
    if (strstr(name, "roots.so")) {
        asked_of_plugin = start != 0 && bytes > 0;
        return !refuse;
    }
    if (!*name)
        asked_of_program = 1;
    return 1;
}

static void clear(void **place) {
    for (int i = 0; i < COUNT; i++)
        place[i] = 0;
    collect_well();
}

static void added_roots(void) {
    fill_into(hidden);
    printf("memory that is no root\n");
    CHECK(MOST(died, COUNT));

    GC_add_roots(hidden, hidden + COUNT);
    fill_into(hidden);
    printf("added\n");
    CHECK(died == 0);
    CHECK(GC_is_tmp_root(hidden) == 0);
    GC_add_roots(hidden, hidden + COUNT);
    collect_well();
    CHECK(died == 0);
    /* Only ranges that lie entirely inside the removed one are removed. */
    GC_remove_roots(hidden + 1, hidden + COUNT);
    collect_well();
    CHECK(died == 0);
    GC_remove_roots(hidden + COUNT, hidden);
    collect_well();
    CHECK(died == 0);
    GC_remove_roots((char *)hidden - 100, hidden + COUNT + 10);
    collect_well();
    printf("removed\n");
    CHECK(MOST(died, COUNT));

    /* The ends of the range need not be aligned. */
    GC_add_roots((char *)hidden + 1, (char *)(hidden + COUNT) + 5);
    fill_into(hidden);
    CHECK(died <= 1);
    GC_remove_roots(hidden, hidden + COUNT + 2);
    clear(hidden);

    GC_add_roots(hidden, hidden + COUNT / 2);
    GC_add_roots(hidden + COUNT / 2, hidden + COUNT);
    fill_into(hidden);
    printf("two ranges\n");
    CHECK(died == 0);
    GC_remove_roots(hidden, hidden + COUNT);
    clear(hidden);
    CHECK(MOST(died, COUNT));
}

static void excluded(void) {
    fill_into(slots);
    printf("static data\n");
    CHECK(died == 0);
    CHECK(GC_is_tmp_root(&asked_of_plugin) != 0);
    clear(slots);
    CHECK(MOST(died, COUNT));
    GC_exclude_static_roots(spare, spare + COUNT);
    GC_exclude_static_roots(spare, spare);
    fill_into(spare);
    printf("excluded static data\n");
    CHECK(MOST(died, COUNT));
    memset(spare, 0, sizeof spare);
}

static void libraries(const char *self) {
    char path[4096];
    snprintf(path, sizeof path, "%s.so", self);
    void *library = GC_dlopen(path, RTLD_NOW);
    CHECK(library != 0);
    CHECK(GC_dlopen("/nowhere/at-all.so", RTLD_NOW) == 0);
    void **places = (void **)dlsym(library, "plugin_slots");
    fill_into(places);
    printf("a loaded library's data\n");
    CHECK(died == 0);

    GC_register_has_static_roots_callback(has_roots);
    collect_well();
    CHECK(died == 0);
    CHECK(asked_of_plugin);
    refuse = 1;
    collect_well();
    printf("refused by the callback\n");
    CHECK(MOST(died, COUNT));
    CHECK(asked_of_program);
    refuse = 0;
    fill_into(places);
    CHECK(died == 0);
    GC_register_has_static_roots_callback(0);
    collect_well();
    CHECK(died == 0);
    dlclose(library);
    collect_well();
    printf("unloaded\n");
    CHECK(MOST(died, COUNT));
    /* The same with a library that is not loaded by GC_dlopen. */
    library = dlopen(path, RTLD_NOW);
    places = (void **)dlsym(library, "plugin_slots");
    fill_into(places);
    CHECK(died == 0);
    dlclose(library);
    collect_well();
    CHECK(MOST(died, COUNT));
}

static int pushed;

static void push_more(void) {
    pushed++;
    GC_push_finalizer_structures();
    GC_push_all(hidden, hidden + COUNT / 4);
    GC_push_all_eager(hidden + COUNT / 4, hidden + COUNT / 2);
    GC_push_conditional(hidden + COUNT / 2, hidden + COUNT * 3 / 4, 1);
    GC_push_conditional(hidden + COUNT * 3 / 4, hidden + COUNT, 1);
}

static GC_push_other_roots_proc before;

static void push_and_before(void) {
    push_more();
    if (before)
        before();
}

static void pushed_roots(void) {
    before = GC_get_push_other_roots();
    GC_set_push_other_roots(push_and_before);
    CHECK(GC_get_push_other_roots() == push_and_before);
    fill_into(hidden);
    printf("pushed by the program\n");
    CHECK(died == 0);
    CHECK(pushed >= 4);
    GC_set_push_other_roots(before);
    collect_well();
    CHECK(MOST(died, COUNT));
}

static void cleared(void) {
    GC_add_roots(hidden, hidden + COUNT);
    fill_into(hidden);
    CHECK(died == 0);
    GC_clear_roots();
    collect_well();
    printf("after GC_clear_roots\n");
    CHECK(MOST(died, COUNT));
    /* Static data of loaded libraries are roots again from the next collection on. */
    fill_into(slots);
    CHECK(died == 0);
    GC_add_roots(hidden, hidden + COUNT);
    fill_into(hidden);
    CHECK(died == 0);
}

int main(int count, char **arguments) {
    char self[4000] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    GC_INIT();
    hidden = mmap(0, sizeof(void *) * COUNT + 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
    hidden += 16;
    if (count > 1) {
        GC_set_no_dls(1);
        fill_into(slots);
        CHECK(died == 0);
        return 0;
    }
    added_roots();
    excluded();
    libraries(self);
    pushed_roots();
    cleared();
    char said[100];
    printf("without libraries' data\n");
    SHOW(again("no_dls", said, sizeof said));
    /* No collection may follow, because the collector's own data are among the roots from now on. */
    GC_clear_exclusion_table();
    return 0;
}
