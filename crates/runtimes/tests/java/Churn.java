import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.locks.LockSupport;

/**
 * Allocates steadily over a live set. Arguments: live megabytes, allocated megabytes per second, percent of
 * the allocations that replace live objects. Commands on standard input: "live N", "rate N", "replace N",
 * "quit". Ends with its standard input. Prints one line per second: seconds, megabytes allocated.
 */
public final class Churn {
    static final int BLOCK = 1024;
    static volatile int live;
    static volatile int rate;
    static volatile int replace;
    static volatile boolean quit;
    static volatile Object sink;

    public static void main(String[] arguments) throws Exception {
        live = number(arguments, 0, 100);
        rate = number(arguments, 1, 100);
        replace = number(arguments, 2, 1);
        Thread commands = new Thread(Churn::listen);
        commands.setDaemon(true);
        commands.start();
        churn();
    }

    static int number(String[] arguments, int at, int otherwise) {
        return arguments.length > at ? Integer.parseInt(arguments[at]) : otherwise;
    }

    static void churn() {
        byte[][][] blocks = new byte[0][][];
        long start = System.nanoTime();
        long second = start;
        long allocated = 0;
        long owed = 0;
        long last = start;
        long random = 88172645463325252L;
        while (!quit) {
            if (blocks.length != live) {
                byte[][][] next = new byte[live][][];
                for (int i = 0; i < next.length; i++) {
                    next[i] = i < blocks.length ? blocks[i] : megabyte();
                }
                blocks = next;
            }
            long now = System.nanoTime();
            owed += (long) ((now - last) / 1e9 * rate * 1048576);
            last = now;
            owed = Math.min(owed, 32L << 20);
            while (owed > 0) {
                byte[] block = new byte[BLOCK];
                owed -= BLOCK + 16;
                allocated += BLOCK + 16;
                random ^= random << 13;
                random ^= random >>> 7;
                random ^= random << 17;
                if (blocks.length > 0 && (random >>> 33) % 100 < replace) {
                    byte[][] in = blocks[(int) ((random >>> 8 & 0x7fffffff) % blocks.length)];
                    in[(int) ((random >>> 40) % in.length)] = block;
                } else {
                    sink = block;
                }
            }
            if (now - second >= 1_000_000_000L) {
                second = now;
                System.out.printf("%.1f %d%n", (now - start) / 1e9, allocated >> 20);
            }
            LockSupport.parkNanos(1_000_000L);
        }
    }

    static byte[][] megabyte() {
        byte[][] blocks = new byte[1024][];
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = new byte[BLOCK - 16];
        }
        return blocks;
    }

    static void listen() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.trim().split(" ");
                switch (words[0]) {
                    case "live":
                        live = Integer.parseInt(words[1]);
                        break;
                    case "rate":
                        rate = Integer.parseInt(words[1]);
                        break;
                    case "replace":
                        replace = Integer.parseInt(words[1]);
                        break;
                    case "quit":
                        quit = true;
                        break;
                    default:
                        System.err.println("unknown command " + line);
                }
            }
        } catch (java.io.IOException e) {
            System.err.println(e);
        }
        quit = true;
    }
}
