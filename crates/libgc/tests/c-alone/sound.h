/* Shared by the programs here: a live structure with known contents, and garbage beside it. Each program runs
over our library only. If all live objects are as they were, it prints `sound` and exits with 0. */
#ifndef SOUND_H
#define SOUND_H

#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <gc/gc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *left, *right;
    uint64_t number, check;
};

static inline uint64_t mix(uint64_t x) { return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u; }

__attribute__((unused)) static void fail(const char *why) {
    fprintf(stderr, "not sound: %s\n", why);
    _exit(9);
}

/* Makes a node. The program ends if there is no memory for it. */
static struct node *node(uint64_t number, struct node *left, struct node *right) {
    struct node *node = GC_MALLOC(sizeof *node);
    if (!node)
        fail("no memory");
    if (node->left || node->right || node->number || node->check)
        fail("handed out in use");
    *node = (struct node){left, right, number, mix(number)};
    return node;
}

/* A tree of 2^depth - 1 nodes, numbered from `number`. */
static struct node *tree(int depth, uint64_t number) {
    if (depth == 0)
        return 0;
    uint64_t half = ((uint64_t)1 << (depth - 1)) - 1;
    struct node *left = tree(depth - 1, number);
    struct node *right = tree(depth - 1, number + half);
    return node(number + 2 * half, left, right);
}

/* Whether a tree is as it was made. */
static int is_tree(const struct node *tree, int depth, uint64_t number) {
    if (depth == 0)
        return tree == 0;
    uint64_t half = ((uint64_t)1 << (depth - 1)) - 1;
    return tree && tree->number == number + 2 * half && tree->check == mix(tree->number) &&
           is_tree(tree->left, depth - 1, number) && is_tree(tree->right, depth - 1, number + half);
}

/* Makes this many bytes of garbage, some of it in large objects and some in objects without references. */
__attribute__((unused)) static void churn(size_t bytes) {
    unsigned seed = 7;
    while (bytes > 0) {
        seed = seed * 1664525u + 1013904223u;
        size_t size = (seed >> 8) % 64 ? 16 + (seed >> 16) % 200 : 20000;
        char *object = (seed >> 9) & 1 ? GC_MALLOC(size) : GC_MALLOC_ATOMIC(size);
        if (object)
            memset(object, 0x5a, size);
        bytes -= size < bytes ? size : bytes;
    }
}

#define DEPTH 15

__attribute__((unused)) static struct node *live;

__attribute__((unused)) static void check_live(void) {
    if (!is_tree(live, DEPTH, 0))
        fail("the live tree");
}

__attribute__((unused)) static int sound(void) {
    check_live();
    puts("sound");
    fflush(stdout);
    return 0;
}

#endif
