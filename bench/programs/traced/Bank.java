import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A bank in an H2 database in memory, in the manner of DaCapo's hsqldb: threads with a connection each move
 * money between accounts, and look up balances. Arguments: threads, transfers of each, accounts. Prints the
 * number of transfers that were tried again, because two wanted the same account, and fails unless the sum of
 * all balances is what it was.
 *
 * With two arguments more, the transfers are those of a task, and the two are the tasks that do not count and
 * those that do ({@link Tasks}).
 */
public final class Bank {
    private static final String URL = "jdbc:h2:mem:bank;DB_CLOSE_DELAY=-1;LOCK_TIMEOUT=20000";
    private static final int OPENING = 1_000;

    private static final AtomicLong AGAIN = new AtomicLong();

    private Bank() {}

    private static void fill(Connection connection, int accounts) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT, owner VARCHAR(60))");
            statement.execute(
                "CREATE TABLE entry (id IDENTITY, account INT, amount BIGINT, note VARCHAR(60))");
        }
        String insert = "INSERT INTO account VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (int id = 0; id < accounts; id++) {
                statement.setInt(1, id);
                statement.setLong(2, OPENING);
                statement.setString(3, "owner of account " + id);
                statement.executeUpdate();
            }
        }
    }

    private static void work(int number, int transfers, int accounts) {
        SplittableRandom random = new SplittableRandom(number * 131L + 7);
        try (Connection connection = DriverManager.getConnection(URL)) {
            connection.setAutoCommit(false);
            for (int n = 0; n < transfers; n++) {
                step(connection, random, n, accounts);
            }
        } catch (SQLException error) {
            throw new IllegalStateException("thread " + number, error);
        }
    }

    /** A transfer, and every fourth time a look at a balance. */
    private static void step(Connection connection, SplittableRandom random, int n, int accounts)
            throws SQLException {
        int from = random.nextInt(accounts);
        int to = random.nextInt(accounts);
        // Always in the same order, so that no two wait for each other.
        while (!moved(connection, Math.min(from, to), Math.max(from, to), 1 + n % 50)) {
            AGAIN.incrementAndGet();
        }
        if (n % 4 == 0) {
            look(connection, random.nextInt(accounts));
        }
    }

    /** A client whose task is this many transfers. */
    private static Callable<Integer> client(int number, int transfers, int accounts) throws SQLException {
        SplittableRandom random = new SplittableRandom(number * 131L + 7);
        Connection connection = DriverManager.getConnection(URL);
        connection.setAutoCommit(false);
        return () -> {
            for (int n = 0; n < transfers; n++) {
                step(connection, random, n, accounts);
            }
            return transfers;
        };
    }

    private static boolean moved(Connection connection, int from, int to, int amount) throws SQLException {
        try {
            change(connection, from, -amount);
            change(connection, to, amount);
            connection.commit();
            return true;
        } catch (SQLException error) {
            // 40001: another transaction changed the account meanwhile; HYT00: it held it for too long.
            connection.rollback();
            if ("40001".equals(error.getSQLState()) || "HYT00".equals(error.getSQLState())) {
                return false;
            }
            throw error;
        }
    }

    private static void change(Connection connection, int account, int amount) throws SQLException {
        String update = "UPDATE account SET balance = balance + ? WHERE id = ?";
        try (PreparedStatement statement = connection.prepareStatement(update)) {
            statement.setInt(1, amount);
            statement.setInt(2, account);
            statement.executeUpdate();
        }
        String insert = "INSERT INTO entry (account, amount, note) VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setInt(1, account);
            statement.setInt(2, amount);
            statement.setString(3, "moved " + amount);
            statement.executeUpdate();
        }
    }

    private static void look(Connection connection, int account) throws SQLException {
        String select = "SELECT owner, balance FROM account WHERE id = ?";
        try (PreparedStatement statement = connection.prepareStatement(select)) {
            statement.setInt(1, account);
            try (ResultSet result = statement.executeQuery()) {
                if (!result.next() || result.getString(1).isEmpty()) {
                    throw new IllegalStateException("account " + account + " is gone");
                }
            }
        }
        connection.commit();
    }

    private static long sum(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery("SELECT SUM(balance) FROM account")) {
            result.next();
            return result.getLong(1);
        }
    }

    private static void check(Connection connection, int accounts) throws SQLException {
        if (sum(connection) != (long) accounts * OPENING) {
            throw new IllegalStateException("the bank holds " + sum(connection));
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        int transfers = Integer.parseInt(arguments[1]);
        int accounts = Integer.parseInt(arguments[2]);
        try (Connection connection = DriverManager.getConnection(URL)) {
            fill(connection, accounts);
            if (arguments.length == 5) {
                Callable<?>[] clients = new Callable<?>[count];
                for (int n = 0; n < count; n++) {
                    clients[n] = client(n, transfers, accounts);
                }
                Tasks.run(clients, Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
                check(connection, accounts);
                return;
            }
            List<Thread> threads = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                int number = n;
                Thread thread = new Thread(() -> work(number, transfers, accounts), "client " + n);
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            check(connection, accounts);
        }
        System.out.println("{\"transfers\": " + (long) count * transfers + ", \"again\": " + AGAIN + "}");
    }
}
