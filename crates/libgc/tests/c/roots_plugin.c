/* A library with static data that holds references. */
void *plugin_slots[200];
