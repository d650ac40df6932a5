/* A library that has some functions of libgc's names, and few of them: another version, or another collector. */
int GC_inits;
static unsigned long divisor = 3;
void GC_init(void) { GC_inits++; }
void GC_set_free_space_divisor(unsigned long value) { divisor = value; }
unsigned long GC_get_free_space_divisor(void) { return divisor; }
