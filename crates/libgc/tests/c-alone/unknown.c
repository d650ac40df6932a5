/* Threads that are not registered. If one collects, the collector says so, and the program ends. Objects that
one allocates live as long as the thread. A thread that frees objects does no harm. */
#include "sound.h"
#include <signal.h>

#define COUNT 5000
#define SMALL 9

static void *collects(void *argument) {
    GC_gcollect();
    return argument;
}

static void *allocates(void *argument) {
    for (int i = 0; i < 10000000; i++)
        GC_MALLOC(100);
    return argument;
}

static void *leaves(void *argument) {
    struct GC_stack_base base;
    GC_get_stack_base(&base);
    GC_register_my_thread(&base);
    GC_gcollect();
    GC_unregister_my_thread();
    return collects(argument);
}

static void *forks(void *argument) {
    pid_t child = fork();
    if (child == 0) {
        GC_gcollect();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    kill(getpid(), WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL);
    return argument;
}

static void starts_late(void) { collects(0); }

static void *at_its_end(void *argument) {
    static pthread_key_t key;
    pthread_key_create(&key, (void (*)(void *))starts_late);
    pthread_setspecific(key, &key);
    return argument;
}

static void on_abort(const char *message) {
    fprintf(stderr, "told: %s\n", message);
    fflush(stderr);
}

/* Runs a thread of this kind in a process of its own, which must print a message with these words and end by
SIGABRT. */
static void is_told(void *(*kind)(void *), int created, const char *words) {
    int ends[2];
    if (pipe(ends))
        fail("a pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        pthread_t thread;
        int failed = created ? GC_pthread_create(&thread, 0, kind, 0) : pthread_create(&thread, 0, kind, 0);
        if (!failed)
            pthread_join(thread, 0);
        _exit(1);
    }
    close(ends[1]);
    char said[1000];
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(said, words)) {
        fprintf(stderr, "ended with %x, and said: %s\n", status, said);
        fail("a thread that collects is told, and the program ends");
    }
}

static volatile int ready, go_on, died;

static void on_death(void *object, void *data) { died++; }

static void wait_for(volatile int *what) {
    while (!*what)
        usleep(500);
}

/* Its objects are referred to from its own stack only. Collections are disabled while it allocates, because
such a thread may not collect. */
static void *keeps(void *argument) {
    GC_disable();
    struct node *volatile mine = tree(SMALL, 7);
    for (int i = 0; i < COUNT; i++)
        GC_REGISTER_FINALIZER(GC_MALLOC(i % 100 ? 40 : 40000), on_death, 0, 0, 0);
    char *volatile text = GC_MALLOC_ATOMIC(30000);
    memset(text, 'x', 30000);
    GC_enable();
    ready = 1;
    wait_for(&go_on);
    if (!is_tree(mine, SMALL, 7) || text[0] != 'x' || text[29999] != 'x')
        fail("what a thread has that is not registered");
    return argument;
}

static void *collect_in_child(void *argument) {
    for (int i = 0; i < 3; i++) {
        GC_gcollect();
        churn(2 << 20);
    }
    return argument;
}

static void *in_child(void *argument) {
    GC_disable();
    struct node *volatile mine = tree(SMALL, 70);
    GC_enable();
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (GC_pthread_create(&thread, 0, collect_in_child, 0) || GC_pthread_join(thread, 0))
            fail("a thread");
        _exit(!is_tree(mine, SMALL, 70));
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status)
        fail("what a thread has that forks");
    return argument;
}

static void *objects[COUNT];

static void *frees(void *argument) {
    for (int i = 0; i < COUNT; i++)
        GC_FREE(objects[i]);
    return argument;
}

static void run(void *(*kind)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, 0, kind, 0) || pthread_join(thread, 0))
        fail("a thread");
}

static __attribute__((noinline)) void clear_stack(void) {
    volatile char room[20000];
    memset((char *)room, 0, sizeof room);
}

static void lives(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, keeps, 0))
        fail("a thread");
    wait_for(&ready);
    for (int i = 0; i < 5; i++) {
        GC_gcollect();
        churn(4 << 20);
    }
    if (died)
        fail("objects of a thread that is there");
    go_on = 1;
    pthread_join(thread, 0);
    for (int i = 0; i < 50 && died < COUNT * 9 / 10; i++) {
        clear_stack();
        GC_gcollect();
        GC_invoke_finalizers();
        /* The kernel may not have removed the thread yet. */
        usleep(1000);
    }
    if (died < COUNT * 9 / 10)
        fail("objects of a thread that has ended");
}

/* A registered thread may collect until its end, and its result is kept. */
static void collect_at_end(void *data) {
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    churn(3 << 20);
}

static void *exits(void *argument) {
    pthread_cleanup_push(collect_at_end, 0);
    GC_pthread_exit(tree(SMALL, 700));
    pthread_cleanup_pop(0);
    return argument;
}

static void *ends_registered(void *argument) {
    struct GC_stack_base base;
    GC_get_stack_base(&base);
    if (GC_register_my_thread(&base))
        fail("a thread that registers");
    churn(100000);
    /* It ends without unregistering. */
    return argument;
}

int main(void) {
    GC_INIT();
    live = tree(DEPTH, 0);
    fflush(stdout);
    const char *words = "Collecting from unknown thread\n";
    is_told(collects, 0, words);
    is_told(allocates, 0, words);
    is_told(leaves, 0, words);
    is_told(forks, 0, words);
    is_told(at_its_end, 1, words);
    GC_set_abort_func(on_abort);
    is_told(collects, 0, "told: Collecting from unknown thread\n");
    lives();
    run(in_child);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            objects[i] = GC_MALLOC(i % 50 ? 48 : 30000);
        run(frees);
        churn(4 << 20);
        check_live();
    }
    memset(objects, 0, sizeof objects);
    pthread_t thread;
    void *result;
    if (GC_pthread_create(&thread, 0, exits, 0))
        fail("a thread");
    usleep(20000);
    GC_gcollect();
    churn(4 << 20);
    if (GC_pthread_join(thread, &result) || !is_tree(result, SMALL, 700))
        fail("what a thread returned");
    for (int i = 0; i < 50; i++)
        run(ends_registered);
    GC_gcollect();
    return sound();
}
