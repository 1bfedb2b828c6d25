/*
 * JSON values in Avro's binary encoding, as AvroEncoder writes them (workers/sinks/avro_encoder.py).
 *
 * https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
 *
 * A value is written only if msgspec is certain to decode the same one. Left to Python are -0, integers beyond 64 bits,
 * names that come twice or have escapes, and each value that does not fit. So nothing here makes an error message.
 * yyjson reads doubles correctly rounded, as msgspec does; tests/workers/native/test_avro.py compares both.
 */
#include "avro.h"

#include <stdlib.h>
#include <string.h>

#include "kafka.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the bytes of a double are copied");

enum { ABSENT = -1, MOST_BRANCHES = 64, MOST_VARINT = 10, MOST_NESTING = 256 };
static const int64_t MOST_EXACT = (int64_t)1 << 53;

static int branch_of(yyjson_val *given, const char *kind) {
  yyjson_val *found = yyjson_obj_get(given, kind);
  int64_t index = yyjson_get_sint(yyjson_is_arr(found) ? yyjson_arr_get_first(found) : found);
  return found == NULL || index < 0 || index >= MOST_BRANCHES ? ABSENT : (int)index;
}

static void free_type(fl_type *type) {
  if (type == NULL) return;
  for (size_t at = 0; at < type->field_count; at++) free_type(type->fields[at].type);
  free_type(type->items);
  free_type(type->values);
  free(type->fields);
  free(type);
}

static fl_type *read_type(fl_avro *avro, yyjson_val *given, int depth);

/* Read the fields of a record. Return 0 if they are none, or there is no memory. */
static int read_fields(fl_avro *avro, yyjson_val *given, fl_type *into, int depth) {
  size_t index, count;
  yyjson_val *one;
  into->fields = calloc(yyjson_arr_size(given) + 1, sizeof *into->fields);
  if (into->fields == NULL || !yyjson_is_arr(given)) return 0;
  into->first = avro->slots;
  avro->slots += yyjson_arr_size(given) + 1;
  yyjson_arr_foreach(given, index, count, one) {
    yyjson_val *name = yyjson_arr_get_first(one);
    fl_field *field = &into->fields[into->field_count++];
    if (!yyjson_is_str(name)) return 0;
    field->name = yyjson_get_str(name);
    field->bytes = yyjson_get_len(name);
    field->may_be_missing = yyjson_get_bool(yyjson_arr_get(one, 2));
    field->type = read_type(avro, yyjson_arr_get(one, 1), depth + 1);
    if (field->type == NULL) return 0;
  }
  return 1;
}

/* True for a list of texts, or none at all. */
static int are_texts(yyjson_val *list) {
  size_t index, count;
  yyjson_val *one;
  yyjson_arr_foreach(list, index, count, one) {
    if (!yyjson_is_str(one)) return 0;
  }
  return 1;
}

/* Read a type of its definition (workers/native/avro.py). NULL: it is none, or there is no memory. */
static fl_type *read_type(fl_avro *avro, yyjson_val *given, int depth) {
  fl_type *type = depth > MOST_NESTING || !yyjson_is_obj(given) ? NULL : calloc(1, sizeof *type);
  if (type == NULL) return NULL;
  type->is_union = yyjson_get_bool(yyjson_obj_get(given, "union"));
  type->null = branch_of(given, "null");
  type->boolean = branch_of(given, "boolean");
  type->integer = branch_of(given, "integer");
  type->real = branch_of(given, "double");
  type->text = branch_of(given, "text");
  type->array = branch_of(given, "array");
  type->map = branch_of(given, "map");
  type->record = branch_of(given, "record");
  type->lowest = yyjson_get_sint(yyjson_arr_get(yyjson_obj_get(given, "integer"), 1));
  type->highest = yyjson_get_sint(yyjson_arr_get(yyjson_obj_get(given, "integer"), 2));
  type->symbols = yyjson_arr_get(yyjson_obj_get(given, "text"), 1);
  int is_read = are_texts(type->symbols);
  if (is_read && type->array != ABSENT) {
    type->items = read_type(avro, yyjson_arr_get(yyjson_obj_get(given, "array"), 1), depth + 1);
    is_read = type->items != NULL;
  }
  if (is_read && type->map != ABSENT) {
    type->values = read_type(avro, yyjson_arr_get(yyjson_obj_get(given, "map"), 1), depth + 1);
    is_read = type->values != NULL;
  }
  if (is_read && type->record != ABSENT)
    is_read = read_fields(avro, yyjson_arr_get(yyjson_obj_get(given, "record"), 1), type, depth);
  if (is_read) return type;
  free_type(type);
  return NULL;
}

