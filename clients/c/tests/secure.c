/* For tests/c.rs: joins the broker that the environment names, or the one at the socket in its second
 * argument. Its first argument is the number of tries, of a tenth of a second each. */
#include <plimsoll.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    plimsoll_options options = PLIMSOLL_OPTIONS_INIT;
    plimsoll_numbers now;
    plimsoll *principal;
    int left = argc > 1 ? atoi(argv[1]) : 0;
    options.flags = PLIMSOLL_ENVIRONMENT;
    options.socket = argc > 2 ? argv[2] : NULL;
    principal = plimsoll_open("from C", &options);
    if (principal == NULL) {
        printf("refused: %s\n", plimsoll_error());
        return 1;
    }
    while (plimsoll_read(principal, &now) == 0 && now.source == PLIMSOLL_LOCAL && left-- > 0)
        plimsoll_wait(principal, 100, NULL);
    printf("source %u\n", now.source);
    plimsoll_close(principal);
    return 0;
}
