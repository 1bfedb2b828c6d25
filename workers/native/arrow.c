/*
 * Records as Arrow columns, and rows of Arrow columns on their way to a producer.
 *
 * Python allocates every buffer and checks the types (workers/native/arrow.py). Numbers in the buffers may be the user's,
 * so each of them is checked against the size of what it points into.
 */
#include <stdlib.h>
#include <string.h>

#include "kafka.h"

enum { BAD = -1, TO_SINK = -1, SPAN = 3 };
enum { IS_WRONG, IS_NULL, IS_THERE };
static const int64_t MOST = (int64_t)1 << 40;

typedef struct {
  void *bytes;
  int64_t size;
} fl_buffer;

/*
 * Byte strings in Arrow's layout: a bit for each that is not NULL, the offset of each and of the end, and their bytes.
 * validity.bytes NULL: none is NULL. first: the bit of the first one. A column of lists has numbers of items in the place
 * of bytes: data.size is how many there are.
 */
typedef struct {
  fl_buffer validity, offsets, data;
  int64_t first;
} fl_strings;

/* Room for records. lists.bytes NULL: without headers, whose names and contents then have no room. */
typedef struct {
  fl_buffer numbers, offsets, partitions, topics, timestamps, times_there, lists;
  fl_strings keys, values, names, contents;
} fl_columns;

/*
 * Rows for the producer. records: the number in the batch of the record that each comes from. timestamps: 0 is the time of
 * writing. topics: their numbers, or TO_SINK; NULL: all are for the sink. keys, lists: without offsets, the record's own.
 */
typedef struct {
  int64_t count, topic_count;
  fl_buffer records, timestamps, topics;
  fl_strings values, keys, lists, names, contents;
} fl_rows;

/* Python declares them again (library.py). */
_Static_assert(sizeof(fl_strings) == 56 && sizeof(fl_columns) == 336 && sizeof(fl_rows) == 344, "");

/* The number of records in `spans`, triples of begin, end and the topic's number; BAD if one is out of range. */
static int64_t rows_of(const fl_batch *batch, const int64_t *spans, int64_t span_count) {
  int64_t rows = 0;
  for (const int64_t *span = spans; span < spans + SPAN * span_count; span += SPAN) {
    if (span[0] < 0 || span[0] > span[1] || span[1] > batch->count) return BAD;
    rows += span[1] - span[0];
  }
  return rows;
}

static rd_kafka_headers_t *headers_of(const rd_kafka_message_t *record) {
  rd_kafka_headers_t *headers = NULL;
  return rd_message_headers(record, &headers) == 0 ? headers : NULL;
}

/* The bytes of keys, values, names and contents of headers, and how many headers there are. Return the rows, or BAD. */
PUBLIC int64_t fl_arrow_sizes(const fl_batch *batch, const int64_t *spans, int64_t span_count, int with_headers,
                              int64_t sizes[5]) {
  int64_t rows = rows_of(batch, spans, span_count);
  memset(sizes, 0, 5 * sizeof *sizes);
  if (rows == BAD) return BAD;
  for (const int64_t *span = spans; span < spans + SPAN * span_count; span += SPAN) {
    for (int64_t at = span[0]; at < span[1]; at++) {
      const rd_kafka_message_t *record = batch->records[at];
      if (record->key != NULL) sizes[0] += (int64_t)record->key_len;
      if (record->payload != NULL) sizes[1] += (int64_t)record->len;
      rd_kafka_headers_t *headers = with_headers ? headers_of(record) : NULL;
      const char *name;
      const void *content;
      size_t bytes;
      for (size_t number = 0; headers != NULL && rd_header_get_all(headers, number, &name, &content, &bytes) == 0; number++) {
        sizes[2] += (int64_t)strlen(name);
        if (content != NULL) sizes[3] += (int64_t)bytes;
        sizes[4]++;
      }
    }
  }
  return rows;
}

static int has_room(const fl_buffer *buffer, int64_t count, int64_t width) {
  return buffer->bytes != NULL && count <= buffer->size / width;
}

/* Begin a column of so many strings. Return 0 if there is no room for their offsets and bits. */
static int begin(fl_strings *column, int64_t count) {
  int64_t bytes = (count + 7) / 8;
  if (!has_room(&column->offsets, count + 1, sizeof(int32_t)) || column->data.size > INT32_MAX) return 0;
  if (bytes > 0 && !has_room(&column->validity, bytes, 1)) return 0;
  if (bytes > 0) memset(column->validity.bytes, 0, (size_t)bytes);
  *(int32_t *)column->offsets.bytes = 0;
  return 1;
}

static void set_bit(fl_buffer *bits, int64_t at) { ((uint8_t *)bits->bytes)[at / 8] |= (uint8_t)(1 << (at % 8)); }

