/**
 * A program with a large live set whose objects die old, as in a cache. It holds a table of small linked
 * objects, and each piece of work replaces some of them and drops others at once. Every collection of the
 * whole heap has to walk through all that lives. Arguments: how many megabytes live (128), how many
 * megabytes are allocated (4096), how many percent of the allocations replace what lives (20). Prints one
 * JSON object when it is done: milliseconds of work after the table was filled, and a checksum that does not
 * depend on the collector.
 */
public final class Graph {
    /** The bytes of a node: a header, two references and a payload of 40 bytes with its own header. */
    private static final int NODE_BYTES = 80;

    private static final class Node {
        private final byte[] payload = new byte[40];
        private Node next;
        private int mark;
    }

    private Graph() {}

    public static void main(String[] arguments) {
        long megabyte = 1L << 20;
        int live = Math.toIntExact(argument(arguments, 0, 128) * megabyte / NODE_BYTES);
        long work = argument(arguments, 1, 4096) * megabyte / NODE_BYTES;
        int replaced = Math.toIntExact(argument(arguments, 2, 20));
        Node[] table = new Node[live];
        for (int i = 0; i < live; i++) {
            table[i] = node(i, i > 0 ? table[i - 1] : null);
        }
        long begin = System.nanoTime();
        long random = 88172645463325252L;
        long checksum = 0;
        for (long i = 0; i < work; i++) {
            random ^= random << 13;
            random ^= random >>> 7;
            random ^= random << 17;
            Node made = node((int) i, null);
            if ((random >>> 33) % 100 < replaced) {
                int at = (int) ((random >>> 1) % live);
                // The neighbour is dropped, so that chains stay short and old nodes die.
                made.next = table[(at + 1) % live];
                made.next.next = null;
                table[at] = made;
            }
            checksum += made.mark;
        }
        for (Node node : table) {
            checksum = checksum * 31 + node.mark;
        }
        long took = (System.nanoTime() - begin) / 1_000_000;
        System.out.println("{\"event\":\"done\",\"ms\":" + took + ",\"checksum\":" + checksum + "}");
    }

    private static Node node(int mark, Node next) {
        Node node = new Node();
        node.mark = mark;
        node.next = next;
        return node;
    }

    private static long argument(String[] arguments, int at, long otherwise) {
        return arguments.length > at ? Long.parseLong(arguments[at]) : otherwise;
    }
}
