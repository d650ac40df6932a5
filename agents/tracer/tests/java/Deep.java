/**
 * Recursion until the stack is full, with and without monitors, and a heap that gets full. Prints whether the
 * errors are those that a program expects, and whether all monitors are free afterwards.
 */
public class Deep {
    private static final Object LOCK = new Object();
    private int depth;

    synchronized void method() {
        depth++;
        method();
    }

    void block() {
        synchronized (LOCK) {
            depth++;
            block();
        }
    }

    void plain(int[] before) {
        depth++;
        plain(new int[] {before[0] + 1});
    }

    private static void overflows(Runnable recursion) {
        try {
            recursion.run();
        } catch (StackOverflowError expected) {
            return;
        }
        throw new IllegalStateException("the stack has no end");
    }

    private static void fills() {
        Object[] all = new Object[1_000];
        try {
            for (int i = 0; i < all.length; i++) {
                all[i] = new byte[64 << 20];
            }
        } catch (OutOfMemoryError expected) {
            return;
        }
        throw new IllegalStateException("the heap has no end");
    }

    public static void main(String[] arguments) throws InterruptedException {
        Deep deep = new Deep();
        for (int i = 0; i < 10; i++) {
            overflows(deep::method);
            overflows(deep::block);
            overflows(() -> deep.plain(new int[1]));
        }
        fills();
        boolean[] free = new boolean[1];
        Thread other = new Thread(() -> {
            synchronized (deep) {
                synchronized (LOCK) {
                    free[0] = true;
                }
            }
        });
        other.start();
        other.join();
        System.out.println(free[0] && deep.depth > 1_000 ? "deep" : "flat");
    }
}
