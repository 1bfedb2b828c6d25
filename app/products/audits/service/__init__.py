"""Audits: asked for, planned, carried out by a Spark application, kept with what they found."""
