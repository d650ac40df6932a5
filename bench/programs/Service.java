import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * A service that keeps records and replaces a few of them with each request, so that the records that it
 * drops are in the old generation. Arguments:
 * megabytes of live records; bytes of records that a request replaces; further bytes that a request
 * allocates; and {@code TURN INDEX COUNT QUIET}.
 * Time is divided into turns of TURN seconds, by the clock, and every COUNT-th turn belongs to the service
 * with a given INDEX. So services that are
 * started with the same COUNT are busy one after the other. In its own turns a service works all the time, in
 * the others QUIET percent of the time.
 * With a TURN of 0 it works all the time. Prints one JSON object per line, about every half second: "work"
 * counts requests, "longest" is the longest
 * one so far in milliseconds.
 */
public final class Service {
    private static final long SECOND = 1_000_000_000L;
    private static final int TABLE = 256;
    private static final int LEAST = 200;
    private static final int MOST = 1800;

    private static final class Record {
        final byte[] text;
        final Record next;
        long read;

        Record(int bytes, Record next) {
            text = new byte[bytes];
            this.next = next;
        }
    }

    private static Record[][] tables;
    private static SplittableRandom random = new SplittableRandom(7);
    private static long checksum;
    private static Object sink;

    private Service() {}

    public static void main(String[] arguments) {
        long live = Long.parseLong(arguments[0]) << 20;
        int replaced = Integer.parseInt(arguments[1]);
        int besides = Integer.parseInt(arguments[2]);
        long turn = arguments.length > 3 ? (long) (Double.parseDouble(arguments[3]) * 1000) : 0;
        int index = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 0;
        int count = arguments.length > 5 ? Integer.parseInt(arguments[5]) : 1;
        double quiet = arguments.length > 6 ? Double.parseDouble(arguments[6]) / 100 : 1;
        fill(live);
        long requests = 0;
        long longest = 0;
        long shown = System.nanoTime();
        while (true) {
            long start = System.nanoTime();
            request(replaced, besides);
            requests++;
            long end = System.nanoTime();
            longest = Math.max(longest, end - start);
            boolean busy = turn == 0 || System.currentTimeMillis() / turn % count == index;
            if (!busy) {
                rest((end - start) * (1 - quiet) / quiet);
            }
            if (end - shown >= SECOND / 2) {
                shown = end;
                System.out.printf("{\"event\":\"progress\",\"work\":%d,\"longest\":%.1f,\"checksum\":%d}%n",
                                  requests, longest / 1e6, checksum);
            }
        }
    }

    /**
     * Nanoseconds of rest that are due, 0.2 s at most. They are saved up until they are a millisecond,
     * because shorter sleeps last too long.
     */
    private static double owed;

    private static void rest(double nanoseconds) {
        owed = Math.min(owed + nanoseconds, SECOND / 5);
        if (owed >= 1_000_000) {
            long begin = System.nanoTime();
            LockSupport.parkNanos((long) owed);
            owed -= System.nanoTime() - begin;
        }
    }

    private static void fill(long bytes) {
        int records = (int) (bytes / (LEAST + (MOST - LEAST) / 2 + 64));
        tables = new Record[records / TABLE + 1][TABLE];
        for (Record[] table : tables) {
            for (int i = 0; i < TABLE; i++) {
                table[i] = record();
            }
        }
    }

    private static Record record() {
        return new Record(LEAST + random.nextInt(MOST - LEAST), null);
    }

    private static void request(int replaced, int besides) {
        for (int bytes = 0; bytes < replaced; ) {
            Record made = record();
            bytes += made.text.length;
            tables[random.nextInt(tables.length)][random.nextInt(TABLE)] = made;
        }
        Record answer = null;
        for (int bytes = 0; bytes < besides; ) {
            Record found = tables[random.nextInt(tables.length)][random.nextInt(TABLE)];
            found.read++;
            checksum += found.text.length;
            answer = new Record(found.text.length, answer);
            bytes += answer.text.length;
        }
        sink = answer;
    }
}
