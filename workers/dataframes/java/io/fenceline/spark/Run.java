package io.fenceline.spark;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;

/**
 * The driver's side of one started streaming query.
 *
 * <ol>
 *   <li>Claim the name: older drivers' offsets are refused from here on.
 *   <li>Initialise each transactional id: what is open is aborted.
 *   <li>Read the markers and compare them with the checkpoint; refuse to start where rows would be lost or doubled.
 *   <li>For each batch, tell the writers its number, plan and membership.
 * </ol>
 *
 * The order matters. Before step 1 an older driver could commit after the markers were read; before step 2 its open
 * transaction would block reading them.
 */
final class Run {
  private static final String QUERY_ID = "sql.streaming.queryId";
  private static final String BATCH_ID = "streaming.sql.batchId";
  private static final long START_TIMEOUT_NANOS = 120_000_000_000L;
  private static final long END_REPORTED_NANOS = 5_000_000_000L;
  /** The runs of this JVM by name of the query. */
  private static final Map<String, Run> OPEN = new HashMap<>();

  private final SinkOptions options;
  private final Checkpoint checkpoint;
  private final long openedNanos = System.nanoTime();
  private Brokers brokers;
  private Claim claim;
  private Claim.Member checkedFor;
  private Agreement agreement;
  private volatile String query;
  private volatile boolean isSeen;
  private long written;
  private long batches;
  private long drained;

  private Run(SinkOptions options, SparkContext context) {
    this.options = options;
    this.checkpoint = new Checkpoint(options.checkpoint(), context.hadoopConfiguration());
  }

  /** Claim, fence and check; to be called before Spark starts the query. */
  static Run open(SinkOptions options) {
    SparkContext context = SparkSession.active().sparkContext();
    ActiveQueries.watch(context);
    synchronized (OPEN) {
      Run before = OPEN.get(options.name());
      if (before != null) {
        before.waitForEnd();
        before.claim.close();
      }
      Run run = new Run(options, context);
      run.start();
      OPEN.put(options.name(), run);
      return run;
    }
  }

  private void start() {
    Checkpoint.Progress progress = checkpoint.progress();
    query = progress.query();
    waitForEnd();
    brokers = new Brokers(options);
    try {
      checkMarkerTopic();
      claim = new Claim(options, this::isNeeded, brokers::close);
      check(progress);
    } catch (RuntimeException error) {
      if (claim != null) {
        claim.close();
      }
      brokers.close();
      throw error;
    }
  }

  private void checkMarkerTopic() {
    int partitions = brokers.partitionsOf(options.markerTopic());
    if (partitions == 0) {
      throw new Refusal("topic " + options.markerTopic() + " does not exist. Create it first: the sink creates no topic.");
    }
    if (partitions < options.writers()) {
      throw new Refusal(
          options.writers() + " writers need a topic with as many partitions for their markers, but " + options.markerTopic() + " has "
              + partitions + ". Use fewer writers, or give another topic as option markerTopic.");
    }
  }

  private void check(Checkpoint.Progress progress) {
    checkedFor = claim.member();
    Step.CLAIMED.reached(progress.finished() + 1, -1);
    var others = brokers.otherMembers();
    if (!others.isEmpty()) {
      throw new Refusal("group " + options.group() + " has other members (" + String.join(", ", others) + "). Give the query a group of its own (option groupId).");
    }
    // Also the ids of an earlier run's writers: their open transactions would block reading the markers.
    SortedMap<Integer, Marker> decided = brokers.decidedMarkers();
    Brokers.fence(options, Math.max(options.writers(), decided.isEmpty() ? 0 : decided.lastKey() + 1));
    Step.FENCED.reached(progress.finished() + 1, -1);
    SortedMap<Integer, Marker> markers = brokers.markers();
    agreement = Agreement.of(options.name(), checkpoint.toString(), progress, markers, checkpoint::planOf);
    writeMissing(markers, progress);
    Step.CHECKED.reached(agreement.batch(), -1);
  }

  /** Every writer has a marker before its first batch, so that a missing one always means a lost one. */
  private void writeMissing(SortedMap<Integer, Marker> markers, Checkpoint.Progress progress) {
    boolean haveExpired = markers.isEmpty() && progress.finished() >= 0;
    Marker marker =
        haveExpired
            ? new Marker(progress.query(), progress.finished(), options.writers(), checkpoint.planOf(progress.finished()), Marker.NO_QUERY)
            : Marker.beforeFirst(options.writers());
    Map<TopicPartition, OffsetAndMetadata> missing = new HashMap<>();
    for (int writer = 0; writer < options.writers(); writer++) {
      if (!markers.containsKey(writer)) {
        missing.put(new TopicPartition(options.markerTopic(), writer), marker.toOffset());
      }
    }
    if (!missing.isEmpty()) {
      claim.commit(missing);
    }
  }

