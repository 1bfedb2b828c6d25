"""An instance as a Spark application: the only package that imports pyspark."""