/* Write string number `at` behind the one before it; NULL: none. Return 0 if its bytes have no room. */
static int put(fl_strings *column, int64_t at, const void *bytes, size_t count) {
  int32_t *offsets = column->offsets.bytes;
  int64_t used = offsets[at];
  if (bytes != NULL) {
    if ((int64_t)count > column->data.size - used) return 0;
    if (count > 0) memcpy((char *)column->data.bytes + used, bytes, count);
    used += (int64_t)count;
    set_bit(&column->validity, at);
  }
  offsets[at + 1] = (int32_t)used;
  return 1;
}

/* Write a record's headers from number `header` on. Return the number of the next one, or BAD. */
static int64_t put_headers(fl_columns *into, const rd_kafka_message_t *record, int64_t header, int64_t most) {
  rd_kafka_headers_t *headers = headers_of(record);
  const char *name;
  const void *content;
  size_t bytes;
  for (size_t number = 0; headers != NULL && rd_header_get_all(headers, number, &name, &content, &bytes) == 0; number++) {
    if (header >= most || !put(&into->names, header, name, strlen(name))) return BAD;
    if (!put(&into->contents, header++, content, bytes)) return BAD;
  }
  return header;
}

/* Copy the records of `spans` into columns of so many rows and headers. Return the rows; BAD: there is no room. */
PUBLIC int64_t fl_arrow_read(const fl_batch *batch, const int64_t *spans, int64_t span_count, fl_columns *into, int64_t most_headers) {
  int64_t rows = rows_of(batch, spans, span_count), row = 0, header = 0;
  int with_headers = into->lists.bytes != NULL, type;
  if (rows == BAD || most_headers < 0 || most_headers > INT32_MAX) return BAD;
  if (!has_room(&into->numbers, rows, 8) || !has_room(&into->offsets, rows, 8) || !has_room(&into->partitions, rows, 4)) return BAD;
  if (!has_room(&into->topics, rows, 4) || !has_room(&into->timestamps, rows, 8) || !has_room(&into->times_there, (rows + 7) / 8, 1)) return BAD;
  if (!begin(&into->keys, rows) || !begin(&into->values, rows)) return BAD;
  if (with_headers && (!has_room(&into->lists, rows + 1, 4) || !begin(&into->names, most_headers) || !begin(&into->contents, most_headers))) return BAD;
  memset(into->times_there.bytes, 0, (size_t)(rows + 7) / 8);
  if (with_headers) *(int32_t *)into->lists.bytes = 0;
  for (const int64_t *span = spans; span < spans + SPAN * span_count; span += SPAN) {
    for (int64_t at = span[0]; at < span[1]; at++, row++) {
      const rd_kafka_message_t *record = batch->records[at];
      int64_t timestamp_ms = rd_message_timestamp(record, &type);
      ((int64_t *)into->numbers.bytes)[row] = at;
      ((int64_t *)into->offsets.bytes)[row] = record->offset;
      ((int32_t *)into->partitions.bytes)[row] = record->partition;
      ((int32_t *)into->topics.bytes)[row] = (int32_t)span[2];
      ((int64_t *)into->timestamps.bytes)[row] = timestamp_ms;
      if (type != NO_TIMESTAMP && timestamp_ms != -1) set_bit(&into->times_there, row);
      if (!put(&into->keys, row, record->key, record->key_len) || !put(&into->values, row, record->payload, record->len)) return BAD;
      if (!with_headers) continue;
      header = put_headers(into, record, header, most_headers);
      if (header == BAD) return BAD;
      ((int32_t *)into->lists.bytes)[row + 1] = (int32_t)header;
    }
  }
  return rows;
}

/* The bounds of string number `at` in its column's data. */
static int span_of(const fl_strings *from, int64_t at, int32_t span[2]) {
  if (at < 0 || at > MOST || from->first < 0 || from->first > MOST) return IS_WRONG;
  if (from->validity.bytes != NULL) {
    int64_t bit = from->first + at;
    if (bit / 8 >= from->validity.size) return IS_WRONG;
    if (!(((const uint8_t *)from->validity.bytes)[bit / 8] >> (bit % 8) & 1)) return IS_NULL;
  }
  if (!has_room(&from->offsets, at + 2, sizeof(int32_t))) return IS_WRONG;
  memcpy(span, (const int32_t *)from->offsets.bytes + at, 2 * sizeof *span);
  return span[0] >= 0 && span[0] <= span[1] && span[1] <= from->data.size ? IS_THERE : IS_WRONG;
}

/* Find a string. Return 0 if there is none in its place. */
static int find(const fl_strings *from, int64_t at, fl_value *value) {
  int32_t span[2];
  int found = span_of(from, at, span);
  *value = (fl_value){NULL, 0};
  /* An empty string may be without a buffer, and it is not NULL. */
  if (found == IS_THERE) value->bytes = from->data.bytes == NULL ? "" : (const char *)from->data.bytes + span[0];
  if (found == IS_THERE) value->count = from->data.bytes == NULL ? 0 : (size_t)(span[1] - span[0]);
  return found != IS_WRONG;
}

