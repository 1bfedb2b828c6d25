"""Find the Java virtual machine for Kafka and Spark: the machine's own, else one that cjdk fetches."""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cjdk

from app.edges.embedded.caches import cache_dir
from app.edges.embedded.errors import EmbeddedError

SUPPORTED_MAJORS = (17, 21, 25)
# Spark's native BLAS replacement links against it; a runtime without it ends Spark at its first line.
REQUIRED_MODULE = "jdk.incubator.vector"
DEBIAN_PACKAGES = tuple(f"openjdk-{major}-jre-headless" for major in (17, 21))


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Kafka 4.3 and Spark 4.2 both run on."""

    executable: Path
    major: int
    version: str

    @property
    def home(self) -> Path:
        """The folder that JAVA_HOME names for this runtime."""
        return self.executable.resolve().parent.parent

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with JAVA_HOME naming this runtime, for scripts (spark-class) that look there first."""
        return {**base, "JAVA_HOME": str(self.home)}


class JavaMissingError(EmbeddedError):
    """No suitable Java was found: the candidates, and the command to install one."""

    def __init__(self, refused: Sequence[str]) -> None:
        wanted = " or ".join(str(major) for major in SUPPORTED_MAJORS)
        self.reason = f"Java {wanted} with the module {REQUIRED_MODULE} was not found: {'; '.join(refused)}"
        first, second = DEBIAN_PACKAGES
        self.remedy = f"{install_line(first)}  (where there is none: {second})"
        super().__init__(
            f"{self.reason}. On Debian or Ubuntu, type:  {self.remedy}  (elsewhere: install it and set JAVA_HOME)"
        )


def install_line(*packages: str) -> str:
    """Return the command that installs the packages on Debian or Ubuntu, for this user."""
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install {' '.join(packages)}"


def find_java(*, environ: Mapping[str, str] | None = None, may_fetch: bool = False) -> Java:
    """Return the first suitable Java of JAVA_HOME, PATH and the cache; with `may_fetch` else download one.

    Args:
        environ: where JAVA_HOME and PATH are read; this process's environment by default.
        may_fetch: whether a JDK may be downloaded.

    Raises:
        JavaMissingError: nothing suitable, with a reason for each candidate.
    """
    found, _ = search_java(environ=environ, may_fetch=may_fetch)
    return found


def search_java(*, environ: Mapping[str, str] | None = None, may_fetch: bool = False) -> tuple[Java, tuple[str, ...]]:
    """Return the result of `find_java`, with the reasons against earlier candidates."""
    environ = os.environ if environ is None else environ
    candidates = _candidates(environ)
    refused = [] if candidates else ["JAVA_HOME is not set and there is no java on PATH"]
    for origin, executable in candidates:
        verdict = inspect_java(executable)
        if isinstance(verdict, Java):
            return verdict, tuple(refused)
        refused.append(f"{origin} ({executable}) {verdict}")
    for major in SUPPORTED_MAJORS:
        found = _from_cjdk(major, may_fetch=may_fetch)
        if isinstance(found, Java):
            return found, tuple(refused)
        refused.append(found)
    raise JavaMissingError(refused)


def drivers_java(named: Path | None, *, environ: Mapping[str, str] | None = None) -> Java:
    """Return the Java below the given folder, without alternatives; without a folder the result of `find_java`.

    Raises:
        JavaMissingError: as `find_java`, or naming what is wrong with the folder.
    """
    if named is None:
        return find_java(environ=environ)
    executable = named.absolute() / "bin" / "java"
    verdict = inspect_java(executable)
    if isinstance(verdict, Java):
        return verdict
    raise JavaMissingError([f"the setting java_home ({executable}) {verdict}"])


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates: list[tuple[str, Path]] = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        candidates.append(("java on PATH", Path(on_path)))
    return candidates


@functools.lru_cache(maxsize=16)
def inspect_java(executable: Path) -> Java | str:
    """Return the runtime of `executable`, or why it is not suitable."""
    try:
        version_text = _run(executable, "-version")
        modules = _run(executable, "--list-modules")
    except FileNotFoundError:
        return "does not exist"
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run: {error}"
    match = re.search(r'version "(\d+)([^"]*)"', version_text)
    if match is None:
        return "reports no version"
    major, version = int(match[1]), match[1] + match[2]
    if major not in SUPPORTED_MAJORS:
        return f"is Java {version}"
    if not re.search(rf"^{re.escape(REQUIRED_MODULE)}(@|$)", modules, re.MULTILINE):
        return f"is Java {version} without the module {REQUIRED_MODULE}"
    return Java(executable=executable, major=major, version=version)


def _run(executable: Path, argument: str) -> str:
    done = subprocess.run(
        [str(executable), argument], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL
    )
    # -version answers on standard error, --list-modules on standard output.
    return done.stdout + done.stderr


def _from_cjdk(major: int, *, may_fetch: bool) -> Java | str:
    """Return a Temurin JDK from cjdk's cache, or download it; else the reason."""
    where = cache_dir() / "cjdk"
    name = f"Temurin {major}"
    try:
        if not may_fetch and not (
            where.exists() and cjdk.list_jdks(vendor="temurin", version=str(major), cache_dir=where)
        ):
            return f"{name} is not in the cache (`fenceline doctor --fetch` tries to download it)"
        home = cjdk.java_home(vendor="temurin", version=str(major), cache_dir=where)
    except (cjdk.CjdkError, OSError) as error:
        return f"{name} could not be downloaded: {error}"
    verdict = inspect_java(home / "bin" / "java")
    return verdict if isinstance(verdict, Java) else f"{name} from the cache {verdict}"
