/*
 * Records on their way into files: each value behind the others of its partition values, in one memory for each file.
 *
 * C files a record only if it is certain of Python's decision (workers/sinks/file_sink.py): the value adds nothing to the
 * schema of a part that Python has made, and its columns are of plain kinds. At any other record C stops, and Python
 * files it, so that the values of a part stay in their order.
 */
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "steps.h"

/* Why C stopped: behind the last record, before one for Python, behind one with which a part or the memory is full. */
enum { DONE, FOR_PYTHON, NEW_PART, PART_FULL, MEMORY_FULL, FAILED };
enum { NONE = -1, LEAST_ROOM = 256 };

typedef struct {
  int64_t source, first, last;
} fl_range;

/* One file. `frames`: values in memory, a length of four bytes before each. size_bytes: of all its values. */
typedef struct {
  fl_text frames;
  fl_range *ranges;
  int64_t range_count, range_room, records, size_bytes, last_use;
  const fl_avro *check;
  char *key;
  uint64_t key_bytes, hash;
} fl_part;

/* held_bytes: the room of all frames; look_at: the most of it. stopped: the part that is full. */
typedef struct {
  int64_t held_bytes, look_at, stopped, records, size_bytes, count;
  fl_part *parts;
  int64_t most_bytes, uses;
  size_t room, table_room;
  int64_t *table;
  uint64_t seed;
  fl_columns columns;
  fl_text key;
  fl_reader reader;
} fl_filing;

/* Python declares them again (library.py). */
_Static_assert(sizeof(fl_range) == 24 && sizeof(fl_text) == 32 && sizeof(fl_part) == 112 && offsetof(fl_filing, most_bytes) == 56, "");

PUBLIC void fl_release(void *memory) { free(memory); }

static void reset_part(fl_part *part) {
  free(part->ranges);
  part->ranges = NULL;
  part->frames = (fl_text){0};
  part->range_count = part->range_room = part->records = part->size_bytes = 0;
  part->check = NULL;
}

/* Forget all parts. */
PUBLIC void fl_filing_clear(fl_filing *filing) {
  for (int64_t at = 0; at < filing->count; at++) {
    free(filing->parts[at].frames.bytes);
    free(filing->parts[at].key);
    reset_part(&filing->parts[at]);
  }
  if (filing->table != NULL) memset(filing->table, 0xff, filing->table_room * sizeof *filing->table);
  filing->count = filing->held_bytes = filing->look_at = filing->records = filing->size_bytes = filing->uses = 0;
}

PUBLIC void fl_filing_free(fl_filing *filing) {
  if (filing == NULL) return;
  fl_filing_clear(filing);
  fl_columns_free(&filing->columns);
  free(filing->parts);
  free(filing->table);
  free(filing->key.bytes);
  fl_reader_free(&filing->reader);
  free(filing);
}

/* Make it of a definition of its columns. NULL: it is not one, or there is no memory. */
PUBLIC fl_filing *fl_filing_new(char *definition, int64_t bytes, int64_t most_bytes, uint64_t seed) {
  fl_filing *filing = calloc(1, sizeof *filing);
  if (filing == NULL) return NULL;
  filing->most_bytes = most_bytes;
  filing->seed = seed;
  /* A sink without columns has an empty key, and not none. */
  int has_key = fl_text_reserve(&filing->key, 1);
  if (has_key && bytes >= 0 && fl_columns_read(&filing->columns, definition, (size_t)bytes)) return filing;
  fl_filing_free(filing);
  return NULL;
}

static uint64_t hash_of(const fl_filing *filing, const char *key, size_t bytes) {
  uint64_t hash = filing->seed ^ 14695981039346656037u;
  for (size_t at = 0; at < bytes; at++) hash = (hash ^ (uint8_t)key[at]) * 1099511628211u;
  return hash ^ hash >> 32;
}

/* The place in the table of the part with this key, or of none. */
static size_t place_of(const fl_filing *filing, const char *key, size_t bytes, uint64_t hash) {
  size_t at = hash & (filing->table_room - 1);
  for (; filing->table[at] != NONE; at = (at + 1) & (filing->table_room - 1)) {
    const fl_part *part = &filing->parts[filing->table[at]];
    if (part->hash == hash && part->key_bytes == bytes && memcmp(part->key, key, bytes) == 0) break;
  }
  return at;
}

