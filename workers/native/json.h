/* JSON values as steps and file sinks see them: exactly as msgspec reads and writes them, or not at all (json.c). */
#ifndef FENCELINE_JSON_H
#define FENCELINE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "yyjson.h"

/* A number of a record or of a step. Integers have at most 18 digits. */
typedef struct {
  int is_integer;
  int64_t integer;
  double real;
} fl_number;

/* Bytes that grow. `failed`: there was no memory for some of them. */
typedef struct {
  char *bytes;
  size_t used, room;
  int failed;
} fl_text;

int fl_text_reserve(fl_text *text, size_t more);
void fl_text_put(fl_text *text, const char *bytes, size_t count);

/* Memory in which one value after the other is read. */
typedef struct {
  char *bytes;
  size_t room;
} fl_pool;

/* Read a value; it lasts until the next one. NULL: it is not JSON, or too large. `flags`: as yyjson has them. */
yyjson_doc *fl_json_read(fl_pool *pool, const void *bytes, size_t count, yyjson_read_flag flags);
/* True if no name of the object is there twice; also false for more names than are looked at. */
int fl_has_distinct_names(yyjson_val *object);

/* True if msgspec would write this value as C does, and read it without an error. */
int fl_json_is_plain(yyjson_val *value);
/* The value of a number that is plain; 0 if it is not. */
int fl_json_number(yyjson_val *value, fl_number *number);
/* -1, 0 or 1, exactly, as Python compares them. */
int fl_number_order(const fl_number *one, const fl_number *other);
void fl_json_write(fl_text *text, yyjson_val *value);
void fl_json_write_string(fl_text *text, const char *bytes, size_t count);

#endif
