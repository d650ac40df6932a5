/* Threads on stacks that the collector was not told of: those of signal handlers and of coroutines, in
several kinds of memory. Objects live that such a thread refers to from there or from the stack that it left,
whether it is stopped, collects, blocks or forks. With an argument no file can be opened. */
#include "sound.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define SMALL 8
#define STACK (128 << 10)

static volatile int ready, go_on, over;

static void wait_for(volatile int *what) {
    while (!*what)
        usleep(300);
}

static void collect(void) {
    for (int i = 0; i < 2; i++) {
        GC_gcollect();
        churn(1 << 20);
    }
}

/* Work of a thread on such a stack, while the main thread collects. */
static void is_stopped(void) {
    ready = 1;
    wait_for(&go_on);
}

static void collects(void) {
    ready = 1;
    collect();
    wait_for(&go_on);
}

static void *rest(void *argument) {
    is_stopped();
    return argument;
}

static void blocks(void) { GC_do_blocking(rest, 0); }

static void *again(void *argument) {
    collects();
    return argument;
}

static void *inside(void *argument) { return GC_call_with_gc_active(again, argument); }
static void is_active_again(void) { GC_do_blocking(inside, 0); }

static void forks(void) {
    pid_t child = fork();
    if (child == 0) {
        collect();
        return;
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status)
        fail("a child");
    is_stopped();
}

static void (*const what[])(void) = {is_stopped, collects, blocks, is_active_again, forks};
#define KINDS (int)(sizeof what / sizeof *what)

static __thread int kind;
static __thread pid_t self;

static __attribute__((noinline)) void hold(uint64_t number) {
    struct node *volatile mine = tree(SMALL, number);
    what[kind]();
    if (!is_tree(mine, SMALL, number))
        fail("what is held on another stack");
}

static void on_signal(int signal) { hold(100); }

static __attribute__((noinline)) void in_handler(void *stack) {
    struct node *volatile mine = tree(SMALL, 50);
    stack_t other = {.ss_sp = stack, .ss_size = STACK};
    if (sigaltstack(&other, 0))
        fail("sigaltstack");
    pthread_kill(pthread_self(), SIGUSR1);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, 0);
    if (!is_tree(mine, SMALL, 50))
        fail("what is held below a handler");
}

static __thread ucontext_t here, there;

static void coroutine(void) { hold(100); }

static __attribute__((noinline)) void in_coroutine(void *stack) {
    struct node *volatile mine = tree(SMALL, 50);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, coroutine, 0);
    swapcontext(&here, &there);
    if (!is_tree(mine, SMALL, 50))
        fail("what is held on the stack that was left");
}

/* The kinds of memory for a stack. */
static void *mapped(void) {
    char *room = mmap(0, STACK + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED || mprotect(room + 4096, STACK, PROT_READ | PROT_WRITE))
        fail("a mapping");
    return room + 4096;
}

static void *allocated(void) { return malloc(STACK); }
static void *own(void) { return GC_MALLOC_UNCOLLECTABLE(STACK); }

static void *(*const from[])(void) = {mapped, allocated, own};
#define PLACES (int)(sizeof from / sizeof *from)

/* A coroutine whose stack has no room for signal handlers, in a thread with an alternate stack for them. */
static __thread struct node *passed;

static void without_room(void) {
    struct node *volatile mine = passed;
    passed = 0;
    char here, *low = there.uc_stack.ss_sp;
    size_t rest = (size_t)(&here - low) - 1024;
    memset(low, 0x5a, rest);
    ready = 1;
    while (!go_on)
        ;
    for (size_t i = 0; i < rest; i++)
        if (low[i] != 0x5a)
            fail("somebody wrote to a stack without room");
    if (!is_tree(mine, SMALL, 200))
        fail("what is held on a stack without room");
}

static void *run_without_room(void *argument) {
    struct node *volatile mine = tree(SMALL, 250);
    stack_t other = {.ss_sp = allocated(), .ss_size = STACK};
    if (sigaltstack(&other, 0))
        fail("sigaltstack");
    passed = tree(SMALL, 200);
    getcontext(&there);
    there.uc_stack.ss_sp = mapped();
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, without_room, 0);
    swapcontext(&here, &there);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, 0);
    if (!is_tree(mine, SMALL, 250))
        fail("what is held on the stack that was left");
    return argument;
}

/* The alternate stack for handlers is a part of the thread's own stack, and further frames of the thread lie
below it. */
static __attribute__((noinline)) void further_down(void) {
    struct node *volatile mine = tree(SMALL, 350);
    pthread_kill(pthread_self(), SIGUSR1);
    if (!is_tree(mine, SMALL, 350))
        fail("what is held below a stack for handlers");
}

static void *run_inside(void *argument) {
    char handlers[STACK];
    stack_t other = {.ss_sp = handlers, .ss_size = sizeof handlers};
    if (sigaltstack(&other, 0))
        fail("sigaltstack");
    further_down();
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, 0);
    return argument;
}

struct task {
    int kind, place, handler;
};

static void *run(void *argument) {
    struct task task = *(struct task *)argument;
    kind = task.kind;
    self = getpid();
    void *stack = from[task.place]();
    (task.handler ? in_handler : in_coroutine)(stack);
    if (getpid() != self)
        _exit(0);
    if (task.place == 1)
        free(stack);
    else if (task.place == 2)
        GC_FREE(stack);
    return 0;
}

static void with_thread(void *(*what)(void *), struct task task) {
    pthread_t thread;
    ready = go_on = 0;
    if (GC_pthread_create(&thread, 0, what, &task))
        fail("a thread");
    wait_for(&ready);
    collect();
    go_on = 1;
    GC_pthread_join(thread, 0);
}

static void *collect_on(void *argument) {
    while (!over) {
        /* The other thread may go on after a collection that began after it was ready. */
        int was = ready;
        collect();
        go_on = was;
    }
    return argument;
}

/* Runs the task in the first thread, whose stack grows. */
static void by_first(struct task task) {
    pthread_t thread;
    ready = go_on = over = 0;
    if (GC_pthread_create(&thread, 0, collect_on, 0))
        fail("a thread");
    run(&task);
    over = 1;
    GC_pthread_join(thread, 0);
}

int main(int count, char **arguments) {
    struct rlimit none = {3, 3};
    if (count > 1 && setrlimit(RLIMIT_NOFILE, &none))
        fail("setrlimit");
    GC_INIT();
    live = tree(DEPTH, 0);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGUSR1, &action, 0);
    for (int handler = 0; handler < 2; handler++)
        for (int place = 0; place < PLACES; place++)
            for (int kind = 0; kind < KINDS; kind++) {
                struct task task = {kind, place, handler};
                with_thread(run, task);
                by_first(task);
                check_live();
            }
    with_thread(run_without_room, (struct task){0});
    with_thread(run_inside, (struct task){0});
    return sound();
}
