/* Finding leaks with the header that replaces malloc by the collector. */
#define GC_DEBUG
#include "check.h"
#include <gc/leak_detector.h>

static char *volatile held[10];

static void lose(void) {
    held[0] = malloc(10);
    held[1] = calloc(4, 5);
    held[2] = realloc(malloc(20), 200);
    held[3] = strdup("a text");
    held[4] = strndup("a text", 3);
    held[5] = malloc(30);
    free(held[5]);
    held[5] = 0;
    int sound = is_filled(held[1], 0, 20) && !strcmp(held[3], "a text") && !strcmp(held[4], "a t");
    CHECK(sound);
    memset((void *)held, 0, sizeof held);
}

static void keep(void) {
    void *aligned = 0;
    held[6] = memalign(64, 100);
    if (posix_memalign(&aligned, 128, 100) == 0)
        held[7] = aligned;
    CHECK((uintptr_t)held[6] % 64 == 0 && (uintptr_t)held[7] % 128 == 0);
}

int main(int count, char **arguments) {
    if (count > 1) {
        GC_set_find_leak(1);
        GC_INIT();
        below(keep);
        below(lose);
        wipe();
        CHECK_LEAKS();
        wipe();
        CHECK_LEAKS();
        return 0;
    }
    char said[4000];
    SHOW(again("part", said, sizeof said));
    SHOW(count_of(said, "leak_detector.c:"));
    SHOW(count_of(said, "PTRFREE"));
    return 0;
}
