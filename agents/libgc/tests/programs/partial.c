/* A library with a few functions that have names of libgc's: the adapter must treat it as another collector,
or another version. */
int GC_inits;
static unsigned long divisor = 3;
void GC_init(void) { GC_inits++; }
void GC_set_free_space_divisor(unsigned long value) { divisor = value; }
unsigned long GC_get_free_space_divisor(void) { return divisor; }
