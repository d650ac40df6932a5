import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Allocates without rest and checks every object again before it is dropped. Arguments: live megabytes,
 * threads. With the property "pause", each thread sleeps that many milliseconds before each object. Commands
 * on standard input: "rest" (answered with "rests" when all threads do), "go on", "gc", "close N" (a
 * descriptor), "connect N" (N times, to itself), "quit". Ends with its standard input. Prints the number of
 * checked objects four times a second, and "BROKEN" with exit status 3 if an object is not as it was made, or
 * if anything comes over a connection.
 */
public final class Sums {
    static final int LARGE = 3 << 17;
    static final int PAUSE = Integer.getInteger("pause", 0);
    static volatile boolean rests;
    static final AtomicInteger RESTING = new AtomicInteger();
    static volatile boolean quit;
    static final AtomicLong CHECKED = new AtomicLong();
    static volatile ServerSocket server;
    static final List<Socket> CONNECTIONS = new CopyOnWriteArrayList<>();

    public static void main(String[] arguments) throws Exception {
        int live = Integer.parseInt(arguments[0]);
        int threads = Integer.parseInt(arguments[1]);
        for (int i = 0; i < threads; i++) {
            long seed = i + 1;
            Thread worker = new Thread(() -> work(live * 1024 / threads, seed));
            worker.setDaemon(true);
            worker.start();
        }
        Thread printer = new Thread(Sums::print);
        printer.setDaemon(true);
        printer.start();
        listen(threads);
    }

    /** Keeps this many arrays of about a kilobyte, a few much larger ones, and much garbage. */
    static void work(int count, long seed) {
        long[][] kept = new long[count][];
        long[][] large = new long[2][];
        long random = seed * 0x9E3779B97F4A7C15L;
        try {
            while (!quit) {
                if (rests) {
                    RESTING.incrementAndGet();
                    while (rests && !quit) {
                        Thread.sleep(50);
                    }
                    RESTING.decrementAndGet();
                }
                random ^= random << 13;
                random ^= random >>> 7;
                random ^= random << 17;
                if (PAUSE > 0) {
                    Thread.sleep(PAUSE);
                }
                int length = 2 + (int) ((random >>> 20) & 255);
                long[] made = make(length, random);
                if ((random >>> 40) % 8 == 0) {
                    int at = (int) ((random >>> 33) % count);
                    check(kept[at]);
                    kept[at] = made;
                } else {
                    check(made);
                }
                if ((random >>> 30) % 4096 == 0) {
                    int at = (int) (random >>> 63);
                    check(large[at]);
                    large[at] = make(LARGE, random);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static long[] make(int length, long seed) {
        long[] made = new long[length];
        for (int i = 0; i < length; i += 16) {
            if (made[i] != 0) {
                broken("a new array is not empty");
            }
        }
        made[0] = seed;
        for (int i = 1; i < length; i++) {
            made[i] = made[i - 1] * 6364136223846793005L + 1442695040888963407L;
        }
        return made;
    }

    static void check(long[] made) {
        if (made == null) {
            return;
        }
        long next = made[0];
        for (int i = 1; i < made.length; i++) {
            next = next * 6364136223846793005L + 1442695040888963407L;
            if (made[i] != next) {
                broken("word " + i + " of " + made.length + " changed");
            }
        }
        CHECKED.incrementAndGet();
    }

    static void broken(String what) {
        System.out.println("BROKEN: " + what);
        System.out.flush();
        Runtime.getRuntime().halt(3);
    }

    static void print() {
        try {
            while (!quit) {
                Thread.sleep(250);
                for (Socket connection : CONNECTIONS) {
                    if (connection.getInputStream().available() > 0) {
                        broken("somebody else sent over a connection");
                    }
                }
                System.out.println(CHECKED.get());
            }
        } catch (java.io.IOException e) {
            broken("a connection is gone: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void listen(int threads) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            if (line.equals("rest")) {
                rests = true;
                while (RESTING.get() < threads) {
                    Thread.sleep(5);
                }
                System.out.println("rests");
            } else if (line.equals("go on")) {
                rests = false;
            } else if (line.equals("gc")) {
                System.gc();
            } else if (line.startsWith("close ")) {
                close(Integer.parseInt(line.substring(6)));
            } else if (line.startsWith("connect ")) {
                connect(Integer.parseInt(line.substring(8)));
            }
        }
        quit = true;
        System.out.println("done " + CHECKED.get());
    }

    /** Opens connections to itself, two descriptors each. */
    static void connect(int count) throws Exception {
        InetAddress here = InetAddress.getLoopbackAddress();
        server = new ServerSocket(0, count, here);
        for (int i = 0; i < count; i++) {
            CONNECTIONS.add(new Socket(here, server.getLocalPort()));
            CONNECTIONS.add(server.accept());
        }
        System.out.println("connected");
    }

    /** Closes a descriptor that somebody else opened, as careless programs do. */
    static void close(int number) throws Exception {
        Constructor<FileDescriptor> of = FileDescriptor.class.getDeclaredConstructor(int.class);
        of.setAccessible(true);
        new FileInputStream(of.newInstance(number)).close();
        System.out.println("closed");
    }
}
