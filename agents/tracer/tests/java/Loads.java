import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Loads and verifies each class file of a list, and prints what the machine says: nothing, or its error. */
public final class Loads {
    /** Has the other classes of a program. */
    private static final class Loader extends ClassLoader {
        private final Path folder;

        Loader(Path folder) {
            super(null);
            this.folder = folder;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            try {
                byte[] bytes = Files.readAllBytes(folder.resolve(name.replace('.', '/') + ".class"));
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException | RuntimeException absent) {
                throw new ClassNotFoundException(name);
            }
        }

        String load(byte[] bytes) {
            try {
                // The list of methods is made of a class that is verified; nothing of it runs.
                defineClass(null, bytes, 0, bytes.length).getDeclaredMethods();
                return "";
            } catch (Throwable refused) {
                return refused.getClass().getName();
            }
        }
    }

    public static void main(String[] arguments) throws IOException {
        StringBuilder said = new StringBuilder();
        try (DataInputStream list = new DataInputStream(new FileInputStream(arguments[0]))) {
            while (true) {
                byte[] bytes = new byte[list.readInt()];
                list.readFully(bytes);
                said.append(new Loader(Paths.get(arguments[1])).load(bytes)).append('\n');
            }
        } catch (EOFException end) {
            System.out.print(said);
        }
    }
}
