/* All exceptions of floating-point numbers raise a signal, and numbers are rounded up. The collector, which
computes with such numbers too, raises none, and leaves the program's environment as it was. */
#include "sound.h"
#include <fenv.h>
#include <signal.h>

static void on_signal(int signal) {
    (void)signal;
    fail("SIGFPE in the collector");
}

static void *collects(void *unused) {
    (void)unused;
    struct GC_stack_base base;
    if (GC_get_stack_base(&base) != GC_SUCCESS || GC_register_my_thread(&base) != GC_SUCCESS)
        fail("the thread cannot be registered");
    for (int i = 0; i < 200000; i++)
        node(i, NULL, NULL);
    GC_gcollect();
    if (fegetexcept() != FE_ALL_EXCEPT || fegetround() != FE_UPWARD)
        fail("the program's environment has changed");
    GC_unregister_my_thread();
    return NULL;
}

int main(void) {
    GC_INIT();
    GC_allow_register_threads();
    signal(SIGFPE, on_signal);
    fesetround(FE_UPWARD);
    feenableexcept(FE_ALL_EXCEPT);
    struct node *list = NULL;
    for (int i = 0; i < 2000000; i++)
        list = i % 50 ? node(i, NULL, NULL) : node(i, list, NULL);
    GC_gcollect();
    if (fegetexcept() != FE_ALL_EXCEPT || fegetround() != FE_UPWARD)
        fail("the program's environment has changed");
    pthread_t thread;
    if (pthread_create(&thread, NULL, collects, NULL) || pthread_join(thread, NULL))
        fail("no thread");
    feclearexcept(FE_ALL_EXCEPT);
    puts("sound");
    return 0;
}
