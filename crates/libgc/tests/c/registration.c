/* Threads that register themselves, blocking regions, and bases of stacks. */
#include "check.h"
#include <pthread.h>

#define COUNT 100
static int died;
static intptr_t question;
static void on_death(void *object, void *data) { died += (intptr_t)data == question; }

static void *watched(void) {
    void *object = GC_malloc(40);
    GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
    return object;
}

static volatile int ready, go_on;

static void wait_for(volatile int *what) {
    while (!*what)
        usleep(1000);
}

static NOINLINE void hold(action then) {
    void *volatile objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        objects[i] = watched();
    then();
    memset((void *)objects, 0, sizeof objects);
}

static void pause_here(void) {
    ready = 1;
    wait_for(&go_on);
}

static void *register_and_hold(void *argument) {
    struct GC_stack_base base;
    printf("registered before: %d\n", GC_thread_is_registered());
    SHOW(GC_get_stack_base(&base));
    SHOW(GC_register_my_thread(&base));
    SHOW(GC_register_my_thread(&base));
    CHECK(GC_thread_is_registered() != 0);
    struct GC_stack_base mine = {0};
    void *handle = GC_get_my_stackbottom(&mine);
    CHECK(handle != 0 && mine.mem_base == base.mem_base);
    CHECK((char *)base.mem_base > (char *)&base && (char *)base.mem_base < (char *)&base + (16 << 20));
    hold(pause_here);
    SHOW(GC_unregister_my_thread());
    CHECK(GC_thread_is_registered() == 0);
    SHOW(GC_register_my_thread(&base));
    CHECK(GC_malloc(100) != 0);
    SHOW(GC_unregister_my_thread());
    return 0;
}

static void by_itself(void) {
    pthread_t thread;
    GC_allow_register_threads();
    question++;
    died = 0;
    ready = go_on = 0;
    pthread_create(&thread, 0, register_and_hold, 0);
    wait_for(&ready);
    collect_well();
    CHECK(died == 0);
    go_on = 1;
    pthread_join(thread, 0);
    collect_well();
    CHECK(MOST(died, COUNT));
}

static void *with_base(struct GC_stack_base *base, void *argument) {
    char here;
    CHECK((char *)base->mem_base > &here && (char *)base->mem_base < &here + 4096);
    SHOW(GC_register_my_thread(base));
    hold(collect_well);
    SHOW(GC_unregister_my_thread());
    return argument;
}

static void *call_with_base(void *argument) { return GC_call_with_stack_base(with_base, argument); }

static void with_stack_base(void) {
    pthread_t thread;
    void *result;
    question++;
    died = 0;
    pthread_create(&thread, 0, call_with_base, &died);
    pthread_join(thread, &result);
    CHECK(result == &died);
    collect_well();
    CHECK(MOST(died, COUNT));
}

/* Collections do not wait for a thread in a blocking region. Objects that its stack referred to before the
region live. */
static void *block(void *argument) {
    ready = 1;
    wait_for(&go_on);
    return argument;
}

static void do_block(void) {
    if (GC_do_blocking(block, &died) != &died)
        abort();
}

static void *blocking_thread(void *argument) {
    hold(do_block);
    return 0;
}

static void blocked(void) {
    pthread_t thread;
    question++;
    died = 0;
    ready = go_on = 0;
    GC_pthread_create(&thread, 0, blocking_thread, 0);
    wait_for(&ready);
    collect_well();
    CHECK(died == 0);
    go_on = 1;
    GC_pthread_join(thread, 0);
    collect_well();
    CHECK(MOST(died, COUNT));
}

static int depth;
static void *blocking(void *argument);

static void active_part(void) {
    collect_well();
    CHECK(died == 0);
    if (--depth > 0)
        GC_do_blocking(blocking, 0);
    collect_well();
}

static void *active(void *argument) {
    hold(active_part);
    return argument;
}

static void *blocking(void *argument) {
    /* The collector does not scan this frame. */
    return GC_call_with_gc_active(active, argument);
}

static void start_nested(void) {
    if (GC_do_blocking(blocking, &depth) != &depth)
        abort();
}

static void nested(void) {
    question++;
    died = 0;
    depth = 3;
    hold(start_nested);
    collect_well();
    CHECK(MOST(died, 4 * COUNT));
}

/* If the thread is not in a blocking region, the function is simply called. */
static void *just_called(void *argument) {
    collect_well();
    return argument;
}

/* References in frames of a blocking region keep nothing alive. */
static GC_hidden_pointer words[COUNT];

static NOINLINE void *forgets(void *argument) {
    void *volatile objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        objects[i] = GC_REVEAL_POINTER(words[i]);
    ready = 1;
    wait_for(&go_on);
    memset((void *)objects, 0, sizeof objects);
    return 0;
}

static void make_hidden(void) {
    for (int i = 0; i < COUNT; i++)
        words[i] = GC_HIDE_POINTER(watched());
}

static void *forgetting_thread(void *argument) {
    below(make_hidden);
    wipe();
    return GC_do_blocking(forgets, 0);
}

static void not_seen(void) {
    pthread_t thread;
    question++;
    died = 0;
    ready = go_on = 0;
    GC_pthread_create(&thread, 0, forgetting_thread, 0);
    wait_for(&ready);
    collect_well();
    CHECK(MOST(died, COUNT));
    go_on = 1;
    GC_pthread_join(thread, 0);
}

/* The bottom of the stack changes, as for a coroutine. */
static void *set_bottom(void *argument) {
    void **both = argument;
    GC_set_stackbottom(both[0], both[1]);
    return 0;
}

static void bottoms(void) {
    struct GC_stack_base base, again;
    void *handle = GC_get_my_stackbottom(&base);
    CHECK(handle != 0);
    struct GC_stack_base other = {(char *)base.mem_base - 64};
    void *both[] = {handle, &other};
    GC_call_with_alloc_lock(set_bottom, both);
    CHECK(GC_get_my_stackbottom(&again) == handle && again.mem_base == other.mem_base);
    both[0] = 0;
    both[1] = &base;
    GC_call_with_alloc_lock(set_bottom, both);
    GC_get_my_stackbottom(&again);
    CHECK(again.mem_base == base.mem_base);
    CHECK(GC_stackbottom != 0);
    GC_gcollect();
}

int main(void) {
    GC_INIT();
    by_itself();
    with_stack_base();
    blocked();
    nested();
    CHECK(GC_call_with_gc_active(just_called, &died) == &died);
    not_seen();
    bottoms();
    char room[100];
    GC_register_altstack((char *)GC_stackbottom - 100000, 100000, room, sizeof room);
    return 0;
}