/* Make the table large enough for one part more. Return 0 if there is no memory. */
static int make_place(fl_filing *filing) {
  if ((size_t)filing->count == filing->room) {
    size_t room = filing->room ? 2 * filing->room : 64;
    fl_part *larger = realloc(filing->parts, room * sizeof *larger);
    if (larger == NULL) return 0;
    filing->parts = larger;
    filing->room = room;
  }
  if (2 * ((size_t)filing->count + 1) <= filing->table_room) return 1;
  size_t room = filing->table_room ? 2 * filing->table_room : 256;
  int64_t *table = malloc(room * sizeof *table);
  if (table == NULL) return 0;
  free(filing->table);
  filing->table = table;
  filing->table_room = room;
  memset(table, 0xff, room * sizeof *table);
  for (int64_t number = 0; number < filing->count; number++) {
    const fl_part *part = &filing->parts[number];
    table[place_of(filing, part->key, part->key_bytes, part->hash)] = number;
  }
  return 1;
}

/* The number of the part with this key, which is made if there is none. NONE: there is no memory. */
PUBLIC int64_t fl_filing_part(fl_filing *filing, const char *key, int64_t bytes) {
  if (bytes < 0 || !make_place(filing)) return NONE;
  uint64_t hash = hash_of(filing, key, (size_t)bytes);
  size_t place = place_of(filing, key, (size_t)bytes, hash);
  if (filing->table[place] != NONE) return filing->table[place];
  char *copy = malloc((size_t)bytes + 1);
  if (copy == NULL) return NONE;
  memcpy(copy, key, (size_t)bytes);
  fl_part *part = &filing->parts[filing->count];
  memset(part, 0, sizeof *part);
  part->key = copy;
  part->key_bytes = (uint64_t)bytes;
  part->hash = hash;
  filing->table[place] = filing->count;
  return filing->count++;
}

static fl_part *part_of(const fl_filing *filing, int64_t number) {
  return number < 0 || number >= filing->count ? NULL : &filing->parts[number];
}

/* Let C file values that fit this schema, which must stay as long as the part has it; NULL: none. */
PUBLIC void fl_filing_check(fl_filing *filing, int64_t number, const fl_avro *check) {
  fl_part *part = part_of(filing, number);
  if (part != NULL) part->check = check;
}

/* Make room for more bytes of a part: by halves, since there may be many parts. Return 0 if there is no memory. */
static int make_room(fl_filing *filing, fl_text *frames, size_t more) {
  if (frames->room - frames->used >= more) return 1;
  size_t room = frames->used + more + frames->used / 2;
  if (room < LEAST_ROOM) room = LEAST_ROOM;
  char *larger = realloc(frames->bytes, room);
  if (larger == NULL) return 0;
  filing->held_bytes += (int64_t)(room - frames->room);
  frames->bytes = larger;
  frames->room = room;
  return 1;
}

/* Put a value behind the others of its part. Return 0 if there is no memory. */
static int hold(fl_filing *filing, fl_part *part, const void *value, size_t bytes) {
  uint32_t length = (uint32_t)bytes;
  if (!make_room(filing, &part->frames, sizeof length + bytes)) return 0;
  fl_text_put(&part->frames, (const char *)&length, sizeof length);
  fl_text_put(&part->frames, value, bytes);
  part->records++;
  part->size_bytes += (int64_t)bytes;
  part->last_use = ++filing->uses;
  filing->records++;
  filing->size_bytes += (int64_t)bytes;
  return 1;
}

/* Put a value of Python's behind the others. Return the bytes of the part's values; NONE: no memory, or no such part. */
PUBLIC int64_t fl_filing_hold(fl_filing *filing, int64_t number, const char *value, int64_t bytes) {
  fl_part *part = part_of(filing, number);
  if (part == NULL || bytes < 0 || bytes > UINT32_MAX || !hold(filing, part, value, (size_t)bytes)) return NONE;
  return part->size_bytes;
}

/* Free the frames of a part, which Python has written to its spool. */
PUBLIC void fl_filing_drop(fl_filing *filing, int64_t number) {
  fl_part *part = part_of(filing, number);
  if (part == NULL) return;
  filing->held_bytes -= (int64_t)part->frames.room;
  free(part->frames.bytes);
  part->frames = (fl_text){0};
}

/* Empty a part. Its frames are Python's from here on, to be freed by `fl_release`. */
PUBLIC void fl_filing_take(fl_filing *filing, int64_t number) {
  fl_part *part = part_of(filing, number);
  if (part == NULL) return;
  filing->held_bytes -= (int64_t)part->frames.room;
  reset_part(part);
}

