package io.plimsoll.memory.govern;

/**
 * The memory of this process, as it measures it, bytes.
 *
 * @param resident resident anonymous memory
 * @param beside the part of it that is not the heap
 * @param needs the smallest heap with which the program can go on
 * @param guard the program has to be able to allocate this between two collections, however small
 *     its heap is
 */
public record Own(long resident, long beside, long needs, long guard) {}
