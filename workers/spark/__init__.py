"""An instance as a Spark application: the only room that imports pyspark."""
