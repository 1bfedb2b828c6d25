/* A record while steps change it: objects that are looked into or changed become nodes, all else stays as it was read. */
#ifndef FENCELINE_FIELDS_H
#define FENCELINE_FIELDS_H

#include "json.h"

/* The names along the path to a field. */
typedef struct {
  yyjson_val **names;
  size_t count;
} fl_path;

/* A field. `is_open`: its fields are in `first`, else it is `value` unchanged. */
typedef struct fl_node {
  yyjson_val *name, *value;
  struct fl_node *first, *last, *next;
  int is_open;
} fl_node;

/* The nodes of one record. */
typedef struct fl_block fl_block;
typedef struct {
  fl_block *blocks, *current;
} fl_nodes;

/* Read the names of a path. Return 0 if there is no memory. */
int fl_read_path(yyjson_val *names, fl_path *into);
void fl_nodes_reset(fl_nodes *nodes);
void fl_nodes_free(fl_nodes *nodes);
/* Find a field without a change; `into` then shows it. Return 0 if it is missing. */
int fl_find_field(const fl_node *root, const fl_path *at, fl_node *into);
/* Find or make a field, and the objects on its path. NULL: a part of it is no object, or there is no memory. */
fl_node *fl_make_field(fl_nodes *nodes, fl_node *root, const fl_path *at);
/* Take a field out of its object. Return 1, 0 if it is missing, -1 if there is no memory. */
int fl_take_field(fl_nodes *nodes, fl_node *root, const fl_path *at, fl_node *into);
void fl_assign(fl_node *field, const fl_node *content);
void fl_write_node(fl_text *text, const fl_node *one);

#endif
