import java.lang.ref.SoftReference;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * Uses what a recorder could miss: copies, lambdas, atomic stores, exceptions, inner classes, all kinds of
 * waits.
 */
public class Shapes {
    static final Map<Integer, Object> KEPT = new HashMap<>();
    static final Map<String, List<Object>> SHARED = new ConcurrentHashMap<>();
    static final AtomicReference<Object> LAST = new AtomicReference<>();
    static long sum;

    static class Node implements Cloneable {
        Node next;
        Object value;
        final int number;

        Node(Node next, Object value, int number) {
            this.next = next;
            this.value = value;
            this.number = number;
        }

        class Inner {
            final Object own = new Object();

            Object outer() {
                return value == null ? own : Node.this;
            }
        }

        @Override
        public Node clone() {
            try {
                return (Node) super.clone();
            } catch (CloneNotSupportedException e) {
                throw new AssertionError(e);
            }
        }
    }

    static synchronized Object pick(int i, Object one, Object other) {
        if (i % 7 == 3) {
            throw new IllegalStateException("seven " + i);
        }
        return i % 2 == 0 ? one : other;
    }

    static long switches(int i) {
        switch (i % 5) {
            case 0: return new int[] {1, 2, 3}[i % 3];
            case 1: return (long) new double[] {1.5, 2.5}[i % 2];
            case 2: return new String("s" + i).length();
            default: break;
        }
        switch (("k" + i % 3).hashCode() % 1000) {
            case 107: return 1;
            case 500: return 2;
            default: return new long[4][i % 5 + 1][1].length;
        }
    }

    static void round(int i) {
        Node list = null;
        for (int n = 0; n < 10; n++) {
            list = new Node(list, new byte[16 + n], n);
        }
        Node copy = list.clone();
        Object[] array = {list, copy, copy.new Inner().outer(), null};
        Object[] longer = java.util.Arrays.copyOf(array, 8);
        System.arraycopy(array, 0, longer, 4, 4);
        Object captured = new Object();
        Supplier<Object> supplier = () -> captured;
        Supplier<Object> reference = copy::clone;
        KEPT.put(i % 50, longer);
        KEPT.put(1000 + i % 20, supplier);
        KEPT.put(2000 + i % 20, reference);
        KEPT.put(3000 + i % 10, longer.clone());
        KEPT.put(4000 + i % 10, new Object[3][4][2]);
        LAST.set(new Node(null, supplier.get(), i));
        LAST.getAndSet(new Node(null, reference.get(), i));
        SHARED.computeIfAbsent("key" + i % 30, key -> new ArrayList<>()).add(new Object());
        try {
            sum += pick(i, list, copy).hashCode() == 0 ? 1 : 0;
        } catch (IllegalStateException e) {
            KEPT.put(5000 + i % 10, e);
        }
        KEPT.put(6000 + i % 10, new WeakReference<>(new Node(null, null, i)));
        KEPT.put(7000 + i % 10, new SoftReference<>(new Node(null, null, i)));
        sum += switches(i);
        long[] wide = new long[3];
        wide[i % 3] = i;
        double[] real = {1, 2, 3};
        real[1] += wide[0];
        float[] small = new float[2];
        small[0] = i;
        sum += wide[i % 3] + (long) real[1] + (long) small[0];
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 500;
        for (int i = 0; i < rounds; i++) {
            round(i);
        }
        threads(rounds / 10);
        System.out.println("sum " + sum + " kept " + KEPT.size() + " shared " + SHARED.size());
    }

    static void until(Thread thread, Thread.State state) {
        while (thread.getState() != state) {
            Thread.yield();
        }
    }

    static void threads(int rounds) throws Exception {
        ReentrantLock lock = new ReentrantLock();
        CountDownLatch latch = new CountDownLatch(3);
        List<Thread> workers = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(3, work -> {
            workers.add(new Thread(work));
            return workers.get(workers.size() - 1);
        });
        // All of them wait for it, so whoever gives it up wakes another.
        lock.lock();
        for (int t = 0; t < 3; t++) {
            int me = t;
            pool.execute(() -> {
                for (int i = 0; i < rounds; i++) {
                    lock.lock();
                    try {
                        KEPT.put(8000 + me, new Node(null, "t" + i, i));
                    } finally {
                        lock.unlock();
                    }
                }
                latch.countDown();
            });
        }
        for (Thread worker : workers) {
            until(worker, Thread.State.WAITING);
        }
        lock.unlock();
        latch.await();
        pool.shutdown();
        Object gate = new Object();
        boolean[] open = {false};
        Thread main = Thread.currentThread();
        Thread waiter = new Thread(() -> {
            synchronized (gate) {
                while (!open[0]) {
                    try {
                        gate.wait();
                    } catch (InterruptedException e) {
                        return;
                    }
                }
            }
            // Until it is joined: who joins a thread that has ended waits for nothing.
            until(main, Thread.State.WAITING);
        }, "waiter");
        waiter.setPriority(7);
        waiter.start();
        Thread.sleep(5);
        until(waiter, Thread.State.WAITING);
        synchronized (gate) {
            open[0] = true;
            gate.notifyAll();
        }
        waiter.join();
        LockSupport.parkNanos(1_000_000);
    }
}
