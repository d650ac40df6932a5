import java.nio.file.Files;
import java.nio.file.Paths;

/** Prints the maximum heap, and the most that was resident so far, both in megabytes. */
public final class Upfront {
    public static void main(String[] arguments) throws Exception {
        long max = Runtime.getRuntime().maxMemory() >> 20;
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                long kib = Long.parseLong(line.replaceAll("[^0-9]", ""));
                System.out.println(max + " " + (kib >> 10));
            }
        }
    }
}
