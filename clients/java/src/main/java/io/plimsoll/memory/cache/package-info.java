/**
 * A cache that sizes itself by a principal's numbers. It builds on Caffeine, which is an optional
 * dependency: without it the rest of the module works.
 */
package io.plimsoll.memory.cache;
