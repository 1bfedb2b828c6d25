/*
 * The part of librdkafka that is used here, and the batch of records that C holds.
 *
 * Structures and constants are those of librdkafka's public header (rdkafka.h, stable since 1.6). `fl_load` finds the
 * functions in the library of confluent-kafka's wheel, so that nothing here needs a header or a library at build time.
 */
#ifndef FENCELINE_KAFKA_H
#define FENCELINE_KAFKA_H

#include <stddef.h>
#include <stdint.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef void error_cb_t(rd_kafka_t *, int, const char *, void *);

typedef struct {
  int err;
  rd_kafka_topic_t *rkt;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *_private;
} rd_kafka_message_t;

typedef struct {
  int vtype;
  union {
    rd_kafka_topic_t *rkt;
    int i;
    int32_t i32;
    int64_t i64;
    struct {
      void *ptr;
      size_t size;
    } mem;
    rd_kafka_headers_t *headers;
    char pad[64];
  } u;
} rd_kafka_vu_t;

enum { VALUE_RKT = 2, VALUE_PARTITION = 3, VALUE_VALUE = 4, VALUE_KEY = 5, VALUE_FLAGS = 7, VALUE_TIMESTAMP = 8, VALUE_HEADERS = 10 };
enum { FLAG_COPY = 2, ANY_PARTITION = -1, NO_TIMESTAMP = 0, NO_MEMORY = -198, WRONG_ARGUMENT = -186 };

/* Every function of librdkafka that is used here: its result, name and arguments. */
#define FUNCTIONS(F)                                                                                                   \
  F(int, version, (void))                                                                                              \
  F(int, type, (const rd_kafka_t *))                                                                                   \
  F(int, last_error, (void))                                                                                           \
  F(const rd_kafka_conf_t *, conf, (rd_kafka_t *))                                                                     \
  F(int, conf_get, (const rd_kafka_conf_t *, const char *, char *, size_t *))                                          \
  F(void, conf_set_error_cb, (rd_kafka_conf_t *, error_cb_t *))                                                        \
  F(rd_kafka_queue_t *, queue_new, (rd_kafka_t *))                                                                     \
  F(void, queue_destroy, (rd_kafka_queue_t *))                                                                         \
  F(rd_kafka_queue_t *, queue_get_partition, (rd_kafka_t *, const char *, int32_t))                                    \
  F(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *))                                                     \
  F(ptrdiff_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                          \
  F(void, message_destroy, (rd_kafka_message_t *))                                                                     \
  F(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                                   \
  F(const char *, message_errstr, (const rd_kafka_message_t *))                                                        \
  F(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                         \
  F(rd_kafka_headers_t *, headers_copy, (const rd_kafka_headers_t *))                                                  \
  F(void, headers_destroy, (rd_kafka_headers_t *))                                                                     \
  F(rd_kafka_headers_t *, headers_new, (size_t))                                                                       \
  F(int, header_add, (rd_kafka_headers_t *, const char *, ptrdiff_t, const void *, ptrdiff_t))                         \
  F(int, message_detach_headers, (rd_kafka_message_t *, rd_kafka_headers_t **))                                        \
  F(void, message_set_headers, (rd_kafka_message_t *, rd_kafka_headers_t *))                                           \
  F(size_t, header_cnt, (const rd_kafka_headers_t *))                                                                  \
  F(int, header_get_all, (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))                 \
  F(const char *, topic_name, (const rd_kafka_topic_t *))                                                              \
  F(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, void *))                                               \
  F(void, topic_destroy, (rd_kafka_topic_t *))                                                                         \
  F(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))                                      \
  F(int, error_code, (const rd_kafka_error_t *))                                                                       \
  F(void, error_destroy, (rd_kafka_error_t *))

#define DECLARE(result, name, arguments) extern result(*rd_##name) arguments;
FUNCTIONS(DECLARE)
#undef DECLARE

/* Records [begin, end) of a batch that follow each other in one partition. `topic` lives as long as the batch. */
typedef struct {
  const char *topic;
  int64_t begin, end, first_offset, last_offset, bytes;
  int32_t partition, untimed;
} fl_run;

/* An error that came in the place of a record. Both texts live as long as the batch; `topic` may be NULL. */
typedef struct {
  const char *topic, *text;
  int64_t offset;
  int32_t partition, code;
} fl_trouble;

typedef struct {
  rd_kafka_message_t **records, **errors;
  fl_run *runs;
  fl_trouble *troubles;
  int64_t count, run_count, trouble_count, run_room;
} fl_batch;

/* A value or key for the producer, which copies it. NULL: a tombstone, or no key. */
typedef struct {
  const void *bytes;
  size_t count;
} fl_value;

/*
 * Enqueue a record with the key and headers of this one. `is_last`: no other will have its headers, so they are moved.
 * Return the client's error, or 0.
 */
int32_t fl_enqueue(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, rd_kafka_message_t *record,
                   fl_value value, int64_t timestamp_ms, int is_last);

/* Enqueue a record of these parts. Return the client's error, or 0: then the client has taken the headers over. */
int32_t fl_produce(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, fl_value key, fl_value value,
                   rd_kafka_headers_t *headers, int64_t timestamp_ms);

#define PUBLIC __attribute__((visibility("default")))

#endif
