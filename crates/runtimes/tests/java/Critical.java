import java.util.Random;
import java.util.zip.Deflater;

/** Leaves garbage behind, then is in critical sections of JNI nearly all the time, until its input ends. */
public final class Critical {
    static byte[][] kept = new byte[300][];

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[1 << 20];
        }
        kept = null;
        for (int i = 0; i < 2; i++) {
            Thread thread = new Thread(Critical::compress);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
    }

    /** The native method holds its arrays for as long as it compresses. */
    private static void compress() {
        byte[] from = new byte[8 << 20];
        byte[] to = new byte[9 << 20];
        new Random(1).nextBytes(from);
        while (true) {
            Deflater deflater = new Deflater(9);
            deflater.setInput(from);
            deflater.finish();
            deflater.deflate(to);
            deflater.end();
        }
    }
}
