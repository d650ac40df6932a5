/* Drives the library for tests/c.rs, and prints a line for each event. If a check fails, it exits with
 * the number of the line of that check. */
#include <plimsoll.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s: %s\n", __LINE__, #condition, plimsoll_error());                   \
            fflush(stdout);                                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *const names[] = {"timeout", "owed", "relief", "changed", "lost", "joined"};

static void show(const char *what, const plimsoll_numbers *now)
{
    printf("%s %llu %llu %u\n", what, (unsigned long long)now->limit,
           (unsigned long long)now->owed, now->source);
    fflush(stdout);
}

static void bad_input(void)
{
    plimsoll_numbers now;
    plimsoll_options options = PLIMSOLL_OPTIONS_INIT;
    CHECK(strcmp(plimsoll_error(), "") == 0);
    CHECK(plimsoll_open(NULL, NULL) == NULL && strstr(plimsoll_error(), "name is null"));
    CHECK(plimsoll_open("a\nb", NULL) == NULL && strstr(plimsoll_error(), "printable"));
    CHECK(plimsoll_open("\xff", NULL) == NULL && strstr(plimsoll_error(), "UTF-8"));
    options.size = 3;
    CHECK(plimsoll_open("x", &options) == NULL && strstr(plimsoll_error(), "size"));
    options.size = sizeof options;
    options.weight = 10001;
    CHECK(plimsoll_open("x", &options) == NULL && strstr(plimsoll_error(), "10001"));
    options.weight = 0;
    options.flags = 1u << 30;
    CHECK(plimsoll_open("x", &options) == NULL && strstr(plimsoll_error(), "flags"));
    CHECK(plimsoll_read(NULL, &now) == PLIMSOLL_EINVAL);
    CHECK(plimsoll_wait(NULL, 0, &now) == PLIMSOLL_EINVAL);
    CHECK(plimsoll_report(NULL, NULL) == PLIMSOLL_EINVAL);
    CHECK(plimsoll_fd(NULL) == PLIMSOLL_EINVAL && strstr(plimsoll_error(), "null"));
    CHECK(strcmp(plimsoll_strerror(PLIMSOLL_EREFUSED), "the broker refused") == 0);
    CHECK(plimsoll_strerror(-12345) != NULL && plimsoll_version()[0] != '\0');
    plimsoll_close(NULL);
    CHECK(plimsoll_ghost_evicted(NULL, 1, 1, 1) == PLIMSOLL_EINVAL);
    CHECK(plimsoll_ghost_missed(NULL, 1, 1) == PLIMSOLL_EINVAL);
    CHECK(plimsoll_ghost_worth(NULL) == PLIMSOLL_UNKNOWN && strstr(plimsoll_error(), "null"));
    plimsoll_ghost_free(NULL);
}

static void ghost(void)
{
    plimsoll_ghost *list = plimsoll_ghost_new();
    struct timespec second = {1, 100000000};
    CHECK(list != NULL && plimsoll_ghost_worth(list) == PLIMSOLL_UNKNOWN);
    CHECK(plimsoll_ghost_evicted(list, 7, 1 << 20, 8 << 20) == 0);
    CHECK(plimsoll_ghost_missed(list, 7, 5000000) == 0);
    nanosleep(&second, NULL);
    uint64_t worth = plimsoll_ghost_worth(list);
    CHECK(worth > 0 && worth < 5000000);
    plimsoll_ghost_free(list);
}

static void alone(void)
{
    plimsoll_options options = PLIMSOLL_OPTIONS_INIT;
    plimsoll_numbers now;
    plimsoll *principal;
    options.flags = PLIMSOLL_ALONE;
    CHECK((principal = plimsoll_open("alone", &options)) != NULL);
    CHECK(plimsoll_read(principal, &now) == 0);
    CHECK(now.source == PLIMSOLL_LOCAL && now.uses > 0 && now.available > 0);
    CHECK(plimsoll_set_weight(principal, 5) == 0);
    CHECK(plimsoll_set_weight(principal, 0) == PLIMSOLL_EREFUSED);
    CHECK(plimsoll_interrupt(principal) == 0);
    CHECK(plimsoll_wait(principal, -1, NULL) >= 0);
    plimsoll_close(principal);
}

static void follow(const char *socket)
{
    plimsoll_options options = PLIMSOLL_OPTIONS_INIT;
    plimsoll_known known = PLIMSOLL_KNOWN_INIT;
    plimsoll_numbers now;
    struct pollfd ready;
    plimsoll *principal;
    int event = PLIMSOLL_TIMEOUT, tries;
    options.socket = socket;
    options.weight = 20;
    options.priority = -3;
    options.max = (uint64_t)1 << 40;
    CHECK((principal = plimsoll_open("from C", &options)) != NULL);
    /* On a busy machine the first try to join may fail. */
    for (tries = 0; event != PLIMSOLL_JOINED && tries < 600; tries++)
        CHECK((event = plimsoll_wait(principal, 100, &now)) >= 0);
    CHECK(event == PLIMSOLL_JOINED);
    show("joined", &now);
    CHECK(plimsoll_read(principal, &now) == 0);
    show("read", &now);
    known.live = 123;
    CHECK(plimsoll_report(principal, &known) == 0);
    CHECK(plimsoll_released(principal, 456) == 0);
    CHECK(plimsoll_set_max(principal, 0) == 0 && plimsoll_set_priority(principal, 1) == 0);
    ready.fd = plimsoll_fd(principal);
    ready.events = POLLIN;
    CHECK(ready.fd >= 0);
    do {
        CHECK(poll(&ready, 1, 60000) == 1);
        while ((event = plimsoll_wait(principal, 0, &now)) > 0)
            show(names[event], &now);
        CHECK(event == PLIMSOLL_TIMEOUT);
    } while (now.source != PLIMSOLL_LOCAL);
    plimsoll_close(principal);
}

int main(int argc, char **argv)
{
    bad_input();
    ghost();
    alone();
    if (argc > 1)
        follow(argv[1]);
    puts("done");
    return 0;
}
