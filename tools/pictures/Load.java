import java.util.ArrayList;
import java.util.List;

/** Keeps LIVE MB, and replaces CHURN MB of it a second, for SECONDS. */
public class Load {
    static final int PIECE = 1 << 20;

    public static void main(String[] args) throws InterruptedException {
        int live = Integer.parseInt(args[0]);
        int churn = Integer.parseInt(args[1]);
        long end = System.nanoTime() + Long.parseLong(args[2]) * 1_000_000_000L;
        List<byte[][]> kept = new ArrayList<>();
        for (int piece = 0; System.nanoTime() < end; piece++) {
            byte[][] fresh = new byte[PIECE / 4096][];
            for (int part = 0; part < fresh.length; part++) {
                fresh[part] = new byte[4080];
            }
            if (kept.size() < live) {
                kept.add(fresh);
            } else {
                kept.set(piece % live, fresh);
            }
            Thread.sleep(1000 / churn);
        }
    }
}
