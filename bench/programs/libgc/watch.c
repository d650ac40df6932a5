/* A library that is preloaded (LD_PRELOAD) into a program on libgc. It notes the program's pauses in the file
 * that the variable PAUSES names: see pauses.h. */
#include <stdlib.h>
#include "pauses.h"

__attribute__((constructor)) static void watch(void)
{
    const char *path = getenv("PAUSES");
    if (path != NULL)
        watch_pauses(path, O_APPEND);
}
