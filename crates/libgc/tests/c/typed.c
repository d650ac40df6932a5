/* Objects whose layout a bitmap describes: short and long bitmaps, arrays of objects, and words that are no
references. */
#include "check.h"
#include <gc/gc_typed.h>
#include <stddef.h>

#define COUNT 200
#define WORDS 300
static void *keep[COUNT];
static int dead[WORDS];
static intptr_t question;

static void on_death(void *object, void *data) {
    intptr_t value = (intptr_t)data;
    if (value >> 16 == question)
        dead[value & 0xffff]++;
}

static void *watch(int word) {
    void *object = GC_malloc(20);
    GC_register_finalizer_no_order(object, on_death, (void *)(question << 16 | word), 0, 0);
    return object;
}

static GC_word bits[(WORDS + 63) / 64];
static int words, elements, variant;
static GC_descr descriptor;
static int cleared;

static void fill(void) {
    size_t bytes = (size_t)words * sizeof(GC_word);
    for (int i = 0; i < COUNT; i++) {
        GC_word *object = elements ? GC_calloc_explicitly_typed((size_t)elements, bytes, descriptor)
                          : variant ? GC_malloc_explicitly_typed_ignore_off_page(bytes, descriptor)
                                    : GC_malloc_explicitly_typed(bytes, descriptor);
        int all = words * (elements ? elements : 1);
        cleared &= is_filled(object, 0, (size_t)all * sizeof(GC_word));
        for (int j = 0; j < all; j++)
            object[j] = (GC_word)watch(j % words);
        keep[i] = object;
    }
}

/* Words whose bit is set keep alive what they refer to; others do not. */
static void try(const char *name) {
    memset(dead, 0, sizeof dead);
    memset(keep, 0, sizeof keep);
    question++;
    cleared = 1;
    descriptor = GC_make_descriptor(bits, (size_t)words);
    below(fill);
    collect_well();
    int lost = 0, kept = 0;
    long all = (long)COUNT * (elements ? elements : 1);
    for (int j = 0; j < words; j++)
        if (GC_get_bit(bits, j))
            lost += dead[j] > 0;
        else
            kept += !MOST(dead[j], all);
    printf("%s%s: cleared %d, words that lost something: %d, words that kept something: %d\n", name,
           elements ? ", array" : "", cleared, lost, kept);
}

static void layout(const char *name, int length) {
    words = length;
    for (variant = 0; variant < 2; variant++) {
        elements = 0;
        try(name);
    }
    for (elements = 1; elements <= 9; elements += 4)
        try(name);
    memset(bits, 0, sizeof bits);
}

struct tree {
    long number;
    struct tree *left;
    long not_this;
    struct tree *right;
    double weight;
};

static GC_descr tree_type;

static struct tree *build(int depth) {
    if (!depth)
        return 0;
    struct tree *tree = GC_MALLOC_EXPLICITLY_TYPED(sizeof *tree, tree_type);
    tree->number = depth;
    tree->left = build(depth - 1);
    tree->right = build(depth - 1);
    return tree;
}

static long sum(const struct tree *tree) {
    return tree ? tree->number + sum(tree->left) + sum(tree->right) : 0;
}

int main(void) {
    GC_INIT();
    GC_set_bit(bits, 0);
    layout("first of one", 1);
    GC_set_bit(bits, 1);
    layout("second of three", 3);
    GC_set_bit(bits, 0);
    GC_set_bit(bits, 1);
    layout("first two of four", 4);
    layout("none of six", 6);
    for (int i = 0; i < 8; i++)
        GC_set_bit(bits, i);
    layout("all of eight", 8);
    for (int i = 0; i < 62; i += 3)
        GC_set_bit(bits, i);
    layout("each third of 62", 62);
    for (int i = 1; i < 70; i += 2)
        GC_set_bit(bits, i);
    layout("each second of 70", 70);
    GC_set_bit(bits, 63);
    layout("the last of 64", 64);
    GC_set_bit(bits, 64);
    layout("the last of 65", 65);
    GC_set_bit(bits, 5);
    GC_set_bit(bits, 130);
    GC_set_bit(bits, 199);
    layout("some of 200", 200);

    GC_word type[GC_BITMAP_SIZE(struct tree)] = {0};
    GC_set_bit(type, GC_WORD_OFFSET(struct tree, left));
    GC_set_bit(type, GC_WORD_OFFSET(struct tree, right));
    tree_type = GC_make_descriptor(type, GC_WORD_LEN(struct tree));
    CHECK(tree_type == GC_make_descriptor(type, GC_WORD_LEN(struct tree)));
    struct tree *volatile tree = build(12);
    long expected = sum(tree);
    for (int i = 0; i < 5; i++) {
        struct tree *volatile other = build(11);
        GC_gcollect();
        GC_reachable_here(other);
    }
    CHECK(sum(tree) == expected);
    CHECK(GC_calloc_explicitly_typed(0, 16, tree_type) != 0);
    size_t quarter = (size_t)-1 / 4;
    __asm__("" : "+r"(quarter));
    CHECK(GC_calloc_explicitly_typed(quarter, 100, tree_type) == 0);
    CHECK(GC_calloc_explicitly_typed(100, quarter, tree_type) == 0);
    long *numbers = GC_CALLOC_EXPLICITLY_TYPED(1000, sizeof(long), 0);
    CHECK(is_filled(numbers, 0, 8000));
    return 0;
}
