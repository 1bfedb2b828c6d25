"""`python -m fenceline_spark`: the options of `spark-submit` that the sink needs."""

from fenceline_spark.classpath import jars, packages

print(f"--jars {','.join(jars())} --packages {packages()}")  # noqa: T201 - a command's output