/* Make the headers of a row; NULL: it has none. Return the client's error, or 0. */
static int32_t make_headers(const fl_rows *rows, int64_t row, rd_kafka_headers_t **headers) {
  int32_t span[2], code = 0;
  *headers = NULL;
  int found = span_of(&rows->lists, row, span);
  if (found == IS_WRONG) return WRONG_ARGUMENT;
  if (found == IS_NULL || span[0] == span[1]) return 0;
  *headers = rd_headers_new((size_t)(span[1] - span[0]));
  for (int32_t at = span[0]; at < span[1] && code == 0; at++) {
    fl_value name, content;
    code = find(&rows->names, at, &name) && find(&rows->contents, at, &content) && name.bytes != NULL
               ? rd_header_add(*headers, name.bytes, (ptrdiff_t)name.count, content.bytes, (ptrdiff_t)content.count)
               : WRONG_ARGUMENT;
  }
  if (code == 0) return 0;
  rd_headers_destroy(*headers);
  *headers = NULL;
  return code;
}

/* Enqueue one row. Return the client's error, or 0. */
static int32_t give_row(rd_kafka_t *producer, rd_kafka_topic_t *topic, const fl_rows *rows, int64_t row, rd_kafka_message_t *record, int is_last) {
  fl_value value, key = {record->key, record->key_len};
  int has_keys = rows->keys.offsets.bytes != NULL, has_headers = rows->lists.offsets.bytes != NULL;
  int64_t timestamp_ms = ((const int64_t *)rows->timestamps.bytes)[row];
  if (!find(&rows->values, row, &value) || (has_keys && !find(&rows->keys, row, &key))) return WRONG_ARGUMENT;
  if (!has_keys && !has_headers) return fl_enqueue(producer, topic, ANY_PARTITION, record, value, timestamp_ms, is_last);
  rd_kafka_headers_t *headers = NULL;
  if (has_headers) {
    int32_t code = make_headers(rows, row, &headers);
    if (code != 0) return code;
  } else {
    rd_kafka_headers_t *own = headers_of(record);
    if (own != NULL) headers = rd_headers_copy(own);
  }
  int32_t code = fl_produce(producer, topic, ANY_PARTITION, key, value, headers, timestamp_ms);
  if (code != 0 && headers != NULL) rd_headers_destroy(headers);
  return code;
}

/* True if each row comes from a later record than the row before it: then none needs the headers of another's record. */
static int is_rising(const int64_t *records, int64_t count) {
  for (int64_t at = 1; at < count; at++)
    if (records[at] <= records[at - 1]) return 0;
  return 1;
}

/*
 * Enqueue the rows from `row` on: for `topics[0]`, the sink, or for `topics[1 + number]`. Return how many were taken;
 * `code` is the client's error for the one after them.
 */
PUBLIC int64_t fl_arrow_give(rd_kafka_t *producer, const char *const *topics, fl_batch *batch, const fl_rows *rows, int64_t row, int32_t *code) {
  *code = WRONG_ARGUMENT;
  if (row < 0 || rows->topic_count < 0 || rows->topic_count > INT32_MAX) return 0;
  if (!has_room(&rows->records, rows->count, 8) || !has_room(&rows->timestamps, rows->count, 8)) return 0;
  if (rows->topics.bytes != NULL && !has_room(&rows->topics, rows->count, 4)) return 0;
  const int64_t *records = rows->records.bytes;
  int32_t *numbers = rows->topics.bytes;
  int is_last = is_rising(records, rows->count);
  rd_kafka_topic_t **handles = calloc((size_t)rows->topic_count + 1, sizeof *handles);
  *code = handles == NULL ? NO_MEMORY : 0;
  int64_t given = 0;
  for (; handles != NULL && row < rows->count; row++, given++) {
    int32_t number = numbers == NULL ? TO_SINK : numbers[row];
    *code = WRONG_ARGUMENT;
    if (records[row] < 0 || records[row] >= batch->count || number < TO_SINK || number >= rows->topic_count) break;
    rd_kafka_topic_t **handle = &handles[number + 1];
    if (*handle == NULL) *handle = rd_topic_new(producer, topics[number + 1], NULL);
    *code = *handle == NULL ? rd_last_error() : give_row(producer, *handle, rows, row, batch->records[records[row]], is_last);
    if (*code != 0) break;
  }
  for (int64_t at = 0; handles != NULL && at <= rows->topic_count; at++)
    if (handles[at] != NULL) rd_topic_destroy(handles[at]);
  free(handles);
  return given;
}
