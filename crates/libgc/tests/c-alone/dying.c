/* Objects that die while they are in swap, many in each superpage, and are read once more: by their
finalizers (without an order, and in libgc's order) or by a disclaim procedure. Each round pages them out and
collects. */
#include "sound.h"
#include <gc/gc_disclaim.h>
#include <sys/mman.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

/* Chains of RANKS objects, each of which refers to the next. Objects of one rank lie side by side, so the
objects of a chain are far apart. */
#define RANKS 4
#define CHAINS 6000
/* Number of objects that a stack or a register may keep by accident. */
#define FEW 40

struct thing {
    struct thing *next;
    struct node *own;
    long rank, chain;
    long rest[8];
};

static struct thing **things;
static char *lowest = (char *)UINTPTR_MAX, *highest;
static char ended[RANKS][CHAINS];
static long done, early, broken, looped;

static void seen(void *at) {
    lowest = (char *)at < lowest ? at : lowest;
    highest = (char *)at > highest ? at : highest;
}

static void end(struct thing *thing) {
    struct node *own = thing->own;
    done++;
    broken += ended[thing->rank][thing->chain]++ || !own || own->check != mix(own->number);
    early += thing->rank > 0 && !ended[thing->rank - 1][thing->chain];
}

static void on_death(void *object, void *data) {
    (void)data;
    end(object);
}

static void on_loop(void *object, void *data) {
    (void)object, (void)data;
    looped++;
}

static void note_warning(char *message, GC_word value) { (void)message, (void)value; }

static void page_out(void) {
    uintptr_t start = (uintptr_t)lowest & -4096, end = ((uintptr_t)highest + 4096) & -4096;
    /* Several times, because pages in the kernel's per-processor queues are passed over. */
    for (int i = 0; i < 3; i++)
        madvise((void *)start, end - start, MADV_PAGEOUT);
}

static const struct GC_finalizer_closure closure = {on_death, 0};

static __attribute__((noinline)) void make(const char *how) {
    int disclaimed = !strcmp(how, "disclaimed"), ordered = !strcmp(how, "ordered");
    things = GC_MALLOC(RANKS * CHAINS * sizeof *things);
    for (long i = RANKS * CHAINS - 1; i >= 0; i--) {
        struct thing *thing =
            disclaimed ? GC_finalized_malloc(sizeof *thing, &closure) : GC_MALLOC(sizeof *thing);
        things[i] = thing;
        thing->rank = i / CHAINS;
        thing->chain = i % CHAINS;
        thing->own = node(i, 0, 0);
        thing->next = i + CHAINS < RANKS * CHAINS ? things[i + CHAINS] : 0;
        seen(thing);
        seen(thing->own);
        if (ordered)
            GC_REGISTER_FINALIZER(thing, on_death, 0, 0, 0);
        else if (!disclaimed)
            GC_REGISTER_FINALIZER_NO_ORDER(thing, on_death, 0, 0, 0);
    }
    if (!ordered)
        return;
    /* Objects in a cycle have no order, so their finalizers never run: two that refer to each other, far
    apart, or one that refers to itself. An object that refers to itself is finalized if its finalizer was
    registered with _IGNORE_SELF. */
    for (long i = 0; i < 2 * FEW; i++) {
        struct thing *a = GC_MALLOC(sizeof *a), *spare = GC_MALLOC(20000), *b = GC_MALLOC(sizeof *b);
        a->next = i % 2 ? a : b;
        b->next = a;
        seen(a), seen(b), seen(spare);
        GC_REGISTER_FINALIZER(a, on_loop, 0, 0, 0);
        if (i % 2 == 0)
            GC_REGISTER_FINALIZER(b, on_loop, 0, 0, 0);
        struct thing *alone = GC_MALLOC(sizeof *alone);
        *alone = (struct thing){alone, node(i, 0, 0), 0, 0, {0}};
        seen(alone);
        GC_REGISTER_FINALIZER_IGNORE_SELF(alone, on_loop, (void *)1, 0, 0);
    }
}

static __attribute__((noinline)) void clear_stack(void) {
    volatile char room[20000];
    memset((char *)room, 0, sizeof room);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "unordered";
    int ordered = !strcmp(how, "ordered"), in_order = strcmp(how, "unordered") != 0;
    GC_INIT();
    GC_init_finalized_malloc();
    GC_set_warn_proc(note_warning);
    live = tree(DEPTH, 0);
    make(how);
    clear_stack();
    GC_gcollect();
    things = 0;
    puts("they die");
    fflush(stdout);
    for (int round = 0; round < RANKS; round++) {
        long before = done;
        page_out();
        GC_gcollect();
        printf("round %d: %ld\n", round, done - before);
        fflush(stdout);
        long expected = in_order ? CHAINS : round ? 0 : RANKS * CHAINS;
        /* From the second round on, summaries from earlier rounds may keep a few objects for longer. */
        long off = round == 0 || count > 2 ? FEW : CHAINS / 4;
        if (labs(done - before - expected) > off)
            fail("as many as are due");
    }
    if (broken)
        fail("each once, with what it refers to");
    if (in_order && early)
        fail("in order");
    if (ordered && (looped > 2 * FEW || looped < FEW))
        fail("those that refer to themselves only, where that is allowed");
    return sound();
}
