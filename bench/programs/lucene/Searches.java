import java.util.Random;
import java.util.concurrent.Callable;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.queryparser.classic.QueryParser;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.store.ByteBuffersDirectory;

/**
 * Threads that search an index in memory of made-up documents. A task is a query of three words whose best
 * documents are read and put into one text, as a page of results is.
 *
 * Arguments: threads, documents, results of a query, tasks that do not count, tasks that do.
 */
public final class Searches {
    private static final int WORDS = 20_000;
    private static final int LENGTH = 60;

    static String word(Random random) {
        // Words are numbered by how often they occur, about as in natural language (Zipf).
        return "w" + (int) Math.pow(WORDS, random.nextDouble());
    }

    static ByteBuffersDirectory index(int documents) throws Exception {
        ByteBuffersDirectory directory = new ByteBuffersDirectory();
        IndexWriterConfig config = new IndexWriterConfig(new WhitespaceAnalyzer());
        config.setMergeScheduler(new SerialMergeScheduler());
        Random random = new Random(1);
        try (IndexWriter writer = new IndexWriter(directory, config)) {
            for (int number = 0; number < documents; number++) {
                StringBuilder text = new StringBuilder();
                for (int i = 0; i < LENGTH; i++) {
                    text.append(word(random)).append(' ');
                }
                Document document = new Document();
                document.add(new TextField("text", text.toString(), Field.Store.YES));
                writer.addDocument(document);
            }
            writer.forceMerge(1);
        }
        return directory;
    }

    static int search(IndexSearcher searcher, Random random, int results) throws Exception {
        String words = word(random) + ' ' + word(random) + ' ' + word(random);
        QueryParser parser = new QueryParser("text", new WhitespaceAnalyzer());
        StringBuilder page = new StringBuilder();
        for (ScoreDoc found : searcher.search(parser.parse(words), results).scoreDocs) {
            page.append(searcher.doc(found.doc).get("text")).append('\n');
        }
        return page.toString().hashCode();
    }

    public static void main(String[] arguments) throws Exception {
        int[] numbers = new int[arguments.length];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = Integer.parseInt(arguments[i]);
        }
        IndexSearcher searcher = new IndexSearcher(DirectoryReader.open(index(numbers[1])));
        Callable<?>[] tasks = new Callable<?>[numbers[0]];
        for (int i = 0; i < tasks.length; i++) {
            Random random = new Random(i);
            tasks[i] = () -> search(searcher, random, numbers[2]);
        }
        Tasks.run(tasks, numbers[3], numbers[4]);
    }
}
