package io.fenceline.spark;

/** A newer driver has the name. This one has to end. */
final class Takeover extends Refusal {
  private static final long serialVersionUID = 1;

  Takeover(String sentence) {
    super(sentence);
  }

  Takeover(String sentence, Throwable cause) {
    super(sentence, cause);
  }
}
