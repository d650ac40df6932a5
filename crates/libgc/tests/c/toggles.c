/* Toggle references: before each collection the program says which objects are kept. */
#include "check.h"

#define COUNT 300
static GC_hidden_pointer words[COUNT];
static GC_ToggleRefStatus answer;
static int asked, wrong;

static GC_ToggleRefStatus on_toggle(void *object) {
    asked++;
    wrong += GC_base(object) != object;
    return answer;
}

static int strong;

static void make(void) {
    for (int i = 0; i < COUNT; i++) {
        void *object = GC_malloc(40);
        words[i] = GC_HIDE_POINTER(object);
        GC_general_register_disappearing_link((void **)&words[i], object);
        if (GC_toggleref_add(object, strong) != GC_SUCCESS)
            wrong++;
    }
}

static int gone(void) {
    int count = 0;
    for (int i = 0; i < COUNT; i++)
        count += words[i] == 0;
    return count;
}

static const char *state(void) {
    return gone() == 0 ? "all live" : MOST(gone(), COUNT) ? "gone" : FEW(gone(), COUNT) ? "live" : "some";
}

static void try(int is_strong, GC_ToggleRefStatus first, GC_ToggleRefStatus second) {
    strong = is_strong;
    answer = first;
    asked = 0;
    below(make);
    collect();
    printf("%s, answer %d: %s, asked for each: %s; ", is_strong ? "strong" : "weak", (int)first, state(),
           MOST(asked, COUNT) ? "yes" : "no");
    answer = second;
    asked = 0;
    collect();
    collect();
    printf("then %d: %s, asked for all: %s\n", (int)second, state(),
           asked == 0 ? "no" : asked <= COUNT ? "once" : "twice");
    answer = GC_TOGGLE_REF_DROP;
    collect_well();
    CHECK(MOST(gone(), COUNT));
    asked = 0;
    collect();
    CHECK(asked <= 2);
}

int main(void) {
    GC_INIT();
    CHECK(GC_get_toggleref_func() == 0);
    SHOW(GC_toggleref_add(GC_malloc(10), 1));
    GC_set_toggleref_func(on_toggle);
    CHECK(GC_get_toggleref_func() == on_toggle);
    /* In the first round the collector's own table grows, and an old copy of it may still hold references. */
    answer = GC_TOGGLE_REF_DROP;
    below(make);
    collect_well();
    for (int is_strong = 1; is_strong >= 0; is_strong--)
        for (int first = GC_TOGGLE_REF_DROP; first <= GC_TOGGLE_REF_WEAK; first++)
            for (int second = GC_TOGGLE_REF_DROP; second <= GC_TOGGLE_REF_WEAK; second++)
                try(is_strong, (GC_ToggleRefStatus)first, (GC_ToggleRefStatus)second);
    CHECK(wrong == 0);
    GC_set_toggleref_func(0);
    CHECK(GC_get_toggleref_func() == 0);
    return 0;
}