PUBLIC void fl_avro_free(fl_avro *avro) {
  if (avro == NULL) return;
  free_type(avro->root);
  yyjson_doc_free(avro->definition);
  free(avro);
}

/* Make a schema of its definition. NULL: it is not one, or there is no memory. */
PUBLIC fl_avro *fl_avro_new(char *definition, int64_t bytes) {
  fl_avro *avro = calloc(1, sizeof *avro);
  if (avro == NULL) return NULL;
  avro->definition = bytes < 0 ? NULL : yyjson_read_opts(definition, (size_t)bytes, 0, NULL, NULL);
  yyjson_val *given = yyjson_doc_get_root(avro->definition);
  avro->takes_escapes = yyjson_get_bool(yyjson_obj_get(given, "escapes"));
  avro->root = read_type(avro, yyjson_obj_get(given, "type"), 0);
  if (avro->root != NULL) return avro;
  fl_avro_free(avro);
  return NULL;
}

void fl_reader_free(fl_reader *reader) {
  free(reader->pool.bytes);
  free(reader->values);
  free(reader->next);
}

/* Give the reader room for the fields of this schema. Return 0 if there is no memory. */
static int fit(fl_reader *reader, const fl_avro *avro) {
  if (avro->slots <= reader->room) return 1;
  yyjson_val **values = realloc(reader->values, avro->slots * sizeof *values);
  if (values != NULL) reader->values = values;
  size_t *next = realloc(reader->next, avro->slots * sizeof *next);
  if (next != NULL) reader->next = next;
  if (values == NULL || next == NULL) return 0;
  memset(next + reader->room, 0, (avro->slots - reader->room) * sizeof *next);
  reader->room = avro->slots;
  return 1;
}

fl_document fl_avro_read(fl_reader *reader, const void *value, size_t bytes) {
  /* Integers beyond 64 bits and doubles beyond their range stay text, and fit no type. */
  yyjson_doc *read = fl_json_read(&reader->pool, value, bytes, YYJSON_READ_BIGNUM_AS_RAW);
  if (read == NULL) return (fl_document){NULL, NULL, NULL};
  return (fl_document){value, read->str_pool, yyjson_doc_get_root(read)};
}

int fl_is_plain_name(const fl_document *document, yyjson_val *name) {
  if (unsafe_yyjson_get_subtype(name) == YYJSON_SUBTYPE_NOESC) return 1;
  /* yyjson unescapes within a copy of the text. With the same bytes before its quote, the name had nothing to unescape. */
  const char *bytes = yyjson_get_str(name), *written = document->given + (bytes - document->copy);
  size_t count = yyjson_get_len(name);
  return memchr(bytes, '\\', count) == NULL && memcmp(bytes, written, count) == 0 && written[count] == '"';
}

/* One value on its way into `out`, which is NULL for a check. */
typedef struct {
  const fl_reader *reader;
  const fl_avro *avro;
  const fl_document *document;
  fl_text *out;
} fl_writing;

static void put_long(fl_text *out, int64_t number) {
  if (out == NULL || !fl_text_reserve(out, MOST_VARINT)) return;
  uint64_t zigzag = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
  char *to = out->bytes + out->used;
  for (; zigzag > 0x7f; zigzag >>= 7) *to++ = (char)(zigzag | 0x80);
  *to++ = (char)zigzag;
  out->used = (size_t)(to - out->bytes);
}

static void put_branch(fl_text *out, const fl_type *type, int index) {
  if (type->is_union) put_long(out, index);
}

