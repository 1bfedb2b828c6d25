package io.fenceline.spark;

import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.Set;

/** Queries of this JVM whose next batch has to wait, by name; see {@link Operations#hold}. */
final class Holds {
  private static final Set<String> WANTED = new HashSet<>();
  private static final Set<String> WAITING = new HashSet<>();

  private Holds() {}

  static synchronized void set(String name, boolean isHeld) {
    if (isHeld) {
      WANTED.add(name);
    } else {
      WANTED.remove(name);
      Holds.class.notifyAll();
    }
  }

  static synchronized boolean isWaiting(String name) {
    return WAITING.contains(name);
  }

  /** Wait while the name is held. The exception of an interrupt is one that Spark takes for the stop of a query. */
  static synchronized void await(String name) {
    if (!WANTED.contains(name)) {
      return;
    }
    WAITING.add(name);
    try {
      while (WANTED.contains(name)) {
        Holds.class.wait();
      }
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new InterruptedIOException("batch of " + name + " was held when its query was stopped"));
    } finally {
      WAITING.remove(name);
    }
  }
}
