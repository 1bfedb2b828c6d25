/*
 * Declarative steps (app/core/transforms/steps.py) over one record.
 *
 * What is not certain to be Python's result to the byte is UNSURE: an error of a step, a comparison of objects or lists,
 * a step that only Python has. So nothing here makes an error message.
 */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

enum { UNKNOWN = -1 };
enum { FILTER, ROUTE, PROJECT, RENAME, SET, PYTHON };
enum { EQ, NE, LT, LE, GT, GE, IN, EXISTS, MISSING };
static const char *const KINDS[] = {"filter", "route", "project", "rename", "set", "python", NULL};
static const char *const OPERATORS[] = {"eq", "ne", "lt", "le", "gt", "ge", "in", "exists", "missing", NULL};

static int find(const char *const *words, yyjson_val *word) {
  for (int at = 0; words[at] != NULL; at++)
    if (yyjson_equals_str(word, words[at])) return at;
  return UNKNOWN;
}

static int read_step(yyjson_val *given, fl_step *into) {
  size_t index, count;
  yyjson_val *item, *constants = yyjson_obj_get(given, "constants"), *fields = yyjson_obj_get(given, "fields");
  into->kind = find(KINDS, yyjson_obj_get(given, "kind"));
  into->operator = find(OPERATORS, yyjson_obj_get(given, "operator"));
  fl_number topic = {0};
  into->topic = fl_json_number(yyjson_obj_get(given, "topic"), &topic) ? (int)topic.integer : NO_TOPIC;
  into->value = yyjson_obj_get(given, "value");
  into->constants = calloc(yyjson_arr_size(constants) + 1, sizeof *into->constants);
  into->numbers = calloc(yyjson_arr_size(constants) + 1, sizeof *into->numbers);
  into->fields = calloc(yyjson_arr_size(fields) + 1, sizeof *into->fields);
  if (into->constants == NULL || into->numbers == NULL || into->fields == NULL) return 0;
  yyjson_arr_foreach(constants, index, count, item) {
    /* A number that is not plain is compared by Python. */
    if (yyjson_is_raw(item) && !fl_json_number(item, &into->numbers[into->constant_count])) into->kind = PYTHON;
    into->constants[into->constant_count++] = item;
  }
  yyjson_arr_foreach(fields, index, count, item) {
    if (!fl_read_path(item, &into->fields[into->field_count++])) return 0;
  }
  return into->kind != UNKNOWN && fl_read_path(yyjson_obj_get(given, "from"), &into->from) &&
         fl_read_path(yyjson_obj_get(given, "to"), &into->to);
}

void fl_program_free(fl_program *program) {
  for (size_t at = 0; at < program->count; at++) {
    fl_step *one = &program->steps[at];
    for (size_t field = 0; field < one->field_count; field++) free(one->fields[field].names);
    free(one->fields);
    free(one->from.names);
    free(one->to.names);
    free(one->constants);
    free(one->numbers);
  }
  free(program->steps);
  yyjson_doc_free(program->definition);
  fl_nodes_free(&program->nodes);
}

int fl_program_read(fl_program *program, char *definition, size_t bytes) {
  size_t index, count;
  yyjson_val *given;
  program->definition = yyjson_read_opts(definition, bytes, YYJSON_READ_NUMBER_AS_RAW, NULL, NULL);
  yyjson_val *list = yyjson_doc_get_root(program->definition);
  program->steps = calloc(yyjson_arr_size(list) + 1, sizeof *program->steps);
  if (!yyjson_is_arr(list) || program->steps == NULL) return 0;
  yyjson_arr_foreach(list, index, count, given) {
    if (!read_step(given, &program->steps[program->count++])) return 0;
  }
  return 1;
}

static int text_order(yyjson_val *one, yyjson_val *other) {
  size_t left = yyjson_get_len(one), right = yyjson_get_len(other);
  int order = memcmp(yyjson_get_str(one), yyjson_get_str(other), left < right ? left : right);
  return order ? order : (left > right) - (left < right);
}

