/*
 * Records of Kafka that never become Python objects: taken from a queue of our own, held, and given to a producer.
 *
 * It works on the clients of confluent-kafka and on the librdkafka of its wheel. workers/native/library.py is the only
 * caller, and one thread at a time, the loop's, calls with one source, batch or producer.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kafka.h"

#define DEFINE(result, name, arguments) result(*rd_##name) arguments;
FUNCTIONS(DEFINE)

/* The queue of one consumer: its partitions are forwarded to it. */
typedef struct {
  rd_kafka_t *client;
  rd_kafka_queue_t *queue;
  rd_kafka_queue_t **partitions;
  rd_kafka_message_t **taken;
  size_t count, room, taken_room;
} fl_source;

enum { UNKNOWN = -1 };

/* The facts of a record for Python. Lengths are UNKNOWN for NULL. */
typedef struct {
  int64_t offset, timestamp_ms, key_bytes, value_bytes, headers;
  int32_t timestamp_type, reserved;
} fl_facts;

/* Python declares them again (library.py). */
_Static_assert(sizeof(fl_run) == 56 && sizeof(fl_trouble) == 32 && sizeof(fl_batch) == 64 && sizeof(fl_facts) == 48, "");
_Static_assert(sizeof(rd_kafka_message_t) == 72 && sizeof(rd_kafka_vu_t) == 72, "as in rdkafka.h on 64 bits");

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

/* The client's type in librdkafka: 0 a producer, 1 a consumer. */
PUBLIC int fl_type(const rd_kafka_t *client) { return rd_type(client); }

/*
 * A client also puts errors of a partition into its queue, such as the deletion of its topic, and calls the error
 * callback for them (2.16.0, rd_kafka_toppar_enq_error). confluent-kafka's callback ends the process outside of its own
 * calls (CallState_get). So a source replaces it by one that passes on all errors but these: the loop asks the brokers
 * for deleted topics itself, and confluent-kafka without an `error_cb` of its user drops them, too.
 */
static _Thread_local int is_taking;
static error_cb_t *passed_on;

static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque) {
  if (!is_taking && passed_on != NULL) passed_on(client, error, reason, opaque);
}

/* Replace the client's error callback. Return 0 if there is none to pass on to. */
static int replace_error_cb(rd_kafka_t *client) {
  char text[32] = "";
  size_t bytes = sizeof text;
  const rd_kafka_conf_t *conf = rd_conf(client);
  if (rd_conf_get(conf, "error_cb", text, &bytes) != 0) return 0;
  uintptr_t found = (uintptr_t)strtoull(text, NULL, 16);
  if (found == (uintptr_t)on_error) return 1;
  /* All clients of confluent-kafka have the same one. */
  if (found == 0 || (passed_on != NULL && (uintptr_t)passed_on != found)) return 0;
  passed_on = (error_cb_t *)found;
  rd_conf_set_error_cb((rd_kafka_conf_t *)conf, on_error);
  return 1;
}

/* Make a source. NULL: there is no memory, or the client is not laid out as expected. */
PUBLIC fl_source *fl_source_new(rd_kafka_t *consumer) {
  if (!replace_error_cb(consumer)) return NULL;
  fl_source *source = calloc(1, sizeof *source);
  if (source == NULL) return NULL;
  source->client = consumer;
  source->queue = rd_queue_new(consumer);
  return source;
}

/* Forward a partition to the source's queue. Return its number for `fl_source_remove`; UNKNOWN if that is not possible. */
PUBLIC int64_t fl_source_add(fl_source *source, const char *topic, int32_t partition) {
  size_t at = 0;
  while (at < source->count && source->partitions[at] != NULL) at++;
  if (at == source->room) {
    size_t room = source->room ? 2 * source->room : 16;
    rd_kafka_queue_t **larger = realloc(source->partitions, room * sizeof *larger);
    if (larger == NULL) return UNKNOWN;
    source->partitions = larger;
    source->room = room;
  }
  rd_kafka_queue_t *queue = rd_queue_get_partition(source->client, topic, partition);
  if (queue == NULL) return UNKNOWN;
  rd_queue_forward(queue, source->queue);
  source->partitions[at] = queue;
  if (at == source->count) source->count++;
  return (int64_t)at;
}

PUBLIC void fl_source_remove(fl_source *source, int64_t number) {
  if (number < 0 || (size_t)number >= source->count || source->partitions[number] == NULL) return;
  rd_queue_destroy(source->partitions[number]);
  source->partitions[number] = NULL;
}

