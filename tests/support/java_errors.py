"""Errors of Spark's JVM as Py4J raises them, without a JVM."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError

SHUT_DOWN = """\
An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: java.lang.IllegalStateException: SparkContext has been shutdown
\tat org.apache.spark.SparkContext.runJob(SparkContext.scala:2487)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


class JavaError(Py4JJavaError):
    """As Py4J raises it, without the JVM that it asks for its text."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)

    def __str__(self) -> str:
        return str(self.args[0])
