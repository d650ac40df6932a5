import java.util.Arrays;

/**
 * Runs GcBench beside threads that do nothing. Arguments: the number of these threads; those of GcBench.
 */
public final class Crowd {
    private Crowd() {}

    public static void main(String[] arguments) {
        int threads = Integer.parseInt(arguments[0]);
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(Crowd::rest, "idle-" + i);
            thread.setDaemon(true);
            thread.start();
        }
        GcBench.main(Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    private static void rest() {
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
