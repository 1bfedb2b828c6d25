/*
 * The partition columns of a record: their texts as FilePartitions has them (app/core/pipelines/file_partitions.py), or
 * none where that is not certain: numbers with a fraction, other forms of a time, texts like that of null.
 */
#include "columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BY_FIELD, BY_DATE, BY_HOUR };
enum { HOUR_MS = 3600000, FIRST_HOUR = -719162 * 24, LAST_HOUR = 2932897 * 24 - 1, DATE_BYTES = 10 };
static const char NULL_VALUE[] = "__HIVE_DEFAULT_PARTITION__";

void fl_columns_free(fl_columns *columns) {
  for (size_t at = 0; at < columns->count; at++) free(columns->columns[at].path.names);
  free(columns->columns);
  free(columns->event_time.names);
  yyjson_doc_free(columns->definition);
}

int fl_columns_read(fl_columns *columns, char *definition, size_t bytes) {
  size_t index, count;
  yyjson_val *one;
  columns->definition = yyjson_read_opts(definition, bytes, 0, NULL, NULL);
  yyjson_val *given = yyjson_doc_get_root(columns->definition), *list = yyjson_obj_get(given, "columns");
  columns->columns = calloc(yyjson_arr_size(list) + 1, sizeof *columns->columns);
  if (!yyjson_is_arr(list) || columns->columns == NULL) return 0;
  yyjson_arr_foreach(list, index, count, one) {
    fl_column *column = &columns->columns[columns->count++];
    column->kind = yyjson_equals_str(one, "date") ? BY_DATE : yyjson_equals_str(one, "hour") ? BY_HOUR : BY_FIELD;
    columns->needs_time |= column->kind != BY_FIELD;
    if (!fl_read_path(one, &column->path)) return 0;
  }
  return fl_read_path(yyjson_obj_get(given, "event_time"), &columns->event_time);
}

/* Find the value at a path; NULL: it is missing. Return 0 if that is not certain. */
static int find_value(const fl_document *document, const fl_path *path, yyjson_val **found) {
  size_t index, count;
  yyjson_val *name, *item, *here = document->root;
  for (size_t depth = 0; depth < path->count && here != NULL; depth++) {
    yyjson_val *inner = NULL;
    yyjson_obj_foreach(here, index, count, name, item) {
      if (!yyjson_equals(name, path->names[depth])) continue;
      if (!fl_is_plain_name(document, name)) return 0;
      inner = item;
      break;
    }
    here = inner;
  }
  *found = here;
  return 1;
}

/* The value as an integer. Return 0 if it is none of 64 bits, or -0. */
static int is_integer(yyjson_val *value, int64_t *number) {
  *number = yyjson_get_sint(value);
  if (yyjson_is_uint(value)) return yyjson_get_uint(value) <= INT64_MAX;
  return yyjson_is_sint(value) && *number != 0;
}

/* Read so many digits. Return a negative number if they are none. */
static int digits(const char *at, int count) {
  int number = 0;
  for (int place = 0; place < count; place++) {
    if (at[place] < '0' || at[place] > '9') return -1;
    number = 10 * number + (at[place] - '0');
  }
  return number;
}

