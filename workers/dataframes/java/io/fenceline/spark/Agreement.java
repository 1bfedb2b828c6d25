package io.fenceline.spark;

import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.LongFunction;

/**
 * What checkpoint and markers say together before a query goes on. Pure: it reads and writes nothing.
 *
 * @param batch the batch that the query begins with
 * @param writers number of writers that this batch must have, or 0 where it is free
 */
record Agreement(long batch, int writers) {

  /**
   * Compare them, or refuse.
   *
   * @param name name of the query, for messages
   * @param checkpoint location, for messages
   * @param planOf SHA-256 of the offsets of a batch in the checkpoint
   */
  static Agreement of(
      String name, String checkpoint, Checkpoint.Progress progress, SortedMap<Integer, Marker> markers, LongFunction<String> planOf) {
    long planned = progress.planned();
    long finished = progress.finished();
    if (markers.isEmpty()) {
      if (progress.hasUnfinishedBatch()) {
        throw new Refusal(
            "batch " + planned + " of " + name + " may or may not be in Kafka: its markers have expired or were deleted."
                + " Look for its rows in the topic, then record the answer with fenceline_spark.settle(…, committed=…).");
      }
      return new Agreement(finished + 1, 0);
    }
    refuseAnotherQuery(name, checkpoint, progress, markers);
    long newest = markers.values().stream().mapToLong(Marker::batch).max().orElseThrow();
    if (newest > planned) {
      throw new Refusal(
          "checkpoint " + checkpoint + " is behind Kafka: its newest batch is " + planned + ", but batch " + newest + " of " + name
              + " is committed. Restore a newer copy of the checkpoint, or begin with a new one: fenceline_spark.start_over(…).");
    }
    refuseLostBatches(name, finished, markers);
    refuseAnotherPlan(name, checkpoint, newest, markers, planOf);
    boolean isStarted = newest == planned && progress.hasUnfinishedBatch();
    int writers = isStarted ? first(of(newest, markers)).writers() : 0;
    return new Agreement(progress.hasUnfinishedBatch() ? planned : planned + 1, writers);
  }

  private static void refuseAnotherQuery(
      String name, String checkpoint, Checkpoint.Progress progress, SortedMap<Integer, Marker> markers) {
    for (Marker marker : markers.values()) {
      if (marker.isBeforeFirst() || marker.query().equals(progress.query())) {
        continue;
      }
      String what = progress.query() == null ? "is new or was deleted" : "is of query " + progress.query();
      throw new Refusal(
          "checkpoint " + checkpoint + " " + what + ", but " + name + " has written batch " + marker.batch() + " as query "
              + marker.query() + ". Give the checkpoint of that query, another name, or start over: fenceline_spark.start_over(…).");
    }
  }

  private static void refuseLostBatches(String name, long finished, SortedMap<Integer, Marker> markers) {
    SortedMap<Integer, Marker> last = of(finished, markers);
    // Without a marker of the finished batch, all of its writers have gone on to the unfinished batch.
    SortedMap<Integer, Marker> known = last.isEmpty() ? of(finished + 1, markers) : last;
    int writers = known.isEmpty() ? 1 : first(known).writers();
    for (int writer = 0; writer < writers; writer++) {
      Marker marker = markers.get(writer);
      if (marker == null || marker.batch() < finished) {
        throw new Refusal(
            "Kafka is behind the checkpoint: batch " + finished + " of " + name + " is finished, but the newest batch of writer " + writer
                + " is " + (marker == null ? "unknown" : marker.batch()) + ". The cluster has lost transactions, or offsets of the group"
                + " were reset. Compare the topic with its input, then start over: fenceline_spark.start_over(…).");
      }
    }
  }

  private static void refuseAnotherPlan(
      String name, String checkpoint, long newest, SortedMap<Integer, Marker> markers, LongFunction<String> planOf) {
    SortedMap<Integer, Marker> started = of(newest, markers);
    TreeSet<String> plans = new TreeSet<>();
    started.values().stream().map(Marker::plan).filter(plan -> !plan.equals(Marker.NO_QUERY)).forEach(plans::add);
    if (plans.isEmpty()) {
      return;
    }
    if (started.values().stream().map(Marker::writers).distinct().count() > 1) {
      throw new Refusal("writers of batch " + newest + " of " + name + " disagree about their number. Report this as a bug.");
    }
    String planned = planOf.apply(newest);
    if (plans.size() > 1 || !plans.first().equals(planned)) {
      throw new Refusal(
          "batch " + newest + " of " + name + " was written with other offsets than those in checkpoint " + checkpoint
              + ": its file offsets/" + newest + " was replaced. Restore the checkpoint, or start over: fenceline_spark.start_over(…).");
    }
  }

  private static Marker first(SortedMap<Integer, Marker> markers) {
    return markers.get(markers.firstKey());
  }

  private static SortedMap<Integer, Marker> of(long batch, SortedMap<Integer, Marker> markers) {
    SortedMap<Integer, Marker> found = new TreeMap<>();
    for (Map.Entry<Integer, Marker> entry : markers.entrySet()) {
      if (entry.getValue().batch() == batch) {
        found.put(entry.getKey(), entry.getValue());
      }
    }
    return found;
  }
}