  /** Number of writers of the batch that Spark plans on this thread. */
  synchronized int writers() {
    return isStarted() ? agreement.writers() : options.writers();
  }

  /** Whether the batch that Spark plans was begun by an earlier run with a fixed number of writers. */
  private boolean isStarted() {
    String batch = property(BATCH_ID);
    return agreement.writers() > 0 && batch != null && Long.parseLong(batch) == agreement.batch();
  }

  /** The batch that Spark runs on this thread; called before its tasks start. Waits while the query is held. */
  Batch batch(Rows rows, int partitions) {
    Holds.await(options.name());
    return planned(rows, partitions);
  }

  private synchronized Batch planned(Rows rows, int partitions) {
    String number = property(BATCH_ID);
    String id = property(QUERY_ID);
    if (number == null || id == null) {
      throw new Refusal("Spark has not set the number of the batch. The sink supports micro-batches of Spark 4.2 only.");
    }
    query = id;
    isSeen = true;
    long batch = Long.parseLong(number);
    if (batch < agreement.batch()) {
      throw new Unavailable("Spark plans batch " + batch + " of " + options.name() + ", but batch " + agreement.batch() + " is next. Start the query again.");
    }
    if (partitions != writers()) {
      throw new Refusal("Spark hands over " + partitions + " partitions of batch " + batch + " to " + writers() + " writers. Report this as a bug.");
    }
    Claim.Member member = claim.member();
    if (!member.equals(checkedFor)) {
      checkAgain(batch);
      member = checkedFor;
    }
    Batch planned = new Batch(options, rows, batch, id, partitions, checkpoint.planOf(batch), member, sourcesOf(batch));
    Step.PLANNED.reached(batch, -1);
    return planned;
  }

  /** After a lost membership another driver may have written. Its markers or its checkpoint would show it. */
  private void checkAgain(long batch) {
    Agreement before = agreement;
    check(checkpoint.progress());
    if (agreement.batch() != batch) {
      agreement = before;
      throw new Unavailable("another driver has written batches of " + options.name() + " while this one had no membership. Start the query again.");
    }
  }

  private Map<String, Map<Integer, Long>> sourcesOf(long batch) {
    Map<TopicPartition, Long> offsets = checkpoint.sourceOffsets(batch);
    Collection<TopicPartition> existing;
    try {
      existing = brokers.existing(offsets.keySet());
    } catch (IllegalStateException closed) {
      // The claim was lost a moment ago, and closed the client. Its error says why.
      claim.member();
      throw closed;
    }
    Map<String, Map<Integer, Long>> found = new HashMap<>();
    for (TopicPartition partition : existing) {
      // Markers are in the offsets of the sink's topic.
      if (!partition.topic().equals(options.markerTopic())) {
        found.computeIfAbsent(partition.topic(), topic -> new HashMap<>()).put(partition.partition(), offsets.get(partition));
      }
    }
    return found;
  }

  /** All writers of the batch have committed. A driver that was replaced meanwhile leaves the checkpoint to the newer one. */
  synchronized void ended(long batch, Iterable<ShareWriter.Committed> shares) {
    claim.member();
    for (ShareWriter.Committed share : shares) {
      written += share.rows();
      drained += share.isDrained() ? 1 : 0;
    }
    batches++;
    agreement = new Agreement(batch + 1, 0);
    Step.ENDED.reached(batch, -1);
  }

  synchronized Map<String, String> metrics() {
    Map<String, String> found = new TreeMap<>();
    found.put("writers", Integer.toString(options.writers()));
    found.put("batchesCommitted", Long.toString(batches));
    found.put("rowsCommitted", Long.toString(written));
    found.put("sharesFoundCommitted", Long.toString(drained));
    found.put("groupGeneration", Integer.toString(checkedFor.generation()));
    return found;
  }

  @Override
  public String toString() {
    return "fenceline " + options.name();
  }

  private static String property(String key) {
    SparkContext context = SparkSession.active().sparkContext();
    return context.getLocalProperty(key);
  }

  /** Refuse a query that is running. Spark reports the end of one that was stopped a moment later. */
  private void waitForEnd() {
    long until = System.nanoTime() + END_REPORTED_NANOS;
    while (isActive()) {
      if (System.nanoTime() > until) {
        throw new Refusal("query " + options.name() + " is running in this application. Stop it first.");
      }
      LockSupport.parkNanos(10_000_000);
    }
  }

  private boolean isNeeded() {
    try {
      return isActive() || (!isSeen && System.nanoTime() - openedNanos < START_TIMEOUT_NANOS);
    } catch (Refusal unreadable) {
      // A checkpoint that cannot be read for a moment does not end the claim; the next batch reports it.
      return true;
    }
  }

  private boolean isActive() {
    if (query == null) {
      // Spark writes the id of a new query before its first batch, which may be far away.
      query = checkpoint.queryId();
    }
    return query != null && ActiveQueries.contains(query);
  }
}
