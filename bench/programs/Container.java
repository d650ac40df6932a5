import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * A service in a small container. Arguments: megabytes of live data; megabytes of them that it replaces per
 * second; seconds that it runs; and what
 * it does besides. {@code steady}: nothing. {@code native N}: three seconds after the start it fills N
 * megabytes of direct buffers, within one second.
 * {@code burst}: every three seconds it doubles the live data, for one second. Prints one JSON object per
 * line, about twice a second: "work" counts
 * the kilobytes that were replaced.
 */
public final class Container {
    private static final long SECOND = 1_000_000_000L;
    private static final int ARRAY = 1000;

    private Container() {}

    public static void main(String[] arguments) throws InterruptedException {
        int live = Integer.parseInt(arguments[0]);
        int rate = Integer.parseInt(arguments[1]);
        double seconds = Double.parseDouble(arguments[2]);
        String kind = arguments[3];
        int more = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 0;
        byte[][] kept = new byte[live * 1024][];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[ARRAY];
        }
        List<ByteBuffer> buffers = new ArrayList<>();
        byte[][] burst = null;
        long start = System.nanoTime();
        long shown = start;
        long work = 0;
        int at = 0;
        for (long now = start; now - start < seconds * SECOND; now = System.nanoTime()) {
            double passed = (now - start) / (double) SECOND;
            for (int i = 0; i < rate * 10; i++, work++) {
                at = (at + 7919) % kept.length;
                kept[at] = new byte[ARRAY];
            }
            if (kind.equals("native") && passed > 3 && buffers.size() < more &&
                buffers.size() < (passed - 3) * more) {
                ByteBuffer buffer = ByteBuffer.allocateDirect(1 << 20);
                for (int i = 0; i < buffer.capacity(); i += 4096) {
                    buffer.put(i, (byte) 1);
                }
                buffers.add(buffer);
            }
            boolean full = kind.equals("burst") && (long) passed % 3 == 2;
            if (full && burst == null) {
                burst = new byte[live * 1024][];
                for (int i = 0; i < burst.length; i++) {
                    burst[i] = new byte[ARRAY];
                }
            } else if (!full) {
                burst = null;
            }
            if (now - shown > SECOND / 2) {
                shown = now;
                System.out.printf("{\"work\":%d,\"buffers\":%d}%n", work, buffers.size());
            }
            Thread.sleep(kind.equals("native") && buffers.size() < more && passed > 3 ? 5 : 10);
        }
        System.out.printf("{\"event\":\"done\",\"work\":%d,\"max\":%d}%n", work,
                          Runtime.getRuntime().maxMemory() >> 20);
    }
}
