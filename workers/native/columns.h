/* The partition columns of a file sink (columns.c). */
#ifndef FENCELINE_COLUMNS_H
#define FENCELINE_COLUMNS_H

#include "avro.h"
#include "fields.h"

typedef struct {
  int kind;
  fl_path path;
} fl_column;

/* event_time: without names, it is the record's timestamp. */
typedef struct {
  fl_column *columns;
  size_t count;
  fl_path event_time;
  int needs_time;
  yyjson_doc *definition;
} fl_columns;

/* Read the definition that workers/native/filing.py writes. Return 0 if it is not one, or there is no memory. */
int fl_columns_read(fl_columns *columns, char *definition, size_t bytes);
void fl_columns_free(fl_columns *columns);
/* Write the texts of all columns, a length of four bytes before each. Return 0 if they are not certain. */
int fl_columns_key(const fl_columns *columns, const fl_document *document, const int64_t *timestamp_ms, fl_text *key);

#endif