static int is_equal(const fl_node *found, yyjson_val *constant, const fl_number *number) {
  fl_number here;
  yyjson_type wanted = yyjson_get_type(constant), type = found->is_open ? YYJSON_TYPE_OBJ : yyjson_get_type(found->value);
  if (type != wanted) return NO;
  switch (type) {
    case YYJSON_TYPE_NULL:
      return YES;
    case YYJSON_TYPE_BOOL:
      return yyjson_get_bool(found->value) == yyjson_get_bool(constant);
    case YYJSON_TYPE_STR:
      return text_order(found->value, constant) == 0;
    case YYJSON_TYPE_RAW:
      return fl_json_number(found->value, &here) ? fl_number_order(&here, number) == 0 : UNSURE;
    default:
      return UNSURE;
  }
}

static int is_any(const fl_node *found, const fl_step *one) {
  for (size_t at = 0; at < one->constant_count; at++) {
    int answer = is_equal(found, one->constants[at], &one->numbers[at]);
    if (answer != NO) return answer;
  }
  return NO;
}

static int has_order(const fl_node *found, const fl_step *one) {
  int order;
  fl_number here;
  if (!found->is_open && yyjson_is_null(found->value)) return NO;
  if (found->is_open || yyjson_get_type(found->value) != yyjson_get_type(one->constants[0])) return UNSURE;
  if (yyjson_is_str(found->value))
    order = text_order(found->value, one->constants[0]);
  else if (fl_json_number(found->value, &here))
    order = fl_number_order(&here, &one->numbers[0]);
  else
    return UNSURE;
  switch (one->operator) {
    case LT:
      return order < 0;
    case LE:
      return order <= 0;
    case GT:
      return order > 0;
    default:
      return order >= 0;
  }
}

static int holds(fl_node *root, const fl_step *one) {
  fl_node found;
  int is_there = fl_find_field(root, &one->from, &found), answer;
  if (one->operator == EXISTS || one->operator == MISSING) return is_there == (one->operator == EXISTS);
  if (!is_there) return NO;
  if (one->operator >= LT && one->operator <= GE) return has_order(&found, one);
  answer = is_any(&found, one);
  return one->operator == NE && answer != UNSURE ? !answer : answer;
}

static int project(fl_nodes *nodes, fl_node *root, const fl_step *one) {
  fl_node kept = {.is_open = 1}, found;
  for (size_t at = 0; at < one->field_count; at++) {
    if (!fl_find_field(root, &one->fields[at], &found)) continue;
    fl_node *field = fl_make_field(nodes, &kept, &one->fields[at]);
    if (field == NULL) return UNSURE;
    fl_assign(field, &found);
  }
  fl_assign(root, &kept);
  return YES;
}

static int rename_field(fl_nodes *nodes, fl_node *root, const fl_step *one) {
  fl_node content;
  int is_there = fl_take_field(nodes, root, &one->from, &content);
  if (is_there != YES) return is_there == NO ? YES : UNSURE;
  fl_node *field = fl_make_field(nodes, root, &one->to);
  if (field == NULL) return UNSURE;
  fl_assign(field, &content);
  return YES;
}

static int set_field(fl_nodes *nodes, fl_node *root, const fl_step *one) {
  fl_node *field = fl_make_field(nodes, root, &one->to), content = {.value = one->value};
  if (field == NULL) return UNSURE;
  fl_assign(field, &content);
  return YES;
}

/* Run the steps. YES: the record is kept, NO: it is not, UNSURE: Python decides. */
int fl_apply(fl_program *program, fl_node *root, int32_t *topic) {
  int is_routed = 0;
  for (size_t at = 0; at < program->count; at++) {
    const fl_step *one = &program->steps[at];
    int answer = UNSURE;
    if (one->kind == FILTER) {
      answer = holds(root, one);
    } else if (one->kind == ROUTE) {
      answer = is_routed ? NO : holds(root, one);
      if (answer == YES) {
        *topic = one->topic;
        is_routed = 1;
      }
      if (answer == NO) answer = YES;
    } else if (one->kind == PROJECT) {
      answer = project(&program->nodes, root, one);
    } else if (one->kind == RENAME) {
      answer = rename_field(&program->nodes, root, one);
    } else if (one->kind == SET) {
      answer = set_field(&program->nodes, root, one);
    }
    if (answer != YES) return answer;
  }
  return YES;
}
