"""The package for executors: workers and their imports, the same bytes each time, and enough to run."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.edges.spark import package
from tests.conftest import MakeTopic
from tests.support.topics import unique_name

LOOP_IN_AN_EMPTY_ENVIRONMENT = """\
import importlib, os, pkgutil, sys, threading
from confluent_kafka import Consumer, Producer

import app, workers
for root in (app, workers):
    for module in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        if not module.name.startswith("workers.spark"):
            importlib.import_module(module.name)
assert "pyspark" not in sys.modules

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire.heartbeat import DesiredTaskState
from workers import versions
from workers.loop.control import TaskSpecification
from workers.loop.task import run_task
from workers.transforms.build import build

bootstrap, source, sink, name = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap})
for number in range(20):
    producer.produce(source, value=str(number))
assert producer.flush(30) == 0


class UntilAllAreThrough:
    def __init__(self):
        self.committed = 0
        self.source = None
    def desired(self):
        return DesiredTaskState.DRAIN if self.committed >= 20 else DesiredTaskState.RUN
    def publish(self, snapshot):
        self.source = snapshot.record_source or self.source
        if snapshot.counters.transactions_committed:
            self.committed = snapshot.counters.records_in
    def event(self, kind, message, *, partitions=(), generation=None, error=None, producer=None):
        print(kind, message, file=sys.stderr)
    def tell_offsets(self, recorder):
        pass

    def ask_is_current(self, *, timeout_s):
        return None

    def ask_recorded(self, *, timeout_s):
        return None


definition = PipelineDefinition(cluster="c", source_topics=(source,), group_id=name, sink_topic=sink)
control = UntilAllAreThrough()
result = run_task(
    TaskSpecification(
        pipeline="p", run_id="r", ordinal=0, lease=1, task=0, attempt=0, definition=definition,
        client_config={"bootstrap.servers": bootstrap}, transactional_id=name,
        native_records=os.environ["SOURCE"] == "native",
    ),
    control,
    transform=build(definition.transform, source=None, sink_topic=sink),
)
reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "r-" + name, "auto.offset.reset": "earliest",
                   "isolation.level": "read_committed"})
reader.subscribe([sink])
values = []
while len(values) < 20:
    message = reader.poll(20)
    assert message is not None, f"only {len(values)} records came out"
    values.append(int(message.value()))
