package io.fenceline.spark;

import org.apache.kafka.common.errors.RetriableException;

/** Brokers or checkpoint cannot be reached, or the driver has lost its membership: a later start may succeed. */
final class Unavailable extends Refusal {
  private static final long serialVersionUID = 1;

  Unavailable(String sentence) {
    super(sentence);
  }

  Unavailable(String sentence, Throwable cause) {
    super(sentence, cause);
  }

  /** The refusal for an error of Kafka's client: one of this class if the client would retry. */
  static Refusal orPermanent(String sentence, Throwable cause) {
    return cause instanceof RetriableException ? new Unavailable(sentence, cause) : new Refusal(sentence, cause);
  }
}
