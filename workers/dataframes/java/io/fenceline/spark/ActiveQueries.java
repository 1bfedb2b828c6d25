package io.fenceline.spark;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener;

/** The streaming queries that run in this application, of all its sessions, as Spark's listener bus reports them. */
final class ActiveQueries extends SparkListener {
  private static final Set<String> IDS = ConcurrentHashMap.newKeySet();
  private static SparkContext watched;

  private ActiveQueries() {}

  /** Watch the application from now on; queries that were started before are not known. */
  static synchronized void watch(SparkContext context) {
    if (watched != context) {
      IDS.clear();
      context.addSparkListener(new ActiveQueries());
      watched = context;
    }
  }

  static boolean contains(String query) {
    return IDS.contains(query);
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof StreamingQueryListener.QueryStartedEvent started) {
      IDS.add(started.id().toString());
    } else if (event instanceof StreamingQueryListener.QueryTerminatedEvent ended) {
      IDS.remove(ended.id().toString());
    }
  }
}
