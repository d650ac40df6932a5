<%-- A page of a search: some objects for the request, some that live for a while, many that live for good. --%>
<%@ page session="false" import="java.nio.file.Path, java.util.*, java.util.concurrent.atomic.*,
    org.apache.lucene.index.*, org.apache.lucene.search.*, org.apache.lucene.store.*" %><%!
static final IndexSearcher searcher;
static final List<byte[]> kept = new ArrayList<>();
static final Map<Integer, byte[]> recent = new LinkedHashMap<>();
static final AtomicInteger count = new AtomicInteger();
static {
  try {
    searcher = new IndexSearcher(DirectoryReader.open(new MMapDirectory(Path.of(System.getProperty("pin.index")))));
  } catch (java.io.IOException e) {
    throw new java.io.UncheckedIOException(e);
  }
  // No cache of queries: each request reads the index.
  searcher.setQueryCache(null);
  // Not zeros: pages of zeros are not written to swap.
  Random random = new Random(1);
  for (int i = 0; i < Integer.getInteger("pin.kept"); i++) {
    kept.add(new byte[1 << 20]);
    random.nextBytes(kept.get(i));
  }
}
/** The words that are asked for: the 1000 most common ones, in an order that looks like none. */
static String word(int number) { return "w" + (1 + number * 797 % 1000); }
%><html><body><table><%
int number = count.incrementAndGet();
BooleanQuery.Builder query = new BooleanQuery.Builder();
for (int i = 0; i < 4; i++) {
  query.add(new TermQuery(new Term("text", word(number * 4 + i))), BooleanClause.Occur.SHOULD);
}
TopDocs found = searcher.search(query.build(), 10);
synchronized (recent) {
  for (int i = 0; i < 5; i++) {
    byte[] entry = new byte[10000];
    Arrays.fill(entry, (byte) (number | 1));
    recent.put((number * 5 + i) % 200, entry);
  }
}
for (ScoreDoc doc : found.scoreDocs) {
  %><tr><td><%= doc.doc %></td><td><%= String.format("%.3f", doc.score) %></td></tr><%
}
%></table><p><%= found.totalHits.value %></p></body></html>