/* Add an offset to the ranges of a part. Return 0 if there is no memory. */
static int cover(fl_part *part, int64_t source, int64_t offset) {
  for (int64_t at = part->range_count; at-- > 0;) {
    if (part->ranges[at].source != source) continue;
    if (offset > part->ranges[at].last) part->ranges[at].last = offset;
    return 1;
  }
  if (part->range_count == part->range_room) {
    int64_t room = part->range_room ? 2 * part->range_room : 4;
    fl_range *larger = realloc(part->ranges, (size_t)room * sizeof *larger);
    if (larger == NULL) return 0;
    part->ranges = larger;
    part->range_room = room;
  }
  part->ranges[part->range_count++] = (fl_range){source, offset, offset};
  return 1;
}

/* File one value. Return DONE, or why C stops at it or behind it. */
static int file_value(fl_filing *filing, fl_value value, const int64_t *timestamp_ms, int64_t source, int64_t offset) {
  if (value.bytes == NULL) return FOR_PYTHON;
  if (filing->table == NULL) return NEW_PART;
  fl_document document = fl_avro_read(&filing->reader, value.bytes, value.count);
  if (!yyjson_is_obj(document.root) || !fl_columns_key(&filing->columns, &document, timestamp_ms, &filing->key)) return FOR_PYTHON;
  uint64_t hash = hash_of(filing, filing->key.bytes, filing->key.used);
  int64_t number = filing->table[place_of(filing, filing->key.bytes, filing->key.used, hash)];
  fl_part *part = part_of(filing, number);
  if (part == NULL || part->check == NULL) return NEW_PART;
  if (!fl_avro_write(&filing->reader, part->check, &document, NULL)) return FOR_PYTHON;
  if (!cover(part, source, offset) || !hold(filing, part, value.bytes, value.count)) return FAILED;
  filing->stopped = number;
  if (part->size_bytes >= filing->most_bytes) return PART_FULL;
  return filing->held_bytes > filing->look_at ? MEMORY_FULL : DONE;
}

/* True if the client's reader of headers, which expects UTF-8, might not take them: such a record is bad in a file. */
static int has_odd_headers(const rd_kafka_message_t *record) {
  rd_kafka_headers_t *headers = NULL;
  const char *name;
  const void *content;
  size_t bytes;
  if (rd_message_headers(record, &headers) != 0) return 0;
  for (size_t at = 0; rd_header_get_all(headers, at, &name, &content, &bytes) == 0; at++)
    for (; *name != 0; name++)
      if (*name & 0x80) return 1;
  return 0;
}

/*
 * File the records of a batch from `at` on, or what `steps` made of them: the slots from `at` on. All are of `source`.
 * Return why C stopped; `at` is then the record for Python, or the next one.
 */
PUBLIC int fl_filing_run(fl_filing *filing, const fl_batch *batch, const fl_steps *steps, int64_t source, int64_t *at, int64_t end) {
  if (*at < 0 || (steps == NULL && end > batch->count)) return FAILED;
  for (; *at < end; ++*at) {
    int64_t number = *at;
    fl_value value = {NULL, 0};
    int type, is_output = steps == NULL ? YES : fl_steps_output(steps, *at, &number, &value);
    if (number < 0 || number >= batch->count) return FAILED;
    const rd_kafka_message_t *record = batch->records[number];
    if (has_odd_headers(record) || is_output == UNSURE) return FOR_PYTHON;
    if (is_output == NO) continue;
    if (steps == NULL) value = (fl_value){record->payload, record->len};
    int64_t timestamp_ms = rd_message_timestamp(record, &type);
    int stop = file_value(filing, value, type == NO_TIMESTAMP ? NULL : &timestamp_ms, source, record->offset);
    if (stop == PART_FULL || stop == MEMORY_FULL) ++*at;
    if (stop != DONE) return stop;
  }
  return DONE;
}

/* File one value that is no record. Return why C stopped. */
PUBLIC int fl_filing_try(fl_filing *filing, const char *value, int64_t bytes, int64_t timestamp_ms, int is_timed, int64_t source, int64_t offset) {
  fl_value given = {value, (size_t)bytes};
  return bytes < 0 ? FAILED : file_value(filing, given, is_timed ? &timestamp_ms : NULL, source, offset);
}
