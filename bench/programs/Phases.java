import java.util.concurrent.Callable;

/**
 * Threads with allocation phases. A task allocates a working set, computes with it, and drops it.
 *
 * Arguments: threads, KiB of a working set, how often it is gone through, tasks that do not count, tasks that
 * do.
 */
public final class Phases {
    /** A part of a working set. */
    static final class Record {
        final Record next;
        final long[] numbers;

        Record(Record next, int seed) {
            this.next = next;
            numbers = new long[12];
            numbers[0] = seed;
        }
    }

    /** Bytes of a record with its numbers, about. */
    static final int RECORD = 24 + 16 + 12 * 8;

    static long task(int records, int rounds) {
        Record first = null;
        for (int i = 0; i < records; i++) {
            first = new Record(first, i);
        }
        long hash = 1;
        for (int round = 0; round < rounds; round++) {
            for (Record record = first; record != null; record = record.next) {
                for (long number : record.numbers) {
                    hash = hash * 31 + number;
                }
            }
        }
        return hash;
    }

    public static void main(String[] arguments) throws Exception {
        int[] numbers = new int[arguments.length];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = Integer.parseInt(arguments[i]);
        }
        int records = numbers[1] * 1024 / RECORD;
        Callable<?>[] tasks = new Callable<?>[numbers[0]];
        for (int i = 0; i < tasks.length; i++) {
            tasks[i] = () -> task(records, numbers[2]);
        }
        Tasks.run(tasks, numbers[3], numbers[4]);
    }
}
