/* Loaded into a program on libgc (LD_PRELOAD), it notes the program's pauses in the file that PAUSES names: see pauses.h. */
#include <stdlib.h>
#include "pauses.h"

__attribute__((constructor)) static void watch(void)
{
    const char *path = getenv("PAUSES");
    if (path != NULL)
        watch_pauses(path);
}
