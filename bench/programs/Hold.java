import java.util.concurrent.locks.LockSupport;

/**
 * Holds memory and does nothing: a program to look at. Arguments: how many megabytes live. Says {@code held}
 * when they do. Fifty threads wait beside it, as in a server at night.
 */
public final class Hold {
    private static final int PIECE = 16 << 10;
    private static byte[][] kept;

    private Hold() {}

    public static void main(String[] arguments) {
        int pieces = Integer.parseInt(arguments[0]) * ((1 << 20) / PIECE);
        kept = new byte[pieces][];
        for (int i = 0; i < pieces; i++) {
            kept[i] = new byte[PIECE - 16];
            kept[i][0] = 1;
        }
        for (int i = 0; i < 50; i++) {
            Thread thread = new Thread(Hold::rest);
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("held");
        rest();
    }

    private static void rest() {
        while (true) {
            LockSupport.park();
        }
    }
}