reader.close()
assert values == list(range(20)), values
print(result.end, versions.of_this_process().fenceline, control.source.partition(":")[0])
"""


def test_it_holds_workers_whole_and_of_app_only_what_they_import(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(package.build(version="1", into=tmp_path).archive).namelist())
    assert {name.split("/")[0] for name in names} == {"app", "fenceline_spark", "workers"}
    root = package.source_root()
    whole = {path.relative_to(root).as_posix() for path in (root / "workers").rglob("*.py")}
    apart = {name for name in whole if name.startswith("workers/dataframes/")}
    assert apart
    library = {name.removeprefix("workers/dataframes/") for name in apart} - {"fenceline_spark/__main__.py"}
    assert {name for name in names if name.startswith("fenceline_spark/")} == library
    native = {path.relative_to(root).as_posix() for path in (root / "workers/native/built").iterdir()}
    assert "workers/native/built/linux-x86_64.so" in native
    assert {name for name in names if name.startswith("workers/")} == {
        *whole - apart,
        *native,
        "workers/package.json",
    }
    assert {"app/__init__.py", "app/core/wire/heartbeat.py", "app/core/pipelines/pipeline.py"} <= names
    assert not names & {"app/edges/db/database.py", "app/edges/spark/package.py", "app/products/conformance/report.py"}


def test_an_init_file_of_app_in_it_has_no_code() -> None:
    """Executors load every `__init__.py` above a module, with all that it imports."""
    root = package.source_root()
    inits = [name for name in package.source_names(root) if re.fullmatch("app/.*__init__.py", name)]
    with_code = [name for name in inits if ast.parse(_without_docstring((root / name).read_text("utf-8"))).body]
    assert inits
    assert with_code == []


def test_an_executor_imports_only_libraries_of_the_workers_lock() -> None:
    """Imports inside functions may need more: the driver's and the server's own use them."""
    root = package.source_root()
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (root / "requirements/worker.lock").read_text(), re.MULTILINE))
    distributions = packages_distributions()
    known = {"app", "workers", *sys.stdlib_module_names, "compression"}
    missing = {
        (name, module)
        for name in package.source_names(root)
        if not name.startswith("workers/spark/")
        for module in _imported_at_once((root / name).read_text("utf-8"))
        if module not in known
        and not locked & {re.sub("[-_.]+", "-", one).lower() for one in distributions.get(module, ())}
    }
    assert missing == set()


def _imported_at_once(source: str) -> set[str]:
    """Return the top-level packages that a module imports when it is imported itself."""
    found: set[str] = set()
    waiting: list[ast.stmt] = list(ast.parse(source).body)
    while waiting:
        match waiting.pop():
            case ast.Import(names=names):
                found |= {one.name.split(".")[0] for one in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.split(".")[0])
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=other):
                waiting += other
            case ast.If(body=body, orelse=other):
                waiting += [*body, *other]
            case ast.Try(body=body, orelse=other, finalbody=last, handlers=handlers):
                waiting += [*body, *other, *last, *(one for handler in handlers for one in handler.body)]
            case _:
                pass
    return found


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[:1]
    if first and isinstance(first[0], ast.Expr) and isinstance(first[0].value, ast.Constant):
        return "\n".join(source.splitlines()[first[0].end_lineno :])
    return source


@pytest.mark.parametrize(
    "line",
    [
        "import app.edge.module",
        "import app.edge.module as other",
        "from app.edge.module import name",
        "from app.edge import module",
        "def later() -> None:\n    from app.edge.module import name",
    ],
)
def test_an_import_of_a_worker_is_followed(tmp_path: Path, line: str) -> None:
    root = _sources(tmp_path, {"workers/task.py": line, "app/edge/module.py": "import app.next"})
    assert set(package.source_names(root)) == {
        *("workers/__init__.py", "workers/task.py"),
        *("app/__init__.py", "app/edge/__init__.py", "app/edge/module.py", "app/next.py"),
    }


@pytest.mark.parametrize("line", ["from . import other", "from .other import name"])
def test_a_relative_import_is_refused(tmp_path: Path, line: str) -> None:
    root = _sources(tmp_path, {"workers/task.py": line})
    with pytest.raises(ValueError, match=r"workers/task\.py, line 1: relative import"):
        package.source_names(root)


def _sources(folder: Path, files: dict[str, str]) -> Path:
    """Write the sources of a small code base and return its root."""
    always = ("workers/__init__.py", "app/__init__.py", "app/edge/__init__.py", "app/next.py", "app/other.py")
    for name, content in {**dict.fromkeys(always, ""), **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, "utf-8")
    return folder


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    one = package.build(version="1", into=tmp_path / "a")
    other = package.build(version="1", into=tmp_path / "b")
    assert one.archive.read_bytes() == other.archive.read_bytes()


def test_a_changed_source_or_version_is_another_package(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in package.source_names(package.source_root()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package.source_root() / name, root / name)
    before = package.build(version="1", into=tmp_path, root=root)
    assert package.build(version="2", into=tmp_path, root=root).digest != before.digest
    (root / "workers/reporting.py").write_text("# changed\n")
    assert package.build(version="1", into=tmp_path, root=root).digest != before.digest


def test_a_package_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    first = package.build(version="1", into=tmp_path)
    written = first.archive.stat().st_mtime_ns
    assert package.build(version="1", into=tmp_path).archive.stat().st_mtime_ns == written


@pytest.mark.slow
@pytest.mark.parametrize("source", ["native", "python"])
def test_the_loop_runs_from_the_package_with_the_workers_lock_alone(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path, source: str
) -> None:
    uv = shutil.which("uv") or str(package.source_root() / "build/uv/bin/uv")
    python = tmp_path / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv")], check=True)
    subprocess.run(
        [uv, "pip", "sync", "--quiet", "--python", str(python), "--require-hashes", "requirements/worker.lock"],
        check=True,
        cwd=package.source_root(),
    )
    archive = package.build(version="7.8.9", into=tmp_path).archive
    ended = subprocess.run(
        [
            *(str(python), "-c", LOOP_IN_AN_EMPTY_ENVIRONMENT),
            *(kafka.bootstrap_servers, make_topic(), make_topic(), unique_name("package")),
        ],
        env={"PYTHONPATH": str(archive), "SOURCE": source},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["drained", "7.8.9", source]
