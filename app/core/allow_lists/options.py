"""The client overrides, Spark conf keys and Spark masters that a pipeline may name.

Allow lists, never deny lists: an option is accepted because it is listed, in `client_options` and `spark_options` or by
the administrator's settings. Options that the loop itself depends on stay locked with any settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

import msgspec

from app.core.allow_lists import client_options, spark_master, spark_options
from app.core.allow_lists.option_values import Text, ValueRule, unsafe
from app.core.allow_lists.spark_master import MasterHost
from app.kit.errors import Problem


class AllowedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The additions of the administrator's settings to the built-in lists.

    spark_masters: masters as they are written, or patterns with `*` such as `spark://spark-*.example.org:7077`.
    file_roots: patterns of the roots that files may be written under; none: any. Executors have their own permissions,
        so the administrator may narrow this.
    baseline_roots: patterns of the folders whose files a comparison may read; none: no files.
    jdbc_urls: the URLs of databases that a comparison may read; none: no database.
    jdbc_drivers: classes of JDBC drivers besides the known ones.
    python_transforms: whether authors may upload Python code at all.
    unisolated_validation: whether such a file is also validated if it cannot be isolated from the server.
    secret_paths: folders and files of the server that a file under validation must not see.
    java_home: the Java of drivers, which makes plans of queries; None: found by `JAVA_HOME` and PATH.
    """

    consumer: frozenset[str] = frozenset()
    producer: frozenset[str] = frozenset()
    spark_conf: frozenset[str] = frozenset()
    spark_masters: frozenset[str] = frozenset()
    file_roots: frozenset[str] = frozenset()
    baseline_roots: frozenset[str] = frozenset()
    jdbc_urls: frozenset[str] = frozenset()
    jdbc_drivers: frozenset[str] = frozenset()
    python_transforms: bool = False
    unisolated_validation: bool = False
    secret_paths: frozenset[str] = frozenset()
    java_home: str | None = None


class _OptionList(msgspec.Struct, frozen=True, kw_only=True):
    """One allow list: `noun` names an entry in sentences, `setting` is the administrator's addition to it."""

    field: str
    noun: str
    setting: str
    rules: Mapping[str, ValueRule]
    locked: Mapping[str, str]
    locked_prefixes: tuple[tuple[str, str], ...] = ()
    locked_suffixes: tuple[tuple[str, str], ...] = ()
    aliases: Mapping[str, str] = {}


_CONSUMER = _OptionList(
    field="consumer_overrides",
    noun="consumer option",
    setting="FENCELINE_ALLOWED_CONSUMER_OPTIONS",
    rules=client_options.CONSUMER,
    locked=client_options.LOCKED_CONSUMER,
    locked_prefixes=client_options.LOCKED_PREFIXES,
    locked_suffixes=client_options.LOCKED_SUFFIXES,
    aliases=client_options.ALIASES,
)
_PRODUCER = _OptionList(
    field="producer_overrides",
    noun="producer option",
    setting="FENCELINE_ALLOWED_PRODUCER_OPTIONS",
    rules=client_options.PRODUCER,
    locked=client_options.LOCKED_PRODUCER,
    locked_prefixes=client_options.LOCKED_PREFIXES,
    locked_suffixes=client_options.LOCKED_SUFFIXES,
    aliases=client_options.ALIASES,
)
_SPARK = _OptionList(
    field="spark.conf",
    noun="Spark conf key",
    setting="FENCELINE_ALLOWED_SPARK_CONF",
    rules=spark_options.CONF,
    locked=spark_options.LOCKED,
    locked_prefixes=spark_options.LOCKED_PREFIXES,
)


def check_consumer_overrides(overrides: Mapping[str, str], *, also_allowed: Collection[str] = ()) -> list[Problem]:
    """Return one problem for each override that the consumer's allow list and `also_allowed` do not accept."""
    return _check(overrides, _CONSUMER, also_allowed)


def check_producer_overrides(overrides: Mapping[str, str], *, also_allowed: Collection[str] = ()) -> list[Problem]:
    """Return one problem for each override that the producer's allow list and `also_allowed` do not accept."""
    return _check(overrides, _PRODUCER, also_allowed)


def check_spark_conf(conf: Mapping[str, str], *, also_allowed: Collection[str] = ()) -> list[Problem]:
    """Return one problem for each key that the Spark allow list and `also_allowed` do not accept."""
    return _check(conf, _SPARK, also_allowed)


def check_spark_master(master: str, *, also_allowed: Collection[str] = ()) -> list[Problem]:
    """Return a problem if the master has an unsupported form, or is beyond this machine and not in `also_allowed`."""
    try:
        parsed = spark_master.parse(master)
    except spark_master.SparkMasterError as error:
        return [Problem(field="spark.master", message=str(error))]
    if master in also_allowed or all(_is_allowed(host, also_allowed) for host in parsed.hosts):
        return []
    return [
        Problem(
            field="spark.master",
            message=f"The Spark master `{master}` is not on the list; an administrator allows it "
            "by adding it to FENCELINE_ALLOWED_SPARK_MASTERS",
        )
    ]


def _is_allowed(host: MasterHost, patterns: Collection[str]) -> bool:
    """Match one address at a time: a pattern's `*` must not reach across the comma between two masters."""
    return host.is_loopback or any(fnmatchcase(f"spark://{host.name}:{host.port}", pattern) for pattern in patterns)


def canonical(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides of a Kafka client with librdkafka's other names replaced by those of `client_options`."""
    return {client_options.ALIASES.get(name, name): value for name, value in overrides.items()}


def _check(given: Mapping[str, str], listed: _OptionList, also_allowed: Collection[str]) -> list[Problem]:
    problems: list[Problem] = []
    for name, value in given.items():
        message = _problem(name, value, given, listed, also_allowed)
        if message is not None:
            problems.append(Problem(field=f"{listed.field}.{name}", message=message))
    return problems


def _problem(
    name: str, value: str, given: Mapping[str, str], listed: _OptionList, also_allowed: Collection[str]
) -> str | None:
    if reason := _locked(name, listed):
        return f"The {listed.noun} `{name}` cannot be set: {reason}"
    official = listed.aliases.get(name, name)
    rule = listed.rules.get(official)
    if rule is None:
        if name not in also_allowed:
            return _not_listed(name, listed)
        rule = Text()
    if official != name and official in given:
        return f"`{name}` is another name of `{official}`, which is set too; keep one of them"
    wrong = unsafe(value) or rule.problem(value)
    return None if wrong is None else f"The {listed.noun} `{name}` {wrong}"


def _locked(name: str, listed: _OptionList) -> str | None:
    if name in listed.locked:
        return listed.locked[name]
    for prefix, reason in listed.locked_prefixes:
        if name.startswith(prefix):
            return reason
    for suffix, reason in listed.locked_suffixes:
        if name.endswith(suffix):
            return reason
    return None


def _not_listed(name: str, listed: _OptionList) -> str:
    hint = ""
    for other in (_CONSUMER, _PRODUCER):
        if other is not listed and listed is not _SPARK and other.aliases.get(name, name) in other.rules:
            return f"`{name}` is a {other.noun}; set it under {other.field}"
    if similar := difflib.get_close_matches(name, listed.rules, n=1, cutoff=0.8):
        hint = f" (did you mean `{similar[0]}`?)"
    return (
        f"The {listed.noun} `{name}` is not on the list{hint}; an administrator allows it "
        f"by adding it to {listed.setting}"
    )
