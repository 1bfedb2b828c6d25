/*
 * Declarative steps over the records of a batch, and their outputs in the producer's queue.
 *
 * A batch is run whole before any of its outputs is given (rule 7 of docs/loop.md). Records that C is not sure of get
 * FATE_PYTHON; Python decides them one by one (`fl_steps_decide`), and all outputs are then given in their order.
 */
#include <stdlib.h>
#include <string.h>

#include "kafka.h"
#include "steps.h"

enum { SOME_SLOTS = 1024 };
enum { FATE_OUTPUT, FATE_DROPPED, FATE_TOMBSTONE, FATE_PYTHON, FATE_UNTIMED, FATE_BAD, FATES };

/* The fate of one record. topic: its number, or NO_TOPIC for the sink. The value is at `offset` of the text. */
typedef struct {
  int64_t record, offset, bytes;
  int32_t fate, topic;
} fl_slot;

/* Steps, and the outcome of their last run. next_slot, next_topic: the output that is given next. */
struct fl_steps {
  fl_slot *slots;
  int64_t count, topic_count;
  fl_text text;
  fl_program program;
  fl_pool pool;
  size_t room;
  int64_t next_slot;
  int32_t next_topic;
};

/* Python declares it again (library.py). */
_Static_assert(sizeof(fl_slot) == 32 && offsetof(fl_steps, text) == 24, "");

PUBLIC void fl_steps_free(fl_steps *steps) {
  if (steps == NULL) return;
  fl_program_free(&steps->program);
  free(steps->slots);
  free(steps->text.bytes);
  free(steps->pool.bytes);
  free(steps);
}

/* Make steps of their definition. NULL: it is not one, or there is no memory. */
PUBLIC fl_steps *fl_steps_new(char *definition, int64_t bytes, int64_t topic_count) {
  fl_steps *steps = calloc(1, sizeof *steps);
  if (steps == NULL) return NULL;
  steps->topic_count = topic_count;
  if (fl_program_read(&steps->program, definition, (size_t)bytes)) return steps;
  fl_steps_free(steps);
  return NULL;
}

/* The fate of a record by its value alone. */
static int32_t fate_of(fl_steps *steps, fl_value given, fl_slot *slot) {
  if (given.bytes == NULL) return FATE_TOMBSTONE;
  yyjson_val *value = yyjson_doc_get_root(fl_json_read(&steps->pool, given.bytes, given.count, YYJSON_READ_NUMBER_AS_RAW));
  if (!yyjson_is_obj(value) || !fl_json_is_plain(value)) return FATE_PYTHON;
  fl_node root = {.value = value};
  fl_nodes_reset(&steps->program.nodes);
  int is_kept = fl_apply(&steps->program, &root, &slot->topic);
  if (is_kept != YES) return is_kept == NO ? FATE_DROPPED : FATE_PYTHON;
  slot->offset = (int64_t)steps->text.used;
  fl_write_node(&steps->text, &root);
  slot->bytes = (int64_t)steps->text.used - slot->offset;
  return FATE_OUTPUT;
}

/* Begin an outcome of so many slots. Return 0 if there is no memory. */
static int begin(fl_steps *steps, size_t slots) {
  if (slots > steps->room) {
    fl_slot *larger = realloc(steps->slots, (slots + SOME_SLOTS) * sizeof *larger);
    if (larger == NULL) return 0;
    steps->slots = larger;
    steps->room = slots + SOME_SLOTS;
  }
  steps->count = steps->next_slot = 0;
  steps->next_topic = NO_TOPIC;
  steps->text.used = 0;
  steps->text.failed = 0;
  return 1;
}

static fl_slot *add_slot(fl_steps *steps, int64_t record, fl_value value) {
  fl_slot *slot = &steps->slots[steps->count++];
  memset(slot, 0, sizeof *slot);
  slot->record = record;
  slot->topic = NO_TOPIC;
  slot->fate = fate_of(steps, value, slot);
  return slot;
}

/* Run the steps over the records of `spans`, pairs of begin and end. Return 0 if there is no memory. */
PUBLIC int fl_steps_run(fl_steps *steps, const fl_batch *batch, const int64_t *spans, int64_t span_count) {
  int type;
  size_t wanted = 0;
  steps->count = 0;
  for (const int64_t *span = spans; span < spans + 2 * span_count; span += 2) {
    if (span[0] < 0 || span[0] > span[1] || span[1] > batch->count) return 0;
    wanted += (size_t)(span[1] - span[0]);
  }
  if (!begin(steps, wanted)) return 0;
  for (const int64_t *span = spans; span < spans + 2 * span_count; span += 2) {
    for (int64_t record = span[0]; record < span[1]; record++) {
      const rd_kafka_message_t *message = batch->records[record];
      fl_slot *slot = add_slot(steps, record, (fl_value){message->payload, message->len});
      int is_written = slot->fate == FATE_OUTPUT || slot->fate == FATE_TOMBSTONE;
      if (is_written && rd_message_timestamp(message, &type) == 0 && type != NO_TIMESTAMP) slot->fate = FATE_UNTIMED;
    }
  }
  return !steps->text.failed;
}

