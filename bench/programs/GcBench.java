import java.util.concurrent.locks.LockSupport;

/**
 * A benchmark of collectors with binary trees, as gcbench.c. Large trees and a large array live to the end.
 * In each iteration it builds trees of
 * growing depth, from the root down and from the leaves up, and drops each of them when it is complete.
 * Arguments:
 * 1. the number of iterations;
 * 2. the number of large trees that live (1; each takes about 4 MB);
 * 3. the highest rate of allocation in MB per second (0: no bound);
 * 4. the bytes of a buffer (0: it builds trees; otherwise it fills and drops buffers instead, as a server
 *    does, which leaves processor time to a
 *    concurrent collector);
 * 5. the number of iterations of a burst (0: it works all the time);
 * 6. the seconds that it rests after each burst, without its large trees. If negative, it rests before the
 *    first burst too.
 * Prints one JSON object per line: progress about every second and after each burst ("work" counts
 * iterations), "done" at the end, with a checksum
 * that does not depend on the collector.
 */
public final class GcBench {
    private static final int LIVE_DEPTH = 16;
    private static final int LEAST_DEPTH = 4;
    private static final int MOST_DEPTH = 16;
    private static final long SECOND = 1_000_000_000L;
    private static final long NODE_BYTES = 32;

    private static final class Node {
        Node left;
        Node right;
        int depth;
        int mark;
    }

    /** The highest rate of allocation in bytes per second; 0 means no bound. */
    private static long pace;
    /** The time (of System.nanoTime) at which the bytes allocated so far are due at that rate. */
    private static long paced = System.nanoTime();
    private static int bufferBytes;
    private static byte[] buffer;

    private GcBench() {}

    public static void main(String[] arguments) {
        long iterations = arguments.length > 0 ? Long.parseLong(arguments[0]) : 400;
        pace = arguments.length > 2 ? Long.parseLong(arguments[2]) * 1_000_000L : 0;
        bufferBytes = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 0;
        long burst = arguments.length > 4 ? Long.parseLong(arguments[4]) : 0;
        long restSeconds = arguments.length > 5 ? Long.parseLong(arguments[5]) : 0;
        if (restSeconds < 0) {
            sleep(-restSeconds);
        }
        int trees = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 1;
        Node[] live = plant(trees);
        double[] array = new double[500_000];
        for (int i = 0; i < array.length; i++) {
            array[i] = 1.0 / (i + 1);
        }
        long start = System.nanoTime();
        long shown = start;
        long checksum = 0;
        for (long i = 1; i <= iterations; i++) {
            checksum += bufferBytes > 0 ? fill() : iterate();
            long now = System.nanoTime();
            boolean pause = burst > 0 && i % burst == 0;
            if (pause || now - shown >= SECOND) {
                shown = now;
                line("progress", i, now - start, checksum);
            }
            if (pause) {
                live = null;
                sleep(Math.abs(restSeconds));
                live = plant(trees);
            }
        }
        for (Node tree : live) {
            checksum += count(tree);
        }
        checksum += (array[999] == 1.0 / 1000.0 ? 1 : 0);
        line("done", iterations, System.nanoTime() - start, checksum);
    }

    private static Node[] plant(int trees) {
        Node[] planted = new Node[trees];
        for (int i = 0; i < trees; i++) {
            planted[i] = new Node();
            growDown(planted[i], LIVE_DEPTH);
        }
        return planted;
    }

    private static void sleep(long seconds) {
        long end = System.nanoTime() + seconds * SECOND;
        while (System.nanoTime() < end) {
            LockSupport.parkNanos(end - System.nanoTime());
        }
    }

    /**
     * One iteration. There are fewer trees of a larger depth, so that all depths have about the same number
     * of nodes.
     */
    private static long iterate() {
        long nodes = 0;
        for (int depth = LEAST_DEPTH; depth <= MOST_DEPTH; depth += 2) {
            for (int i = 0; i < 1 << (MOST_DEPTH - depth); i++) {
                Node tree;
                if (i % 2 == 0) {
                    tree = new Node();
                    growDown(tree, depth);
                } else {
                    tree = growUp(depth);
                }
                if (i == 0) {
                    nodes += count(tree);
                }
            }
            rest(NODE_BYTES << (MOST_DEPTH + 1));
        }
        return nodes;
    }

    /** One iteration with buffers, which takes as many bytes as one with trees. */
    private static long fill() {
        long nodes = 0;
        for (int depth = LEAST_DEPTH; depth <= MOST_DEPTH; depth += 2) {
            for (long done = 0; done < NODE_BYTES << (MOST_DEPTH + 1); done += bufferBytes) {
                buffer = new byte[bufferBytes];
                buffer[bufferBytes - 1] = 1;
                nodes += buffer[bufferBytes - 1];
            }
            rest(NODE_BYTES << (MOST_DEPTH + 1));
        }
        return nodes;
    }

    /**
     * Waits until the rate allows this many further bytes. A program that is late catches up by a tenth of a
     * second at most.
     */
    private static void rest(long bytes) {
        if (pace == 0) {
            return;
        }
        paced = Math.max(paced + bytes * SECOND / pace, System.nanoTime() - SECOND / 10);
        LockSupport.parkNanos(paced - System.nanoTime());
    }

    private static void growDown(Node node, int depth) {
        node.depth = depth;
        if (depth > 0) {
            node.left = new Node();
            node.right = new Node();
            growDown(node.left, depth - 1);
            growDown(node.right, depth - 1);
        }
    }

    private static Node growUp(int depth) {
        Node left = depth > 0 ? growUp(depth - 1) : null;
        Node right = depth > 0 ? growUp(depth - 1) : null;
        Node node = new Node();
        node.left = left;
        node.right = right;
        node.depth = depth;
        return node;
    }

    private static long count(Node node) {
        return node == null ? 0 : 1 + count(node.left) + count(node.right);
    }

    private static void line(String event, long work, long nanoseconds, long checksum) {
        System.out.printf("{\"event\":\"%s\",\"time\":%.3f,\"work\":%d,\"checksum\":%d}%n", event,
                          nanoseconds / 1e9, work, checksum);
    }
}
