/* A library with data that may refer to objects, and with so much other data that scanning it takes a
while. */
void *slots[4];
char room[1 << 19];
