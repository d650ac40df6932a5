import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Runs tasks in threads, one after the other in each, until enough of them have ended, and reports in the
 * last line: tasks in a second, milliseconds of a task (mean, and of the slowest hundredth), how evenly tasks
 * are spread over threads (Jain: 1 is evenly), collections in a thousand tasks, and milliseconds of
 * collections in a second.
 */
final class Tasks {
    /** The most times that are kept for a thread; later ones replace earlier ones. */
    private static final int KEPT = 1 << 14;

    private static final AtomicLong ENDED = new AtomicLong();
    private static final CountDownLatch BEGUN = new CountDownLatch(1);
    private static final CountDownLatch OVER = new CountDownLatch(1);

    private Tasks() { }

    /** One thread, which alone writes the numbers until all is over. */
    private static final class Worker extends Thread {
        private final Callable<?> task;
        private final int warm;
        private final int last;
        private final long[] times = new long[KEPT];
        private volatile int done;

        Worker(int number, Callable<?> task, int warm, int counted) {
            super("tasks-" + number);
            this.task = task;
            this.warm = warm;
            last = warm + counted;
            setDaemon(true);
        }

        @Override public void run() {
            try {
                long ended;
                do {
                    long begin = System.nanoTime();
                    task.call();
                    long took = System.nanoTime() - begin;
                    ended = ENDED.incrementAndGet();
                    if (ended == warm) {
                        BEGUN.countDown();
                    }
                    if (ended > warm && ended <= last) {
                        times[done % KEPT] = took;
                        done++;
                    }
                    if (ended == last) {
                        OVER.countDown();
                    }
                } while (ended < last);
            } catch (Throwable broken) {
                broken.printStackTrace();
                System.exit(1);
            }
        }
    }

    /**
     * Runs one thread for each of these tasks. The first ones that end do not count, as many as `warm` says;
     * those after them do. So each run does the same work. Tasks that threads have begun when the last of
     * them ends are not finished.
     */
    static void run(Callable<?>[] tasks, int warm, int counted) throws InterruptedException {
        Worker[] workers = new Worker[tasks.length];
        for (int number = 0; number < workers.length; number++) {
            workers[number] = new Worker(number, tasks[number], warm, counted);
            workers[number].start();
        }
        BEGUN.await();
        long[] before = collections();
        long begin = System.nanoTime();
        OVER.await();
        double elapsed = (System.nanoTime() - begin) / 1e9;
        long[] after = collections();
        report(workers, elapsed, after[0] - before[0], after[1] - before[1]);
    }

    /** Collections so far, and their milliseconds. */
    private static long[] collections() {
        long[] sums = new long[2];
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            sums[0] += bean.getCollectionCount();
            sums[1] += bean.getCollectionTime();
        }
        return sums;
    }

    private static void report(Worker[] workers, double elapsed, long collections, long spent) {
        long all = 0;
        double squares = 0;
        long[] times = new long[0];
        for (Worker worker : workers) {
            int done = worker.done;
            all += done;
            squares += (double) done * done;
            int kept = Math.min(done, KEPT);
            times = Arrays.copyOf(times, times.length + kept);
            System.arraycopy(worker.times, 0, times, times.length - kept, kept);
        }
        Arrays.sort(times);
        int last = times.length - 1;
        double mean = Arrays.stream(times).average().orElse(0) / 1e6;
        double slow = last < 0 ? 0 : times[last - last / 100] / 1e6;
        double even = squares == 0 ? 0 : (double) all * all / (workers.length * squares);
        System.out.printf(Locale.ROOT,
            "tasks=%.3f turnaround=%.3f slowest=%.3f fairness=%.4f collections=%.3f collecting=%.3f%n",
            all / elapsed,
            mean, slow, even, all == 0 ? 0 : 1000.0 * collections / all, spent / elapsed);
    }
}
