/** Prints the maximum heap in megabytes, and its arguments. */
public final class Heap {
    public static void main(String[] arguments) {
        long max = Runtime.getRuntime().maxMemory() >> 20;
        System.out.println(max + " " + String.join("|", arguments));
    }
}
