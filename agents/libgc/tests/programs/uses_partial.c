#include <stdio.h>
extern int GC_inits;
void GC_init(void);
void GC_set_free_space_divisor(unsigned long);
unsigned long GC_get_free_space_divisor(void);
int main(void)
{
    GC_init();
    GC_set_free_space_divisor(7);
    printf("{\"inits\":%d,\"divisor\":%lu}\n", GC_inits, GC_get_free_space_divisor());
    return 0;
}
