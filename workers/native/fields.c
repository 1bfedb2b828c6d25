/* The nodes of a record (fields.h), with the order of names that Python's dict keeps. */
#include "fields.h"

#include <stdlib.h>
#include <string.h>

struct fl_block {
  struct fl_block *next;
  size_t used;
  fl_node nodes[256];
};

int fl_read_path(yyjson_val *names, fl_path *into) {
  size_t index, count;
  yyjson_val *name;
  into->names = calloc(yyjson_arr_size(names) + 1, sizeof *into->names);
  if (into->names == NULL) return 0;
  yyjson_arr_foreach(names, index, count, name) into->names[into->count++] = name;
  return 1;
}

void fl_nodes_reset(fl_nodes *nodes) { nodes->current = NULL; }

void fl_nodes_free(fl_nodes *nodes) {
  for (fl_block *one = nodes->blocks, *next; one != NULL; one = next) {
    next = one->next;
    free(one);
  }
}

static fl_node *new_node(fl_nodes *nodes, yyjson_val *name, yyjson_val *value) {
  if (nodes->current == NULL || nodes->current->used == sizeof nodes->current->nodes / sizeof(fl_node)) {
    fl_block *next = nodes->current == NULL ? nodes->blocks : nodes->current->next;
    if (next == NULL) {
      next = malloc(sizeof *next);
      if (next == NULL) return NULL;
      next->next = NULL;
      if (nodes->current == NULL)
        nodes->blocks = next;
      else
        nodes->current->next = next;
    }
    next->used = 0;
    nodes->current = next;
  }
  fl_node *made = &nodes->current->nodes[nodes->current->used++];
  memset(made, 0, sizeof *made);
  made->name = name;
  made->value = value;
  return made;
}

static fl_node *append(fl_nodes *nodes, fl_node *object, yyjson_val *name, yyjson_val *value) {
  fl_node *made = new_node(nodes, name, value);
  if (made == NULL) return NULL;
  if (object->last == NULL)
    object->first = made;
  else
    object->last->next = made;
  object->last = made;
  return made;
}

static int is_object(const fl_node *one) { return one->is_open || yyjson_is_obj(one->value); }

/* Give an object nodes for its fields. Return 0 if there is no memory. */
static int open_object(fl_nodes *nodes, fl_node *object) {
  size_t index, count;
  yyjson_val *name, *value;
  if (object->is_open) return 1;
  object->is_open = 1;
  yyjson_obj_foreach(object->value, index, count, name, value) {
    if (append(nodes, object, name, value) == NULL) return 0;
  }
  return 1;
}

static int is_named(const fl_node *one, yyjson_val *name) {
  size_t count = yyjson_get_len(name);
  return yyjson_get_len(one->name) == count && memcmp(yyjson_get_str(one->name), yyjson_get_str(name), count) == 0;
}

static fl_node *child_of(const fl_node *object, yyjson_val *name) {
  for (fl_node *one = object->first; one != NULL; one = one->next)
    if (is_named(one, name)) return one;
  return NULL;
}

/* Find a field without a change; `into` then shows it as a fl_node. Return 0 if it is missing. */
int fl_find_field(const fl_node *root, const fl_path *at, fl_node *into) {
  const fl_node *object = root;
  size_t depth = 0;
  for (; depth < at->count && object->is_open; depth++) {
    object = child_of(object, at->names[depth]);
    if (object == NULL) return 0;
  }
  *into = *object;
  for (; depth < at->count; depth++) {
    yyjson_val *name = at->names[depth];
    into->value = yyjson_obj_getn(into->value, yyjson_get_str(name), yyjson_get_len(name));
    if (into->value == NULL) return 0;
  }
  return 1;
}

/* Find or make the field; the objects on its path are made. NULL: a part of it is no object, or no memory. */
fl_node *fl_make_field(fl_nodes *nodes, fl_node *root, const fl_path *at) {
  fl_node *object = root;
  for (size_t depth = 0; depth < at->count; depth++) {
    if (!is_object(object) || !open_object(nodes, object)) return NULL;
    fl_node *child = child_of(object, at->names[depth]);
    if (child == NULL) {
      child = append(nodes, object, at->names[depth], NULL);
      if (child == NULL) return NULL;
      child->is_open = 1;
    }
    object = child;
  }
  return object;
}

void fl_assign(fl_node *field, const fl_node *content) {
  field->value = content->value;
  field->is_open = content->is_open;
  field->first = content->first;
  field->last = content->last;
}

/* Take a field out of its object. Return 0 if it is missing, -1 if there is no memory. */
int fl_take_field(fl_nodes *nodes, fl_node *root, const fl_path *at, fl_node *into) {
  fl_node *object = root, *before = NULL;
  if (!fl_find_field(root, at, into)) return 0;
  for (size_t depth = 0; depth + 1 < at->count; depth++) {
    if (!open_object(nodes, object)) return -1;
    object = child_of(object, at->names[depth]);
  }
  if (!open_object(nodes, object)) return -1;
  for (fl_node *one = object->first; one != NULL; before = one, one = one->next) {
    if (!is_named(one, at->names[at->count - 1])) continue;
    *into = *one;
    if (before == NULL)
      object->first = one->next;
    else
      before->next = one->next;
    if (object->last == one) object->last = before;
    return 1;
  }
  return 0;
}

void fl_write_node(fl_text *text, const fl_node *one) {
  if (!one->is_open) {
    fl_json_write(text, one->value);
    return;
  }
  fl_text_put(text, "{", 1);
  for (const fl_node *field = one->first; field != NULL; field = field->next) {
    fl_json_write(text, field->name);
    fl_text_put(text, ":", 1);
    fl_write_node(text, field);
    if (field->next != NULL) fl_text_put(text, ",", 1);
  }
  fl_text_put(text, "}", 1);
}
