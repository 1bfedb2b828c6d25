/*
 * JSON values as msgspec reads and writes them (0.21).
 *
 * The steps convert nothing. A value is written from its own text, so that only *plain* ones are handled here, whose text
 * msgspec would write unchanged: integers of at most 18 digits, numbers with at most 15 digits in msgspec's own form
 * (such decimals are the shortest ones of their double), objects without a repeated name, and little nesting. The rest
 * is left to msgspec itself. tests/workers/native/test_steps.py compares both.
 */
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_VALUE = 1 << 20 };
enum { MOST_DEPTH = 64, MOST_INTEGER_DIGITS = 18, MOST_DIGITS = 15, MOST_LEADING_ZEROS = 3, FEW_NAMES = 12, NAMES = 512 };

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

int fl_text_reserve(fl_text *text, size_t more) {
  if (text->room - text->used >= more) return 1;
  size_t room = text->room ? text->room : 4096;
  while (room - text->used < more) room *= 2;
  char *larger = realloc(text->bytes, room);
  if (larger == NULL) {
    text->failed = 1;
    return 0;
  }
  text->bytes = larger;
  text->room = room;
  return 1;
}

void fl_text_put(fl_text *text, const char *bytes, size_t count) {
  if (!fl_text_reserve(text, count)) return;
  memcpy(text->bytes + text->used, bytes, count);
  text->used += count;
}

yyjson_doc *fl_json_read(fl_pool *pool, const void *bytes, size_t count, yyjson_read_flag flags) {
  yyjson_alc allocator;
  if (count == 0 || count > LARGEST_VALUE) return NULL;
  size_t wanted = yyjson_read_max_memory_usage(count, flags);
  if (wanted > pool->room) {
    char *larger = realloc(pool->bytes, 2 * wanted);
    if (larger == NULL) return NULL;
    pool->bytes = larger;
    pool->room = 2 * wanted;
  }
  if (!yyjson_alc_pool_init(&allocator, pool->bytes, pool->room)) return NULL;
  /* The flag for reading in place is not set, so that the bytes are not changed. */
  return yyjson_read_opts((char *)bytes, count, flags, &allocator, NULL);
}

/* Read the digits of a plain number. Its grammar is JSON's: yyjson has checked it. */
int fl_json_number(yyjson_val *value, fl_number *number) {
  if (!yyjson_is_raw(value)) return 0;
  const char *at = yyjson_get_raw(value), *end = at + yyjson_get_len(value);
  int is_negative = *at == '-';
  at += is_negative;
  const char *first = at;
  int64_t digits = 0;
  while (at < end && *at >= '0' && *at <= '9' && at - first < MOST_INTEGER_DIGITS) digits = 10 * digits + (*at++ - '0');
  ptrdiff_t whole = at - first;
  if (at == end) {
    if (is_negative && digits == 0) return 0;
    number->is_integer = 1;
    number->integer = is_negative ? -digits : digits;
    return 1;
  }
  if (*at++ != '.' || whole > MOST_DIGITS) return 0;
  const char *fraction = at;
  int zeros = 0;
  while (at < end && *at == '0') at++, zeros++;
  ptrdiff_t significant = digits == 0 ? 0 : whole;
  if (digits != 0) at = fraction;
  while (at < end && *at >= '0' && *at <= '9' && significant <= MOST_DIGITS) {
    digits = 10 * digits + (*at++ - '0');
    significant++;
  }
  ptrdiff_t decimals = at - fraction;
  if (at != end || decimals == 0 || decimals > 19 || significant > MOST_DIGITS) return 0;
  int is_whole = decimals == 1 && *fraction == '0';
  if (!is_whole && end[-1] == '0') return 0;
  if (!is_whole && whole == 1 && *first == '0' && zeros > MOST_LEADING_ZEROS) return 0;
  number->is_integer = 0;
  number->real = (double)digits / POWERS[decimals];
  if (is_negative) number->real = -number->real;
  return 1;
}

int fl_number_order(const fl_number *one, const fl_number *other) {
  if (one->is_integer && other->is_integer)
    return (one->integer > other->integer) - (one->integer < other->integer);
  if (!one->is_integer && !other->is_integer) return (one->real > other->real) - (one->real < other->real);
  if (!one->is_integer) return -fl_number_order(other, one);
  double real = other->real;
  if (real >= 9.2e18) return -1;
  if (real <= -9.2e18) return 1;
  int64_t whole = (int64_t)real;
  if (one->integer != whole) return one->integer > whole ? 1 : -1;
  double rest = real - (double)whole;
  return (rest < 0) - (rest > 0);
}

static int is_same(yyjson_val *one, yyjson_val *other) {
  size_t count = yyjson_get_len(one);
  return count == yyjson_get_len(other) && memcmp(yyjson_get_str(one), yyjson_get_str(other), count) == 0;
}