/* Days since 1970 of a date of the proleptic Gregorian calendar (Howard Hinnant, chrono-compatible algorithms). */
static int64_t days_of(int year, int month, int day) {
  year -= month <= 2;
  int era = year / 400, of_era = year - era * 400;
  int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void write_date(int64_t days, char date[DATE_BYTES]) {
  int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  int of_era = (int)(shifted - era * 146097);
  int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  int of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
  int day = of_year - (153 * month + 2) / 5 + 1;
  month += month < 10 ? 3 : -9;
  year += (int)era * 400 + (month <= 2);
  for (int place = 3; place >= 0; place--, year /= 10) date[place] = (char)('0' + year % 10);
  memcpy(date + 4, (char[]){'-', (char)('0' + month / 10), (char)('0' + month % 10), '-', (char)('0' + day / 10), (char)('0' + day % 10)}, 6);
}

/* The hour since 1970 of a time such as 2026-01-31T12:34:56.789Z. Return 0 for other forms: Python has more. */
static int hour_of_text(const char *text, size_t bytes, int64_t *hour) {
  static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (bytes < 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') return 0;
  int year = digits(text, 4), month = digits(text + 5, 2), day = digits(text + 8, 2);
  int hours = digits(text + 11, 2), minutes = digits(text + 14, 2), seconds = digits(text + 17, 2);
  if (year < 1 || month < 1 || month > 12 || day < 1 || hours < 0 || hours > 23) return 0;
  int is_leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (day > DAYS[month - 1] + is_leap || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59) return 0;
  const char *at = text + 19, *end = text + bytes;
  if (at < end && *at == '.') {
    const char *fraction = ++at;
    while (at < end && *at >= '0' && *at <= '9') at++;
    if (at == fraction || at - fraction > 6) return 0;
  }
  int64_t behind = 0;
  if (end - at == 6 && (*at == '+' || *at == '-') && at[3] == ':') {
    int of_hours = digits(at + 1, 2), of_minutes = digits(at + 4, 2);
    if (of_hours < 0 || of_hours > 23 || of_minutes < 0 || of_minutes > 59) return 0;
    behind = (*at == '-' ? -1 : 1) * (60 * of_hours + of_minutes);
  } else if (at != end && !(end - at == 1 && *at == 'Z')) {
    return 0;
  }
  int64_t in_minutes = (days_of(year, month, day) * 24 + hours) * 60 + minutes - behind;
  *hour = in_minutes / 60 - (in_minutes % 60 < 0);
  return 1;
}

/* The hour of the event time. Return 0 if the record has none, or it is not certain. */
static int event_hour(const fl_columns *columns, const fl_document *document, const int64_t *timestamp_ms, int64_t *hour) {
  yyjson_val *value = NULL;
  int64_t at_ms;
  if (columns->event_time.count == 0) {
    if (timestamp_ms == NULL) return 0;
    at_ms = *timestamp_ms;
  } else {
    if (!find_value(document, &columns->event_time, &value)) return 0;
    if (yyjson_is_str(value)) {
      return hour_of_text(yyjson_get_str(value), yyjson_get_len(value), hour) && *hour >= FIRST_HOUR && *hour <= LAST_HOUR;
    }
    if (!is_integer(value, &at_ms)) return 0;
  }
  *hour = at_ms / HOUR_MS - (at_ms % HOUR_MS < 0);
  return *hour >= FIRST_HOUR && *hour <= LAST_HOUR;
}

static void put_text(fl_text *key, const char *text, size_t bytes) {
  uint32_t length = (uint32_t)bytes;
  fl_text_put(key, (const char *)&length, sizeof length);
  fl_text_put(key, text, bytes);
}

/* Write the text of a field. Return 0 if it is not certain: a number with a fraction, or a text like that of null. */
static int put_field(fl_text *key, const fl_document *document, const fl_path *path) {
  yyjson_val *value;
  int64_t number;
  char text[24];
  size_t mark = sizeof NULL_VALUE - 1;
  if (!find_value(document, path, &value)) return 0;
  if (value == NULL || yyjson_is_null(value)) {
    put_text(key, NULL_VALUE, mark);
  } else if (yyjson_is_bool(value)) {
    put_text(key, yyjson_get_bool(value) ? "true" : "false", yyjson_get_bool(value) ? 4 : 5);
  } else if (yyjson_is_str(value)) {
    const char *bytes = yyjson_get_str(value);
    size_t count = yyjson_get_len(value);
    if (count >= mark && memcmp(bytes + count - mark, NULL_VALUE, mark) == 0) return 0;
    put_text(key, bytes, count);
  } else {
    if (!is_integer(value, &number)) return 0;
    put_text(key, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
  }
  return 1;
}

int fl_columns_key(const fl_columns *columns, const fl_document *document, const int64_t *timestamp_ms, fl_text *key) {
  int64_t hour = 0;
  char text[DATE_BYTES];
  key->used = 0;
  if (columns->needs_time && !event_hour(columns, document, timestamp_ms, &hour)) return 0;
  int64_t day = hour / 24 - (hour % 24 < 0);
  for (const fl_column *column = columns->columns; column < columns->columns + columns->count; column++) {
    if (column->kind == BY_FIELD) {
      if (!put_field(key, document, &column->path)) return 0;
    } else if (column->kind == BY_DATE) {
      write_date(day, text);
      put_text(key, text, DATE_BYTES);
    } else {
      int of_day = (int)(hour - 24 * day);
      put_text(key, (char[]){(char)('0' + of_day / 10), (char)('0' + of_day % 10)}, 2);
    }
  }
  return !key->failed;
}
