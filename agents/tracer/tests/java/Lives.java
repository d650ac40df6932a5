import java.util.ArrayList;
import java.util.List;

/** Threads that allocate, share a list under its lock, wait for each other and end. */
public class Lives {
    static List<int[]> kept = new ArrayList<>();
    static int sum;

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 1000;
        Thread[] threads = new Thread[arguments.length > 1 ? Integer.parseInt(arguments[1]) : 2];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> work(rounds), "worker-" + i);
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (arguments.length > 2) {
            long[] large = new long[Integer.parseInt(arguments[2])];
            sum += large.length;
        }
        System.out.println(kept.size() + " " + sum);
    }

    static void work(int rounds) {
        for (int i = 0; i < rounds; i++) {
            int[] numbers = new int[100];
            numbers[i % 100] = i;
            synchronized (kept) {
                kept.add(numbers);
                if (kept.size() > 50) {
                    sum += kept.remove(0).length;
                }
            }
        }
    }
}
