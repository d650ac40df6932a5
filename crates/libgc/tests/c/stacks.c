/* Stacks other than the one on which a thread began: those of signal handlers and of coroutines. */
#include "check.h"
#include <gc/gc_mark.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define COUNT 100
#define STACK (256 << 10)
static int died;
static intptr_t question;
static void on_death(void *object, void *data) { died += (intptr_t)data == question; }

static void *watched(void) {
    void *object = GC_malloc(40);
    GC_register_finalizer_no_order(object, on_death, (void *)question, 0, 0);
    return object;
}

static NOINLINE void hold(action then) {
    void *volatile objects[COUNT];
    for (int i = 0; i < COUNT; i++)
        objects[i] = watched();
    then();
    memset((void *)objects, 0, sizeof objects);
}

static volatile int ready, go_on;

static void wait_for(volatile int *what) {
    while (!*what)
        usleep(1000);
}

/* A thread is stopped in a signal handler on an alternate stack. */
static void pause_here(void) {
    ready = 1;
    wait_for(&go_on);
}

static void handler(int signal) { hold(pause_here); }

static void raise_signal(void) { pthread_kill(pthread_self(), SIGUSR1); }

static void *with_handler(void *argument) {
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    stack_t other = {.ss_sp = malloc(STACK), .ss_size = STACK};
    sigaltstack(&other, 0);
    GC_register_altstack(stack, bytes, other.ss_sp, other.ss_size);
    raise_signal();
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, 0);
    free(other.ss_sp);
    return 0;
}

static void handlers(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    pthread_t thread;
    question++;
    died = ready = go_on = 0;
    GC_pthread_create(&thread, 0, with_handler, 0);
    wait_for(&ready);
    collect_well();
    CHECK(died == 0);
    go_on = 1;
    GC_pthread_join(thread, 0);
    collect_well();
    CHECK(MOST(died, COUNT));
}

/* Coroutines: the collector is told the bottom of the stack of the one that runs; the stacks of the others
are pushed. */
static ucontext_t main_context, other_context;
static char *other_stack;
static struct GC_stack_base main_base, other_base;
static char *main_low, *other_low;
static int in_other;
static void *thread_handle;

static GC_push_other_roots_proc before;

static void push_waiting(void) {
    if (before)
        before();
    if (in_other)
        GC_push_all_eager(main_low, main_base.mem_base);
    else if (other_low)
        GC_push_all_eager(other_low, other_base.mem_base);
}

static void *set_bottom(void *base) {
    GC_set_stackbottom(thread_handle, base);
    in_other = base == &other_base;
    return 0;
}

static NOINLINE void switch_to_other(void) {
    char here[64];
    main_low = here;
    __builtin_unwind_init();
    GC_call_with_alloc_lock(set_bottom, &other_base);
    swapcontext(&main_context, &other_context);
}

static NOINLINE void switch_to_main(void) {
    char here[64];
    other_low = here;
    __builtin_unwind_init();
    GC_call_with_alloc_lock(set_bottom, &main_base);
    swapcontext(&other_context, &main_context);
}

static void yield_and_collect(void) {
    collect_well();
    switch_to_main();
    collect_well();
}

static void coroutine(void) {
    for (;;) {
        hold(yield_and_collect);
        switch_to_main();
    }
}

static void resume_and_collect(void) {
    switch_to_other();
    collect_well();
    CHECK(died == 0);
    switch_to_other();
    collect_well();
}

static void *coroutines(void *argument) {
    thread_handle = GC_get_my_stackbottom(&main_base);
    other_stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    other_base.mem_base = other_stack + STACK;
    other_low = 0;
    before = GC_get_push_other_roots();
    GC_set_push_other_roots(push_waiting);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = other_stack;
    other_context.uc_stack.ss_size = STACK;
    makecontext(&other_context, coroutine, 0);
    question++;
    died = 0;
    hold(resume_and_collect);
    GC_set_push_other_roots(before);
    other_low = 0;
    munmap(other_stack, STACK);
    collect_well();
    CHECK(MOST(died, 2 * COUNT));
    return 0;
}

int main(void) {
    GC_INIT();
    handlers();
    coroutines(0);
    return 0;
}
