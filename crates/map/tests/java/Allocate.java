import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

/**
 * Threads that allocate, each a multiple of what the one before does, in rounds. A line of input begins a
 * round; when it is over, each thread waits, and what ThreadMXBean says of it is printed. Then one thread
 * ends and another one begins.
 */
public final class Allocate {
    static final int THREADS = 6;
    static volatile Object last;

    final CyclicBarrier begin = new CyclicBarrier(THREADS + 1);
    final CyclicBarrier end = new CyclicBarrier(THREADS + 1);
    final List<Thread> threads = new ArrayList<>();

    void work(int number, int rounds) {
        try {
            for (int round = 0; round < rounds; round++) {
                begin.await();
                for (int i = 0; i < 5000 << number; i++) {
                    last = new byte[64 + i % 64];
                }
                if (number == 0) {
                    last = new byte[3 << 20];
                }
                end.await();
            }
        } catch (Throwable broken) {
            System.exit(1);
        }
    }

    Thread start(int number, int rounds) {
        Thread thread = new Thread(() -> work(number, rounds), "worker-" + number + "-" + rounds);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        com.sun.management.ThreadMXBean bean =
            (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Allocate all = new Allocate();
        for (int number = 0; number < THREADS - 1; number++) {
            all.threads.add(all.start(number, 100));
        }
        Thread one = all.start(THREADS - 1, 1);
        while (input.readLine() != null) {
            all.begin.await();
            all.end.await();
            while (all.begin.getNumberWaiting() < all.threads.size()) {
                Thread.sleep(1);
            }
            // The barrier itself allocates until they wait.
            Thread.sleep(20);
            StringBuilder line = new StringBuilder();
            for (Thread thread : all.threads) {
                while (thread.getState() != Thread.State.WAITING) {
                    Thread.sleep(1);
                }
                line.append(thread.getName()).append('=');
                line.append(bean.getThreadAllocatedBytes(thread.getId())).append(' ');
            }
            one.join();
            one = all.start(THREADS - 1, 1);
            System.out.println(line);
        }
    }
}
