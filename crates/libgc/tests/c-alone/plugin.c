/* A library with data that may refer to objects, and with some that takes a while to look through. */
void *slots[4];
char room[1 << 19];
