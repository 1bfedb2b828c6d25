/* Steps, read once for each revision (steps.c), and what they made of a batch (stepped.c). */
#ifndef FENCELINE_STEPS_H
#define FENCELINE_STEPS_H

#include "fields.h"
#include "kafka.h"

enum { NO_TOPIC = -1 };
/* Is a record kept, or does a comparison hold? UNSURE: Python decides. */
enum { NO, YES, UNSURE = -1 };

/* from, to, fields: the paths that it needs. numbers: those of its constants that are numbers. */
typedef struct {
  int kind, operator, topic;
  fl_path from, to, *fields;
  size_t field_count, constant_count;
  yyjson_val *value, **constants;
  fl_number *numbers;
} fl_step;

typedef struct {
  fl_step *steps;
  size_t count;
  yyjson_doc *definition;
  fl_nodes nodes;
} fl_program;

/* Read the definition that workers/native/steps.py writes. Return 0 if it is not one, or there is no memory. */
int fl_program_read(fl_program *program, char *definition, size_t bytes);
void fl_program_free(fl_program *program);
/* Run the steps. A route sets `topic`. */
int fl_apply(fl_program *program, fl_node *root, int32_t *topic);

typedef struct fl_steps fl_steps;
/*
 * The record of a slot, and the value that it has for the sink. Return NO: the slot has no output, UNSURE: there is no
 * such slot, or its output is no value for a file.
 */
int fl_steps_output(const fl_steps *steps, int64_t number, int64_t *record, fl_value *value);

#endif
