/**
 * So many threads that allocate and compute. With a second argument each of them ends after so many rounds, and starts
 * another one before. Runs until its standard input ends.
 */
public final class Turnover {
    static volatile long sum;

    static void work(int number, int rounds) {
        for (int round = 0; rounds == 0 || round < rounds; round++) {
            byte[][] set = new byte[1024][];
            for (int i = 0; i < set.length; i++) {
                set[i] = new byte[256];
            }
            long hash = 0;
            for (int pass = 0; pass < 10; pass++) {
                for (byte[] bytes : set) {
                    for (byte one : bytes) {
                        hash = hash * 31 + one;
                    }
                }
            }
            sum += hash;
        }
        start(number, rounds);
    }

    static void start(int number, int rounds) {
        Thread thread = new Thread(() -> work(number, rounds), "turnover-" + number);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]);
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
        for (int number = 0; number < threads; number++) {
            start(number, rounds);
        }
        while (System.in.read() >= 0) { }
    }
}
