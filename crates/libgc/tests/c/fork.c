/* Forking: with the collector's own fork handlers, without any, and with calls by the program. */
#include "check.h"
#include <pthread.h>

struct node {
    struct node *next;
    long number;
};

static struct node *list;
static volatile int stop;

static void build(void) {
    list = 0;
    for (long i = 0; i < 5000; i++) {
        struct node *node = GC_malloc(sizeof *node);
        node->next = list;
        node->number = i;
        list = node;
    }
}

static int sound(void) {
    long expected = 5000;
    for (struct node *node = list; node; node = node->next)
        if (node->number != --expected)
            return 0;
    return expected == 0;
}

static void *busy(void *argument) {
    while (!stop) {
        GC_malloc(40);
        if (argument)
            GC_gcollect();
    }
    return 0;
}

static void *in_child(void *argument) {
    struct node *mine = GC_malloc(sizeof *mine);
    mine->number = 3;
    GC_gcollect();
    return mine;
}

static int child(void) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 20000; j++)
            memset(GC_malloc(24), 0xee, 24);
        GC_gcollect();
    }
    pthread_t thread;
    void *result = 0;
    if (GC_pthread_create(&thread, 0, in_child, 0) || GC_pthread_join(thread, &result))
        return 2;
    if (((struct node *)result)->number != 3)
        return 3;
    if (!GC_thread_is_registered())
        return 4;
    /* The child forks too. */
    return sound() ? 0 : 1;
}

static int fork_once(int by_hand) {
    if (by_hand)
        GC_atfork_prepare();
    pid_t process = fork();
    if (process == 0) {
        if (by_hand)
            GC_atfork_child();
        _exit(child());
    }
    if (by_hand)
        GC_atfork_parent();
    int status = -1;
    for (int i = 0; i < 3; i++)
        GC_gcollect();
    waitpid(process, &status, 0);
    return status;
}

static int part(int handles, int threads) {
    GC_set_handle_fork(handles);
    GC_INIT();
    build();
    pthread_t others[3];
    for (intptr_t i = 0; i < threads; i++)
        GC_pthread_create(&others[i], 0, busy, (void *)(intptr_t)(i == 2));
    int bad = 0;
    for (int i = 0; i < 10; i++)
        bad += fork_once(handles < 0) != 0;
    stop = 1;
    for (int i = 0; i < threads; i++)
        GC_pthread_join(others[i], 0);
    printf("handling %d, %d other threads: bad children %d, parent sound %d\n", handles, threads, bad,
           sound());
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1)
        return part(atoi(arguments[1]), strchr(arguments[1], '+') ? 3 : 0);
    static const char *parts[] = {"1", "-1", "1+", "-1+"};
    char said[1000];
    for (int i = 0; i < 4; i++) {
        int status = again(parts[i], said, sizeof said);
        printf("ended with %d\n", status);
        if (status)
            printf("%s\n", said);
    }
    return 0;
}
