/* Avro types, and JSON values that are checked against them or written in their binary encoding (avro.c). */
#ifndef FENCELINE_AVRO_H
#define FENCELINE_AVRO_H

#include "json.h"

typedef struct fl_type fl_type;

/* A field of a record. `may_be_missing`: it is then null. */
typedef struct {
  const char *name;
  size_t bytes;
  fl_type *type;
  int may_be_missing;
} fl_field;

/* The branches of a union by the kind of JSON that they take, each with its index or ABSENT; other types have one. */
struct fl_type {
  int is_union, null, boolean, integer, real, text, array, map, record;
  int64_t lowest, highest;
  yyjson_val *symbols;
  fl_type *items, *values;
  fl_field *fields;
  size_t field_count, first;
};

/*
 * A schema. It does not change once it is read, so that threads may share it. slots: for the fields of all its records.
 * takes_escapes: names of fields may be written with escapes.
 */
typedef struct {
  fl_type *root;
  yyjson_doc *definition;
  size_t slots;
  int takes_escapes;
} fl_avro;

/* What one thread needs to read values of any schema. `next`: the field that came after each field in the last value. */
typedef struct {
  fl_pool pool;
  yyjson_val **values;
  size_t *next, room;
} fl_reader;

/* The JSON that yyjson has read, and its root; NULL: it has not, or Python decides such a value. */
typedef struct {
  const char *given, *copy;
  yyjson_val *root;
} fl_document;

fl_document fl_avro_read(fl_reader *reader, const void *value, size_t bytes);
void fl_reader_free(fl_reader *reader);
/* True if the name of a field was written without escapes. */
int fl_is_plain_name(const fl_document *document, yyjson_val *name);
/*
 * Write the value behind `out`, or only check it if that is NULL. Return 0, with nothing written, if the value does not
 * fit the schema or is not certain to. Without memory, `out->failed` is set.
 */
int fl_avro_write(fl_reader *reader, const fl_avro *avro, const fl_document *document, fl_text *out);

#endif