static uint32_t hash_of(yyjson_val *name) {
  uint32_t hash = 2166136261u;
  const char *bytes = yyjson_get_str(name);
  for (size_t at = 0, count = yyjson_get_len(name); at < count; at++) hash = (hash ^ (uint8_t)bytes[at]) * 16777619u;
  return hash;
}

int fl_has_distinct_names(yyjson_val *object) {
  size_t index, count, at = 0;
  yyjson_val *name, *value, *names[FEW_NAMES], *table[NAMES];
  if (yyjson_obj_size(object) <= FEW_NAMES) {
    yyjson_obj_foreach(object, index, count, name, value) {
      for (size_t before = 0; before < at; before++)
        if (is_same(names[before], name)) return 0;
      names[at++] = name;
    }
    return 1;
  }
  if (yyjson_obj_size(object) > NAMES / 2) return 0;
  memset(table, 0, sizeof table);
  yyjson_obj_foreach(object, index, count, name, value) {
    for (at = hash_of(name) % NAMES; table[at] != NULL; at = (at + 1) % NAMES)
      if (is_same(table[at], name)) return 0;
    table[at] = name;
  }
  return 1;
}

static int is_plain(yyjson_val *value, int depth) {
  size_t index, count;
  yyjson_val *name, *item;
  fl_number number;
  switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_RAW:
      return fl_json_number(value, &number);
    case YYJSON_TYPE_ARR:
      if (depth == MOST_DEPTH) return 0;
      yyjson_arr_foreach(value, index, count, item) {
        if (!is_plain(item, depth + 1)) return 0;
      }
      return 1;
    case YYJSON_TYPE_OBJ:
      if (depth == MOST_DEPTH || !fl_has_distinct_names(value)) return 0;
      yyjson_obj_foreach(value, index, count, name, item) {
        if (!is_plain(item, depth + 1)) return 0;
      }
      return 1;
    default:
      return 1;
  }
}

int fl_json_is_plain(yyjson_val *value) { return is_plain(value, 0); }

void fl_json_write_string(fl_text *text, const char *bytes, size_t count) {
  static const char SHORT[] = "btn\0fr", HEX[] = "0123456789abcdef";
  if (!fl_text_reserve(text, 6 * count + 2)) return;
  char *to = text->bytes + text->used;
  *to++ = '"';
  for (size_t at = 0; at < count; at++) {
    unsigned char byte = (unsigned char)bytes[at];
    if (byte == '"' || byte == '\\') {
      *to++ = '\\';
      *to++ = (char)byte;
    } else if (byte >= 0x20) {
      *to++ = (char)byte;
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
      *to++ = '\\';
      *to++ = SHORT[byte - 8];
    } else {
      memcpy(to, "\\u00", 4);
      to[4] = HEX[byte >> 4];
      to[5] = HEX[byte & 15];
      to += 6;
    }
  }
  *to++ = '"';
  text->used = (size_t)(to - text->bytes);
}

static void write_string(fl_text *text, yyjson_val *value) {
  const char *bytes = yyjson_get_str(value);
  size_t count = yyjson_get_len(value);
  if (unsafe_yyjson_get_subtype(value) != YYJSON_SUBTYPE_NOESC) {
    fl_json_write_string(text, bytes, count);
    return;
  }
  if (!fl_text_reserve(text, count + 2)) return;
  char *to = text->bytes + text->used;
  to[0] = '"';
  memcpy(to + 1, bytes, count);
  to[count + 1] = '"';
  text->used += count + 2;
}

void fl_json_write(fl_text *text, yyjson_val *value) {
  size_t index, count;
  yyjson_val *name, *item;
  switch (yyjson_get_type(value)) {
    case YYJSON_TYPE_NULL:
      fl_text_put(text, "null", 4);
      break;
    case YYJSON_TYPE_BOOL:
      fl_text_put(text, yyjson_get_bool(value) ? "true" : "false", yyjson_get_bool(value) ? 4 : 5);
      break;
    case YYJSON_TYPE_RAW:
      fl_text_put(text, yyjson_get_raw(value), yyjson_get_len(value));
      break;
    case YYJSON_TYPE_STR:
      write_string(text, value);
      break;
    case YYJSON_TYPE_ARR:
      fl_text_put(text, "[", 1);
      yyjson_arr_foreach(value, index, count, item) {
        if (index) fl_text_put(text, ",", 1);
        fl_json_write(text, item);
      }
      fl_text_put(text, "]", 1);
      break;
    default:
      fl_text_put(text, "{", 1);
      yyjson_obj_foreach(value, index, count, name, item) {
        if (index) fl_text_put(text, ",", 1);
        write_string(text, name);
        fl_text_put(text, ":", 1);
        fl_json_write(text, item);
      }
      fl_text_put(text, "}", 1);
  }
}
