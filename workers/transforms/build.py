"""From a definition's transform to one that runs."""

from __future__ import annotations

from app.core.pipelines.pipeline import DataframeQuery, Identity, PythonFunction, PythonScope, Steps, Transform
from workers import transforms
from workers.transforms import TransformError
from workers.transforms.arrow_function import ArrowTransform
from workers.transforms.identity import IdentityTransform
from workers.transforms.python_function import PythonTransform
from workers.transforms.steps import StepsTransform


def build(transform: Transform, *, source: str | None, sink_topic: str) -> transforms.Transform:
    """The transform, ready for its first batch.

    Args:
        source: the text of the uploaded file, for a Python function only.
        sink_topic: for outputs for which the transform names no topic.

    Raises TransformError when it cannot run: steps that do not compile, or a file that is missing, changed or not
    importable.
    """
    match transform:
        case Identity():
            return IdentityTransform()
        case Steps():
            return StepsTransform(transform.steps, sink_topic=sink_topic)
        case PythonFunction():
            if source is None:
                raise TransformError(
                    f"the text of {transform.file_name} did not come with the run; start the run again"
                )
            is_arrow = transform.scope is PythonScope.ARROW
            return (ArrowTransform if is_arrow else PythonTransform)(transform, source=source)
        case DataframeQuery():
            raise TransformError("a transform of kind dataframe is a query of the driver, not of a task")
