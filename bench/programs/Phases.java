import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Threads with allocation phases. A task allocates a working set, computes with it, and drops it. There may be more
 * threads than processors.
 *
 * Arguments: threads, KiB of a working set, how often it is gone through, seconds before it counts, seconds that count.
 * The last line has the results: tasks, milliseconds of a task (mean and of the slowest hundredth), how evenly tasks are
 * spread over threads (Jain: 1 is evenly), collections and their milliseconds.
 */
public final class Phases {
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

    static volatile boolean counts;
    static volatile boolean over;
    static volatile long sum;

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
        int threads = Integer.parseInt(arguments[0]);
        int records = Integer.parseInt(arguments[1]) * 1024 / RECORD;
        int rounds = Integer.parseInt(arguments[2]);
        int warm = Integer.parseInt(arguments[3]);
        int seconds = Integer.parseInt(arguments[4]);
        AtomicLongArray tasks = new AtomicLongArray(threads);
        long[][] times = new long[threads][1 << 16];
        for (int n = 0; n < threads; n++) {
            int number = n;
            Thread thread = new Thread(() -> {
                while (!over) {
                    long begin = System.nanoTime();
                    sum += task(records, rounds);
                    if (counts && !over) {
                        int done = (int) tasks.getAndIncrement(number);
                        times[number][done % times[number].length] = System.nanoTime() - begin;
                    }
                }
            }, "phases-" + n);
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(warm * 1000L);
        long[] before = collections();
        counts = true;
        long begin = System.nanoTime();
        Thread.sleep(seconds * 1000L);
        over = true;
        double elapsed = (System.nanoTime() - begin) / 1e9;
        long[] after = collections();
        report(tasks, times, elapsed, after[0] - before[0], after[1] - before[1]);
        System.exit(0);
    }

    /** Collections so far, and their milliseconds. */
    static long[] collections() {
        long[] sums = new long[2];
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            sums[0] += bean.getCollectionCount();
            sums[1] += bean.getCollectionTime();
        }
        return sums;
    }

    static void report(AtomicLongArray tasks, long[][] times, double elapsed, long collections, long spent) {
        long all = 0;
        double squares = 0;
        int kept = 0;
        for (int n = 0; n < tasks.length(); n++) {
            all += tasks.get(n);
            squares += (double) tasks.get(n) * tasks.get(n);
            kept += (int) Math.min(tasks.get(n), times[n].length);
        }
        long[] sorted = new long[kept];
        int at = 0;
        for (int n = 0; n < tasks.length(); n++) {
            int mine = (int) Math.min(tasks.get(n), times[n].length);
            System.arraycopy(times[n], 0, sorted, at, mine);
            at += mine;
        }
        Arrays.sort(sorted);
        double mean = Arrays.stream(sorted).average().orElse(0) / 1e6;
        double slow = kept == 0 ? 0 : sorted[kept - 1 - kept / 100] / 1e6;
        double even = squares == 0 ? 0 : (double) all * all / (tasks.length() * squares);
        System.out.printf(java.util.Locale.ROOT,
            "tasks=%.2f turnaround=%.2f slowest=%.2f fairness=%.4f collections=%d collecting=%d%n", all / elapsed, mean,
            slow, even, collections, spent);
    }
}