/*
 * Forward every partition again. A client that stops a partition ends its forwarding, and it does so later than the
 * call that asked for the stop (2.16.0, rd_kafka_toppar_fetch_stop): a partition that begins again may have lost it.
 */
PUBLIC void fl_source_forward(fl_source *source) {
  for (size_t at = 0; at < source->count; at++)
    if (source->partitions[at] != NULL) rd_queue_forward(source->partitions[at], source->queue);
}

PUBLIC void fl_source_free(fl_source *source) {
  if (source == NULL) return;
  for (size_t at = 0; at < source->count; at++)
    if (source->partitions[at] != NULL) rd_queue_destroy(source->partitions[at]);
  if (source->queue != NULL) rd_queue_destroy(source->queue);
  free(source->partitions);
  free(source->taken);
  free(source);
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
PUBLIC fl_batch *fl_take(fl_source *source, int64_t most, int timeout_ms) {
  if ((size_t)most > source->taken_room && most > 0) {
    rd_kafka_message_t **larger = realloc(source->taken, (size_t)most * sizeof *larger);
    if (larger == NULL) return NULL;
    source->taken = larger;
    source->taken_room = (size_t)most;
  }
  fl_batch *batch = calloc(1, sizeof *batch);
  if (batch == NULL || most < 1) return batch;
  is_taking = 1;
  ptrdiff_t found = rd_consume_batch_queue(source->queue, timeout_ms, source->taken, (size_t)most);
  is_taking = 0;
  if (found <= 0) return batch;
  size_t sorted = sort(batch, source->taken, (size_t)found);
  if (sorted == (size_t)found) return batch;
  for (size_t at = sorted; at < (size_t)found; at++) rd_message_destroy(source->taken[at]);
  fl_batch_free(batch);
  return NULL;
}

/* Write the numbers of records with timestamp 0 among [begin, end), which librdkafka would replace; return how many. */
PUBLIC int64_t fl_untimed(const fl_batch *batch, int64_t begin, int64_t end, int64_t *numbers) {
  int64_t found = 0;
  int type;
  for (int64_t at = begin < 0 ? 0 : begin; at < end && at < batch->count; at++)
    if (rd_message_timestamp(batch->records[at], &type) == 0) numbers[found++] = at;
  return found;
}

int32_t fl_produce(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, fl_value key, fl_value value,
                   rd_kafka_headers_t *headers, int64_t timestamp_ms) {
  rd_kafka_vu_t values[7];
  values[0].vtype = VALUE_RKT;
  values[0].u.rkt = topic;
  values[1].vtype = VALUE_PARTITION;
  values[1].u.i32 = partition;
  values[2].vtype = VALUE_FLAGS;
  values[2].u.i = FLAG_COPY;
  values[3].vtype = VALUE_VALUE;
  values[3].u.mem.ptr = (void *)value.bytes;
  values[3].u.mem.size = value.count;
  values[4].vtype = VALUE_KEY;
  values[4].u.mem.ptr = (void *)key.bytes;
  values[4].u.mem.size = key.count;
  values[5].vtype = VALUE_TIMESTAMP;
  values[5].u.i64 = timestamp_ms;
  values[6].vtype = VALUE_HEADERS;
  values[6].u.headers = headers;
  rd_kafka_error_t *error = rd_produceva(producer, values, headers == NULL ? 6 : 7);
  if (error == NULL) return 0;
  int32_t code = rd_error_code(error);
  rd_error_destroy(error);
  return code;
}

int32_t fl_enqueue(rd_kafka_t *producer, rd_kafka_topic_t *topic, int32_t partition, rd_kafka_message_t *record,
                   fl_value value, int64_t timestamp_ms, int is_last) {
  rd_kafka_headers_t *headers = NULL;
  if (is_last) {
    if (rd_message_detach_headers(record, &headers) != 0) headers = NULL;
  } else if (rd_message_headers(record, &headers) == 0) {
    headers = rd_headers_copy(headers);
  }
  fl_value key = {record->key, record->key_len};
  int32_t code = fl_produce(producer, topic, partition, key, value, headers, timestamp_ms);
  /* Only a producer that takes the record takes its headers over. */
  if (code != 0 && headers != NULL && is_last) rd_message_set_headers(record, headers);
  if (code != 0 && headers != NULL && !is_last) rd_headers_destroy(headers);
  return code;
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
    int type;
    fl_value value = {record->payload, record->len};
    *code = fl_enqueue(producer, handle, keeps_partition ? record->partition : ANY_PARTITION, record, value,
                       rd_message_timestamp(record, &type), 1);
    if (*code != 0) break;
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
