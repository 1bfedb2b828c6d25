package io.fenceline.spark;

import java.util.ServiceLoader;

/** The steps of a micro-batch, in their order. Tests stop or kill a process at one of them. */
public enum Step {
  /** Driver: joined the group as its static member; offsets of older drivers are refused from here on. */
  CLAIMED,
  /** Driver: initialised each transactional id; open transactions of older writers are aborted. */
  FENCED,
  /** Driver: markers and checkpoint agree. */
  CHECKED,
  /** Driver: Spark has planned the batch and is about to start its tasks. */
  PLANNED,
  /** Executor: the writer has a producer and knows its marker. */
  READY,
  /** Executor: the marker is part of the open transaction. */
  MARKED,
  /** Executor: the rows are sent; the transaction is open. */
  SENT,
  /** Executor: the transaction is committed. */
  COMMITTED,
  /** Driver: all writers have committed; Spark is about to write the checkpoint's commit log. */
  ENDED;

  /** Called at each step of this JVM. Only tests register one. */
  public interface Listener {
    /**
     * Called before the step's successor begins.
     *
     * @param writer number of the writer, or -1 in the driver
     */
    void reached(Step step, long batch, int writer);
  }

  private static final class Registered {
    static final Listener[] LISTENERS =
        ServiceLoader.load(Listener.class).stream().map(ServiceLoader.Provider::get).toArray(Listener[]::new);
  }

  void reached(long batch, int writer) {
    for (Listener listener : Registered.LISTENERS) {
      listener.reached(this, batch, writer);
    }
  }
}
