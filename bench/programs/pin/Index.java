import java.nio.file.Path;
import java.util.Random;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.store.FSDirectory;

/**
 * Writes an index of made-up documents into a folder: {@code Index FOLDER DOCUMENTS}. The same
 * arguments give the same documents. Words are numbered by how often they occur, about as in
 * natural language (Zipf); the text is stored too, which searches do not read.
 */
final class Index {
    private static final int WORDS = 40_000;
    private static final int LENGTH = 60;

    public static void main(String[] arguments) throws Exception {
        int documents = Integer.parseInt(arguments[1]);
        IndexWriterConfig config = new IndexWriterConfig(new WhitespaceAnalyzer());
        // One thread, so that the index is the same each time.
        config.setMergeScheduler(new SerialMergeScheduler());
        config.setRAMBufferSizeMB(128);
        Random random = new Random(1);
        try (IndexWriter writer = new IndexWriter(FSDirectory.open(Path.of(arguments[0])), config)) {
            for (int number = 0; number < documents; number++) {
                writer.addDocument(document(random));
            }
            writer.forceMerge(1);
        }
    }

    private static Document document(Random random) {
        StringBuilder text = new StringBuilder();
        for (int word = 0; word < LENGTH; word++) {
            // The inverse of the distribution function of 1/x.
            int rank = (int) Math.pow(WORDS, random.nextDouble());
            text.append('w').append(rank).append(' ');
        }
        Document document = new Document();
        document.add(new TextField("text", text.toString(), Field.Store.NO));
        document.add(new StoredField("stored", text.toString()));
        return document;
    }
}
