/*
 * Records of Kafka that never become Python objects: taken from a queue of our own, held, and given to a producer.
 *
 * It works on the clients of confluent-kafka and on the librdkafka of its wheel: `fl_load` finds the functions there,
 * so that this file needs neither headers nor a library at build time. workers/native/library.py is the only caller,
 * and the loop's thread is the only one at a time that calls with one lane, batch or producer.
 *
 * Structures and constants are those of librdkafka's public header (rdkafka.h, stable since 1.6).
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;

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
enum { FLAG_COPY = 2, ANY_PARTITION = -1, UNKNOWN = -1 };

/* Every function of librdkafka that is used here: its result, name and arguments. */
#define FUNCTIONS(F)                                                                                                   \
  F(int, version, (void))                                                                                              \
  F(const char *, name, (const rd_kafka_t *))                                                                          \
  F(int, type, (const rd_kafka_t *))                                                                                   \
  F(int, last_error, (void))                                                                                           \
  F(rd_kafka_queue_t *, queue_new, (rd_kafka_t *))                                                                     \
  F(void, queue_destroy, (rd_kafka_queue_t *))                                                                         \
  F(rd_kafka_queue_t *, queue_get_partition, (rd_kafka_t *, const char *, int32_t))                                    \
  F(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *))                                                     \
  F(ptrdiff_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                          \
  F(void, message_destroy, (rd_kafka_message_t *))                                                                     \
  F(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                                   \
  F(const char *, message_errstr, (const rd_kafka_message_t *))                                                        \
  F(int, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                                         \
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

#define DECLARE(result, name, arguments) static result(*rd_##name) arguments;
FUNCTIONS(DECLARE)

/* The queue of one consumer: its partitions are forwarded to it. */
typedef struct {
  rd_kafka_t *client;
  rd_kafka_queue_t *queue;
  rd_kafka_queue_t **partitions;
  rd_kafka_message_t **taken;
  size_t count, room, taken_room;
} fl_lane;

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

/* The facts of a record for Python. Lengths are UNKNOWN for NULL. */
typedef struct {
  int64_t offset, timestamp_ms, key_bytes, value_bytes, headers;
  int32_t timestamp_type, reserved;
} fl_facts;

/* Python declares them again (library.py). */
_Static_assert(sizeof(fl_run) == 56 && sizeof(fl_trouble) == 32 && sizeof(fl_batch) == 64 && sizeof(fl_facts) == 48, "");
_Static_assert(sizeof(rd_kafka_message_t) == 72 && sizeof(rd_kafka_vu_t) == 72, "as in rdkafka.h on 64 bits");

#define PUBLIC __attribute__((visibility("default")))

/* Find the functions in the library at `path`, which the process must have loaded. Return the name of a missing one. */
PUBLIC const char *fl_load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return "the library itself";
#define FIND(result, name, arguments)                                                                                  \
  *(void **)&rd_##name = dlsym(library, "rd_kafka_" #name);                                                            \
  if (rd_##name == NULL) return "rd_kafka_" #name;
  FUNCTIONS(FIND)
  return NULL;
}

PUBLIC int fl_version(void) { return rd_version(); }

/* The client's name in librdkafka, and its type: 0 a producer, 1 a consumer. */
PUBLIC const char *fl_name(const rd_kafka_t *client) { return rd_name(client); }
PUBLIC int fl_type(const rd_kafka_t *client) { return rd_type(client); }

PUBLIC fl_lane *fl_lane_new(rd_kafka_t *consumer) {
  fl_lane *lane = calloc(1, sizeof *lane);
  if (lane == NULL) return NULL;
  lane->client = consumer;
  lane->queue = rd_queue_new(consumer);
  return lane;
}

/* Forward a partition to the lane's queue. Return its number for `fl_lane_remove`; UNKNOWN if that is not possible. */
PUBLIC int64_t fl_lane_add(fl_lane *lane, const char *topic, int32_t partition) {
  size_t at = 0;
  while (at < lane->count && lane->partitions[at] != NULL) at++;
  if (at == lane->room) {
    size_t room = lane->room ? 2 * lane->room : 16;
    rd_kafka_queue_t **larger = realloc(lane->partitions, room * sizeof *larger);
    if (larger == NULL) return UNKNOWN;
    lane->partitions = larger;
    lane->room = room;
  }
  rd_kafka_queue_t *queue = rd_queue_get_partition(lane->client, topic, partition);
  if (queue == NULL) return UNKNOWN;
  rd_queue_forward(queue, lane->queue);
  lane->partitions[at] = queue;
  if (at == lane->count) lane->count++;
  return (int64_t)at;
}

PUBLIC void fl_lane_remove(fl_lane *lane, int64_t number) {
  if (number < 0 || (size_t)number >= lane->count || lane->partitions[number] == NULL) return;
  rd_queue_destroy(lane->partitions[number]);
  lane->partitions[number] = NULL;
}

/*
 * Forward every partition again. A client that stops a partition ends its forwarding, and it does so later than the
 * call that asked for the stop (2.16.0, rd_kafka_toppar_fetch_stop): a partition that begins again may have lost it.
 */
PUBLIC void fl_lane_forward(fl_lane *lane) {
  for (size_t at = 0; at < lane->count; at++)
    if (lane->partitions[at] != NULL) rd_queue_forward(lane->partitions[at], lane->queue);
}

PUBLIC void fl_lane_free(fl_lane *lane) {
  if (lane == NULL) return;
  for (size_t at = 0; at < lane->count; at++)
    if (lane->partitions[at] != NULL) rd_queue_destroy(lane->partitions[at]);
  if (lane->queue != NULL) rd_queue_destroy(lane->queue);
  free(lane->partitions);
  free(lane->taken);
  free(lane);
}

PUBLIC void fl_batch_free(fl_batch *batch) {
  if (batch == NULL) return;
  for (int64_t at = 0; at < batch->count; at++) rd_message_destroy(batch->records[at]);
  for (int64_t at = 0; at < batch->trouble_count; at++) rd_message_destroy(batch->errors[at]);
  free(batch->records);
  free(batch->errors);
  free(batch->runs);
  free(batch->troubles);
  free(batch);
}

/* Make room for another run. Return 0 if there is no memory. */
static int make_room(fl_batch *batch) {
  if (batch->run_count < batch->run_room) return 1;
  int64_t room = batch->run_room ? 2 * batch->run_room : 16;
  fl_run *larger = realloc(batch->runs, (size_t)room * sizeof *larger);
  if (larger == NULL) return 0;
  batch->runs = larger;
  batch->run_room = room;
  return 1;
}

/* Add a record to the last run if it follows there, else to a new one. Return 0 if there is no memory. */
static int add(fl_batch *batch, rd_kafka_topic_t **topic, rd_kafka_message_t *record) {
  fl_run *run = batch->run_count ? &batch->runs[batch->run_count - 1] : NULL;
  if (run == NULL || record->rkt != *topic || record->partition != run->partition) {
    if (!make_room(batch)) return 0;
    run = &batch->runs[batch->run_count++];
    memset(run, 0, sizeof *run);
    run->topic = rd_topic_name(record->rkt);
    run->partition = record->partition;
    run->begin = batch->count;
    run->first_offset = record->offset;
    *topic = record->rkt;
  }
  int type;
  batch->records[batch->count++] = record;
  run->end = batch->count;
  run->last_offset = record->offset;
  run->bytes += (int64_t)record->len;
  run->untimed += rd_message_timestamp(record, &type) == 0;
  return 1;
}

static void note(fl_batch *batch, rd_kafka_message_t *error) {
  fl_trouble *trouble = &batch->troubles[batch->trouble_count];
  batch->errors[batch->trouble_count++] = error;
  trouble->topic = error->rkt == NULL ? NULL : rd_topic_name(error->rkt);
  trouble->text = rd_message_errstr(error);
  trouble->offset = error->offset;
  trouble->partition = error->partition;
  trouble->code = error->err;
}

/* Sort what was taken into the batch. Return how many were sorted before there was no memory. */
static size_t sort(fl_batch *batch, rd_kafka_message_t **taken, size_t count) {
  size_t errors = 0, at = 0;
  for (; at < count; at++) errors += taken[at]->err != 0;
  batch->records = malloc(count * sizeof *batch->records);
  if (errors) {
    batch->errors = malloc(errors * sizeof *batch->errors);
    batch->troubles = malloc(errors * sizeof *batch->troubles);
  }
  if (batch->records == NULL || (errors && (batch->errors == NULL || batch->troubles == NULL))) return 0;
  rd_kafka_topic_t *topic = NULL;
  for (at = 0; at < count; at++) {
    if (taken[at]->err != 0)
      note(batch, taken[at]);
    else if (!add(batch, &topic, taken[at]))
      break;
  }
  return at;
}

/* Take up to `most` records and errors, waiting up to `timeout_ms` for all of them. NULL: there is no memory. */
PUBLIC fl_batch *fl_take(fl_lane *lane, int64_t most, int timeout_ms) {
  if ((size_t)most > lane->taken_room && most > 0) {
    rd_kafka_message_t **larger = realloc(lane->taken, (size_t)most * sizeof *larger);
    if (larger == NULL) return NULL;
    lane->taken = larger;
    lane->taken_room = (size_t)most;
  }
  fl_batch *batch = calloc(1, sizeof *batch);
  if (batch == NULL || most < 1) return batch;
  ptrdiff_t found = rd_consume_batch_queue(lane->queue, timeout_ms, lane->taken, (size_t)most);
  if (found <= 0) return batch;
  size_t sorted = sort(batch, lane->taken, (size_t)found);
  if (sorted == (size_t)found) return batch;
  for (size_t at = sorted; at < (size_t)found; at++) rd_message_destroy(lane->taken[at]);
  fl_batch_free(batch);
  return NULL;
}

/* Write the numbers of records with timestamp 0 among [begin, end), which librdkafka would replace; return how many. */
PUBLIC int64_t fl_untimed(const fl_batch *batch, int64_t begin, int64_t end, int64_t *numbers) {
  int64_t found = 0;
  int type;
  for (int64_t at = begin; at < end && at < batch->count; at++)
    if (rd_message_timestamp(batch->records[at], &type) == 0) numbers[found++] = at;
  return found;
}

/*
 * Enqueue the records [begin, end) as they are, with key, headers and timestamp; with `keeps_partition` each for the
 * partition number that it came from. Return how many were taken; `code` is the client's error for the next one.
 */
PUBLIC int64_t fl_give(rd_kafka_t *producer, const char *topic, fl_batch *batch, int64_t begin, int64_t end,
                       int keeps_partition, int32_t *code) {
  *code = 0;
  if (begin < 0 || end > batch->count || begin >= end) return 0;
  /* The same handle for all of them: a name would be looked up for each. */
  rd_kafka_topic_t *handle = rd_topic_new(producer, topic, NULL);
  if (handle == NULL) {
    *code = rd_last_error();
    return 0;
  }
  int64_t at = begin;
  for (; at < end; at++) {
    rd_kafka_message_t *record = batch->records[at];
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_vu_t values[7];
    int type;
    values[0].vtype = VALUE_RKT;
    values[0].u.rkt = handle;
    values[1].vtype = VALUE_PARTITION;
    values[1].u.i32 = keeps_partition ? record->partition : ANY_PARTITION;
    values[2].vtype = VALUE_FLAGS;
    values[2].u.i = FLAG_COPY;
    values[3].vtype = VALUE_VALUE;
    values[3].u.mem.ptr = record->payload;
    values[3].u.mem.size = record->len;
    values[4].vtype = VALUE_KEY;
    values[4].u.mem.ptr = record->key;
    values[4].u.mem.size = record->key_len;
    values[5].vtype = VALUE_TIMESTAMP;
    values[5].u.i64 = rd_message_timestamp(record, &type);
    /* The producer takes the headers over, unless it refuses the record. */
    size_t count = rd_message_detach_headers(record, &headers) == 0 ? 7 : 6;
    values[6].vtype = VALUE_HEADERS;
    values[6].u.headers = headers;
    rd_kafka_error_t *error = rd_produceva(producer, values, count);
    if (error != NULL) {
      *code = rd_error_code(error);
      rd_error_destroy(error);
      if (headers != NULL) rd_message_set_headers(record, headers);
      break;
    }
  }
  rd_topic_destroy(handle);
  return at - begin;
}

/* Copy `bytes` to `text` at `used` if they fit, and return the place behind them. */
static size_t append(char *text, size_t room, size_t used, const void *from, size_t bytes) {
  if (text != NULL && bytes > 0 && bytes <= room && used <= room - bytes) memcpy(text + used, from, bytes);
  return used + bytes;
}

/*
 * Copy records [begin, end) for Python: `facts` has one entry for each, and `text` their key, value and headers. A
 * header is two lengths of 8 bytes, name and value (UNKNOWN for NULL), and both. Return the bytes of all texts; call it
 * with `text` NULL for the room that is needed.
 */
PUBLIC int64_t fl_copy(const fl_batch *batch, int64_t begin, int64_t end, fl_facts *facts, char *text, int64_t room) {
  size_t used = 0, most = room < 0 ? 0 : (size_t)room;
  if (begin < 0 || end > batch->count) return UNKNOWN;
  for (int64_t at = begin; at < end; at++) {
    const rd_kafka_message_t *record = batch->records[at];
    fl_facts *fact = &facts[at - begin];
    rd_kafka_headers_t *headers = NULL;
    int type;
    fact->offset = record->offset;
    fact->timestamp_ms = rd_message_timestamp(record, &type);
    fact->timestamp_type = type;
    fact->reserved = 0;
    fact->key_bytes = record->key == NULL ? UNKNOWN : (int64_t)record->key_len;
    fact->value_bytes = record->payload == NULL ? UNKNOWN : (int64_t)record->len;
    fact->headers = rd_message_headers(record, &headers) == 0 ? (int64_t)rd_header_cnt(headers) : UNKNOWN;
    if (record->key != NULL) used = append(text, most, used, record->key, record->key_len);
    if (record->payload != NULL) used = append(text, most, used, record->payload, record->len);
    for (int64_t number = 0; number < fact->headers; number++) {
      const char *name = "";
      const void *value = NULL;
      size_t size = 0;
      rd_header_get_all(headers, (size_t)number, &name, &value, &size);
      int64_t lengths[2] = {(int64_t)strlen(name), value == NULL ? UNKNOWN : (int64_t)size};
      used = append(text, most, used, lengths, sizeof lengths);
      used = append(text, most, used, name, (size_t)lengths[0]);
      if (value != NULL) used = append(text, most, used, value, size);
    }
  }
  return (int64_t)used;
}
