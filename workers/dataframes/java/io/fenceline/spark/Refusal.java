package io.fenceline.spark;

/**
 * A reason not to write, with the way out. Nothing has been written for it. A later start alone does not help, except
 * after an {@link Unavailable}.
 *
 * <p>PySpark shows an IllegalArgumentException without its stack. The message has three parts: what is wrong, where, and the next step.
 */
public class Refusal extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  Refusal(String sentence) {
    super(sentence);
  }

  Refusal(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
