import java.util.ArrayList;
import java.util.List;

/**
 * Keeps some megabytes alive (1 KiB arrays) and a large array of 8 MiB, collects garbage, says so, and
 * waits for the end of its standard input.
 */
public final class Live {
    static List<byte[]> small = new ArrayList<>();
    static byte[] large;

    public static void main(String[] arguments) throws Exception {
        int megabytes = Integer.parseInt(arguments[0]);
        for (int i = 0; i < megabytes * 1024; i++) {
            small.add(new byte[1024 - 16]);
        }
        large = new byte[8 << 20];
        System.gc();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