/* Run the steps over one value, without a record. Return 0 if there is no memory. */
PUBLIC int fl_steps_try(fl_steps *steps, const char *value, int64_t bytes) {
  if (bytes < 0 || !begin(steps, 1)) return 0;
  add_slot(steps, 0, (fl_value){value, (size_t)bytes});
  return !steps->text.failed;
}

/* Decide a slot in the place of C. Return 0 if there is no such slot, or no memory. */
PUBLIC int fl_steps_decide(fl_steps *steps, int64_t number, int32_t fate, int32_t topic, const char *value, int64_t bytes) {
  if (number < 0 || number >= steps->count || bytes < 0 || fate < 0 || fate >= FATES || topic < NO_TOPIC || topic >= steps->topic_count) return 0;
  fl_slot *slot = &steps->slots[number];
  slot->fate = fate;
  slot->topic = topic;
  slot->offset = (int64_t)steps->text.used;
  slot->bytes = bytes;
  if (bytes > 0) fl_text_put(&steps->text, value, (size_t)bytes);
  return !steps->text.failed;
}

/* How many slots have each fate, how many outputs there are for the sink and for each topic, and their bytes. */
PUBLIC int64_t fl_steps_sum(const fl_steps *steps, int64_t fates[FATES], int64_t *outputs) {
  int64_t bytes = 0;
  memset(fates, 0, FATES * sizeof *fates);
  memset(outputs, 0, ((size_t)steps->topic_count + 1) * sizeof *outputs);
  for (const fl_slot *slot = steps->slots; slot < steps->slots + steps->count; slot++) {
    fates[slot->fate]++;
    if (slot->fate == FATE_OUTPUT) outputs[slot->topic + 1]++, bytes += slot->bytes;
    if (slot->fate == FATE_TOMBSTONE)
      for (int64_t topic = 0; topic <= steps->topic_count; topic++) outputs[topic]++;
  }
  return bytes;
}

int fl_steps_output(const fl_steps *steps, int64_t number, int64_t *record, fl_value *value) {
  if (number < 0 || number >= steps->count) return UNSURE;
  const fl_slot *slot = &steps->slots[number];
  *record = slot->record;
  if (slot->fate == FATE_DROPPED || slot->fate == FATE_BAD) return NO;
  /* A file has the time of an output beside it, so that 1970 is one like any other. No output is empty but a tombstone. */
  if ((slot->fate != FATE_OUTPUT && slot->fate != FATE_UNTIMED) || slot->topic != NO_TOPIC || slot->bytes == 0) return UNSURE;
  *value = (fl_value){steps->text.bytes + slot->offset, (size_t)slot->bytes};
  return YES;
}

/* Enqueue one output. Return the client's error, or 0. */
static int32_t give_output(const fl_steps *steps, rd_kafka_t *producer, rd_kafka_topic_t *topic, const fl_slot *slot,
                           rd_kafka_message_t *record, int keeps_partition) {
  int type, is_tombstone = slot->fate == FATE_TOMBSTONE;
  int64_t at_ms = rd_message_timestamp(record, &type);
  fl_value value = {is_tombstone ? NULL : steps->text.bytes + slot->offset, is_tombstone ? 0 : (size_t)slot->bytes};
  int is_last = !is_tombstone || steps->next_topic + 1 == steps->topic_count;
  int32_t partition = keeps_partition ? record->partition : ANY_PARTITION;
  return fl_enqueue(producer, topic, partition, record, value, type == NO_TIMESTAMP ? 0 : at_ms, is_last);
}

/*
 * Enqueue the outputs from the next one on: for `topics[0]`, the sink, or for `topics[1 + number]`. Return how many were
 * taken; `code` is the client's error for the one after them, which is then the next.
 */
PUBLIC int64_t fl_steps_give(fl_steps *steps, rd_kafka_t *producer, const char *const *topics, const fl_batch *batch,
                             int keeps_partition, int32_t *code) {
  int64_t given = 0;
  *code = NO_MEMORY;
  rd_kafka_topic_t **handles = calloc((size_t)steps->topic_count + 1, sizeof *handles);
  if (handles == NULL) return 0;
  *code = 0;
  while (steps->next_slot < steps->count) {
    const fl_slot *slot = &steps->slots[steps->next_slot];
    int is_tombstone = slot->fate == FATE_TOMBSTONE;
    if (slot->record >= batch->count) {
      *code = WRONG_ARGUMENT;
      break;
    }
    if (is_tombstone || slot->fate == FATE_OUTPUT) {
      int32_t number = is_tombstone ? steps->next_topic : slot->topic;
      rd_kafka_topic_t **handle = &handles[number + 1];
      if (*handle == NULL) *handle = rd_topic_new(producer, topics[number + 1], NULL);
      *code = *handle == NULL
                  ? rd_last_error()
                  : give_output(steps, producer, *handle, slot, batch->records[slot->record], keeps_partition);
      if (*code != 0) break;
      given++;
      if (is_tombstone && ++steps->next_topic < steps->topic_count) continue;
    }
    steps->next_topic = NO_TOPIC;
    steps->next_slot++;
  }
  for (int64_t at = 0; at <= steps->topic_count; at++)
    if (handles[at] != NULL) rd_topic_destroy(handles[at]);
  free(handles);
  return given;
}
