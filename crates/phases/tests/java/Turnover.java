import java.io.IOException;
import java.io.RandomAccessFile;

/**
 * Threads that allocate and compute; the first argument says how many. With a second argument other than 0
 * each of them ends after that many rounds, and starts another one before. With the word `harmed` after that,
 * they allocate a sixteenth while one of them is at nice level 19. Runs until its standard input ends.
 */
public final class Turnover {
    static volatile long sum;
    /** The kernel's file about each thread; absent unless the program is harmed. */
    static RandomAccessFile[] told;

    /** Whether a thread is at nice level 19. */
    static boolean isOneBack() throws IOException {
        byte[] bytes = new byte[1024];
        for (RandomAccessFile file : told) {
            if (file == null) {
                continue;
            }
            int length;
            synchronized (file) {
                file.seek(0);
                length = file.read(bytes);
            }
            String text = new String(bytes, 0, length);
            if (text.substring(text.lastIndexOf(')') + 2).split(" ")[16].equals("19")) {
                return true;
            }
        }
        return false;
    }

    static void work(int number, int rounds) throws IOException {
        if (told != null) {
            told[number] = new RandomAccessFile("/proc/thread-self/stat", "r");
        }
        for (int round = 0; rounds == 0 || round < rounds; round++) {
            int part = told != null && isOneBack() ? 16 : 1;
            byte[][] set = new byte[1024 / part][];
            for (int i = 0; i < set.length; i++) {
                set[i] = new byte[256];
            }
            long hash = 0;
            for (int pass = 0; pass < 10 * part; pass++) {
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
        Thread thread = new Thread(() -> {
            try {
                work(number, rounds);
            } catch (IOException error) {
                error.printStackTrace();
                System.exit(1);
            }
        }, "turnover-" + number);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]);
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
        if (arguments.length > 2) {
            told = new RandomAccessFile[threads];
        }
        for (int number = 0; number < threads; number++) {
            start(number, rounds);
        }
        while (System.in.read() >= 0) { }
    }
}