static void put_double(fl_text *out, double number) {
  if (out != NULL) fl_text_put(out, (const char *)&number, sizeof number);
}

static void put_text(fl_text *out, yyjson_val *text) {
  put_long(out, (int64_t)yyjson_get_len(text));
  if (out != NULL) fl_text_put(out, yyjson_get_str(text), yyjson_get_len(text));
}

static int write_number(fl_text *out, const fl_type *type, yyjson_val *value) {
  if (yyjson_is_real(value)) {
    if (type->real == ABSENT) return 0;
    put_branch(out, type, type->real);
    put_double(out, yyjson_get_real(value));
    return 1;
  }
  if (yyjson_is_uint(value) && yyjson_get_uint(value) > INT64_MAX) return 0;
  int64_t number = yyjson_is_uint(value) ? (int64_t)yyjson_get_uint(value) : yyjson_get_sint(value);
  if (number == 0 && !yyjson_is_uint(value)) return 0;
  if (type->integer != ABSENT && number >= type->lowest && number <= type->highest) {
    put_branch(out, type, type->integer);
    put_long(out, number);
    return 1;
  }
  if (type->real == ABSENT || number < -MOST_EXACT || number > MOST_EXACT) return 0;
  put_branch(out, type, type->real);
  put_double(out, (double)number);
  return 1;
}

static int is_same(yyjson_val *one, const char *bytes, size_t count) {
  return yyjson_get_len(one) == count && memcmp(yyjson_get_str(one), bytes, count) == 0;
}

static int write_string(fl_writing *writing, const fl_type *type, yyjson_val *value) {
  size_t index, count;
  yyjson_val *symbol;
  if (type->text == ABSENT) return 0;
  put_branch(writing->out, type, type->text);
  if (type->symbols == NULL) {
    put_text(writing->out, value);
    return 1;
  }
  if (!fl_is_plain_name(writing->document, value)) return 0;
  yyjson_arr_foreach(type->symbols, index, count, symbol) {
    if (!is_same(symbol, yyjson_get_str(value), yyjson_get_len(value))) continue;
    put_long(writing->out, (int64_t)index);
    return 1;
  }
  return 0;
}

static int write_value(fl_writing *writing, const fl_type *type, yyjson_val *value);

static int write_array(fl_writing *writing, const fl_type *type, yyjson_val *value) {
  size_t index, count;
  yyjson_val *item;
  if (type->array == ABSENT) return 0;
  put_branch(writing->out, type, type->array);
  if (yyjson_arr_size(value) > 0) put_long(writing->out, (int64_t)yyjson_arr_size(value));
  yyjson_arr_foreach(value, index, count, item) {
    if (!write_value(writing, type->items, item)) return 0;
  }
  put_long(writing->out, 0);
  return 1;
}

static int write_map(fl_writing *writing, const fl_type *type, yyjson_val *value) {
  size_t index, count;
  yyjson_val *name, *item;
  if (!fl_has_distinct_names(value)) return 0;
  put_branch(writing->out, type, type->map);
  if (yyjson_obj_size(value) > 0) put_long(writing->out, (int64_t)yyjson_obj_size(value));
  yyjson_obj_foreach(value, index, count, name, item) {
    put_text(writing->out, name);
    if (!write_value(writing, type->values, item)) return 0;
  }
  put_long(writing->out, 0);
  return 1;
}

/* The number of the field with this name, searched from `guess` on; field_count if there is none. */
static size_t find_field(const fl_type *type, yyjson_val *name, size_t guess) {
  size_t at = guess < type->field_count ? guess : 0;
  for (size_t seen = 0; seen < type->field_count; seen++) {
    if (is_same(name, type->fields[at].name, type->fields[at].bytes)) return at;
    if (++at == type->field_count) at = 0;
  }
  return type->field_count;
}

