import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * An order system in memory, in the manner of SPECjbb2000: warehouses with districts, customers, stock and
 * orders, and one thread for each warehouse that enters orders, takes payments, delivers, and asks for the
 * state of orders and of the stock. One transaction in a hundred concerns a neighbour's warehouse.
 * Little lives of what is allocated, so that a short run has as many collections for its size as a long one
 * of that benchmark. Arguments: warehouses, and transactions of each. Prints how many of them entered an
 * order: always the same number for the same arguments.
 */
public final class Orders {
    private static final int DISTRICTS = 10;
    private static final int CUSTOMERS = 30;
    private static final int ITEMS = 500;
    /** Orders that a district keeps after they were delivered. */
    private static final int KEPT = 10;
    /** Payments that a customer's history keeps. */
    private static final int HISTORY = 5;

    private record Line(int item, int quantity, long cents, String text) {}

    private static final class Order {
        final int number;
        final Customer customer;
        final List<Line> lines;
        boolean delivered;

        Order(int number, Customer customer, List<Line> lines) {
            this.number = number;
            this.customer = customer;
            this.lines = lines;
        }

        long cents() {
            long sum = 0;
            for (Line line : lines) {
                sum += line.cents();
            }
            return sum;
        }
    }

    private static final class Customer {
        final String name;
        final ArrayDeque<String> payments = new ArrayDeque<>();
        Order last;
        long balance;

        Customer(String name) {
            this.name = name;
        }

        synchronized void pay(long cents, String what) {
            balance += cents;
            payments.addLast(what);
            if (payments.size() > HISTORY) {
                payments.removeFirst();
            }
        }
    }

    private static final class District {
        final TreeMap<Integer, Order> orders = new TreeMap<>();
        final ArrayDeque<Order> waiting = new ArrayDeque<>();
        final List<Customer> customers = new ArrayList<>();
        int next = 1;

        /** Held by whoever enters or delivers an order. */
        synchronized Order enter(Customer customer, List<Line> lines) {
            Order order = new Order(next++, customer, lines);
            orders.put(order.number, order);
            waiting.addLast(order);
            customer.last = order;
            while (orders.size() > KEPT && orders.firstEntry().getValue().delivered) {
                orders.pollFirstEntry();
            }
            return order;
        }

        synchronized Order deliver() {
            Order order = waiting.pollFirst();
            if (order != null) {
                order.delivered = true;
            }
            return order;
        }
    }

    private static final class Warehouse {
        final int number;
        final District[] districts = new District[DISTRICTS];
        final Map<Integer, Integer> stock = new HashMap<>();
        /** Keeps the compiler from dropping the work; written by the warehouse's thread. */
        volatile long sum;

        Warehouse(int number) {
            this.number = number;
            for (int d = 0; d < DISTRICTS; d++) {
                districts[d] = new District();
                for (int c = 0; c < CUSTOMERS; c++) {
                    districts[d].customers.add(new Customer("customer " + number + "/" + d + "/" + c));
                }
            }
            for (int item = 0; item < ITEMS; item++) {
                stock.put(item, 1_000);
            }
        }

        synchronized int take(int item, int quantity) {
            int left = stock.get(item) - quantity;
            stock.put(item, left < 10 ? left + 1_000 : left);
            return left;
        }

        synchronized int scarce(int most) {
            int count = 0;
            for (int left : stock.values()) {
                count += left < most ? 1 : 0;
            }
            return count;
        }
    }

    private final Warehouse[] warehouses;

    private Orders(int count) {
        warehouses = new Warehouse[count];
        for (int n = 0; n < count; n++) {
            warehouses[n] = new Warehouse(n);
        }
    }

    private void work(Warehouse own, int transactions) {
        SplittableRandom random = new SplittableRandom(own.number * 31L + 5);
        long sum = 0;
        for (int n = 0; n < transactions; n++) {
            boolean foreign = random.nextInt(100) == 0;
            Warehouse at = foreign ? warehouses[(own.number + 1) % warehouses.length] : own;
            District district = at.districts[random.nextInt(DISTRICTS)];
            Customer customer = district.customers.get(random.nextInt(CUSTOMERS));
            int kind = random.nextInt(23);
            if (kind < 10) {
                sum += enter(at, district, customer, random);
            } else if (kind < 20) {
                long cents = 100 + random.nextInt(50_000);
                customer.pay(cents, customer.name + " paid " + cents + " cents in transaction " + n);
                sum += cents;
            } else if (kind == 20) {
                for (District each : at.districts) {
                    Order order = each.deliver();
                    sum += order == null || foreign ? 0 : order.lines.size();
                }
            } else if (kind == 21) {
                Order last = customer.last;
                String told =
                    last == null ? "none" : customer.name + ": " + last.number + ", " + last.cents();
                sum += foreign ? 0 : told.length() & 1;
            } else {
                sum += at.scarce(20) & 1;
            }
        }
        own.sum = sum;
    }

    private static long enter(Warehouse at, District district, Customer customer, SplittableRandom random) {
        int count = 5 + random.nextInt(11);
        List<Line> lines = new ArrayList<>();
        long sum = 0;
        for (int n = 0; n < count; n++) {
            int item = random.nextInt(ITEMS);
            int quantity = 1 + random.nextInt(10);
            at.take(item, quantity);
            long cents = (long) quantity * (100 + item % 900);
            lines.add(new Line(item, quantity, cents, "item " + item + " of warehouse " + at.number));
            sum += cents;
        }
        district.enter(customer, lines);
        return sum;
    }

    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        int transactions = Integer.parseInt(arguments[1]);
        Orders orders = new Orders(count);
        List<Thread> threads = new ArrayList<>();
        for (Warehouse warehouse : orders.warehouses) {
            Thread thread =
                new Thread(() -> orders.work(warehouse, transactions), "warehouse " + warehouse.number);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        long entered = 0;
        for (Warehouse warehouse : orders.warehouses) {
            for (District district : warehouse.districts) {
                entered += district.next - 1;
            }
        }
        System.out.println(
            "{\"transactions\": " + (long) count * transactions + ", \"orders\": " + entered + "}");
    }
}