static int write_record(fl_writing *writing, const fl_type *type, yyjson_val *value) {
  size_t index, count, fields = type->field_count, before = fields;
  yyjson_val *name, *item, **values = writing->reader->values + type->first;
  size_t *next = writing->reader->next + type->first;
  memset(values, 0, fields * sizeof *values);
  yyjson_obj_foreach(value, index, count, name, item) {
    size_t at = find_field(type, name, next[before]);
    if (at == fields || values[at] != NULL) return 0;
    if (!writing->avro->takes_escapes && !fl_is_plain_name(writing->document, name)) return 0;
    values[at] = item;
    next[before] = at;
    before = at;
  }
  put_branch(writing->out, type, type->record);
  for (size_t at = 0; at < fields; at++) {
    const fl_field *field = &type->fields[at];
    if (values[at] != NULL) {
      if (!write_value(writing, field->type, values[at])) return 0;
      continue;
    }
    if (!field->may_be_missing || (writing->out != NULL && field->type->null == ABSENT)) return 0;
    put_branch(writing->out, field->type, field->type->null);
  }
  return 1;
}

static int write_value(fl_writing *writing, const fl_type *type, yyjson_val *value) {
  switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_NULL:
      put_branch(writing->out, type, type->null);
      return type->null != ABSENT;
    case YYJSON_TYPE_BOOL:
      if (type->boolean == ABSENT) return 0;
      put_branch(writing->out, type, type->boolean);
      if (writing->out != NULL) fl_text_put(writing->out, yyjson_get_bool(value) ? "\1" : "", 1);
      return 1;
    case YYJSON_TYPE_NUM:
      return write_number(writing->out, type, value);
    case YYJSON_TYPE_STR:
      return write_string(writing, type, value);
    case YYJSON_TYPE_ARR:
      return write_array(writing, type, value);
    case YYJSON_TYPE_OBJ:
      return type->record != ABSENT ? write_record(writing, type, value) : type->map != ABSENT && write_map(writing, type, value);
    default:
      return 0;
  }
}

int fl_avro_write(fl_reader *reader, const fl_avro *avro, const fl_document *document, fl_text *out) {
  fl_writing writing = {reader, avro, document, out};
  size_t before = out == NULL ? 0 : out->used;
  if (document->root != NULL && fit(reader, avro) && write_value(&writing, avro->root, document->root)) return 1;
  if (out != NULL) out->used = before;
  return 0;
}

/* A block of a file while it is filled: the encodings of its values so far. */
typedef struct {
  fl_text out;
  fl_reader reader;
} fl_block;

PUBLIC void fl_block_free(fl_block *block) {
  if (block == NULL) return;
  free(block->out.bytes);
  fl_reader_free(&block->reader);
  free(block);
}

PUBLIC fl_block *fl_block_new(void) { return calloc(1, sizeof(fl_block)); }

/* Add what Python has encoded. Return 0 if there is no memory. */
PUBLIC int fl_block_put(fl_block *block, const char *bytes, int64_t count) {
  if (count > 0) fl_text_put(&block->out, bytes, (size_t)count);
  return !block->out.failed;
}

/*
 * Encode values behind those of the block. `frames`: a length of four bytes before each; `at`: the place of the next
 * one. Ends behind the last one, or the one with which the block has `most` bytes, and before one that is not certain.
 * Return how many were encoded; ABSENT: there is no memory, or the frames are damaged.
 */
PUBLIC int64_t fl_block_fill(fl_block *block, const fl_avro *avro, const char *frames, int64_t size, int64_t *at, int64_t most) {
  int64_t done = 0;
  uint32_t bytes;
  while (*at >= 0 && *at < size && (int64_t)block->out.used < most) {
    if (size - *at < (int64_t)sizeof bytes) return ABSENT;
    memcpy(&bytes, frames + *at, sizeof bytes);
    const char *value = frames + *at + sizeof bytes;
    if (size - *at - (int64_t)sizeof bytes < (int64_t)bytes) return ABSENT;
    fl_document document = fl_avro_read(&block->reader, value, bytes);
    int is_written = fl_avro_write(&block->reader, avro, &document, &block->out);
    if (block->out.failed) return ABSENT;
    if (!is_written) break;
    *at += (int64_t)(sizeof bytes + bytes);
    done++;
  }
  return done;
}
