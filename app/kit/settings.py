"""All settings, from `FENCELINE_*` in the environment and from `fenceline.toml` (docs/settings.md).

The environment wins over the file. The file is the one that `FENCELINE_CONFIG` names, else `fenceline.toml` in the
working directory, else `$XDG_CONFIG_HOME/fenceline/fenceline.toml`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from platformdirs import PlatformDirs
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

_DIRS = PlatformDirs("fenceline", appauthor=False)


class SettingsError(Exception):
    """An invalid setting; each line of the message names the setting and its error."""


def _comma_separated(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _address(url: str) -> str:
    """Check the address of a listener for others: a proxy may add a path. Returns it without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None or parts.query or parts.fragment:
        raise ValueError(f"{url} is not of the form https://host[:port][/path]")
    if not _BASE_PATH.fullmatch(parts.path):
        raise ValueError(f"{url}: the path has a character that is not allowed. Use letters, digits and . _ ~ -")
    return url.rstrip("/")


def _seconds_by_name(given: tuple[str, ...]) -> tuple[str, ...]:
    for one in given:
        pattern, _, seconds = one.rpartition("=")
        if not pattern or not _SECONDS.fullmatch(seconds) or float(seconds) <= 0:
            raise ValueError(f"{one} is not PATTERN=SECONDS, such as orders-*=60")
    return given


_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?", re.ASCII)
_BASE_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*/?", re.ASCII)
Address = Annotated[str, AfterValidator(_address)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_comma_separated)]
"""Several names: a list in the file, separated by commas in the environment."""
SecondsByName = Annotated[Names, AfterValidator(_seconds_by_name)]
Folder = Annotated[Path, AfterValidator(_absolute)]
Port = Annotated[int, Field(ge=0, le=65_535)]


def config_file() -> Path | None:
    """Return the settings file in use, or None. Raises SettingsError if the file of `FENCELINE_CONFIG` is missing."""
    named = os.environ.get("FENCELINE_CONFIG")
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"FENCELINE_CONFIG names {named}, which is not a file")
        return Path(named)
    for candidate in (Path("fenceline.toml"), _DIRS.user_config_path / "fenceline.toml"):
        if candidate.is_file():
            return candidate
    return None


class Settings(BaseSettings):
    """The effective settings of one process."""

    model_config = SettingsConfigDict(env_prefix="FENCELINE_", extra="forbid", frozen=True)

    database_url: str | None = Field(
        default=None,
        description="Postgres, as `postgresql://user:password@host:port/name`. Empty: an embedded Postgres.",
    )
    state_dir: Folder = Field(
        default_factory=lambda: _DIRS.user_state_path,
        description="Folder of specifications, Spark logs, the embedded Postgres and the local token.",
    )
    cache_dir: Folder = Field(
        default_factory=lambda: _DIRS.user_cache_path, description="Folder of downloaded jars and archives."
    )
    users_host: str = Field(default="127.0.0.1", description="Address of the users' listener.")
    users_port: Port = Field(default=8700, description="Port of the users' listener; 0 takes a free one.")
    workers_host: str = Field(default="127.0.0.1", description="Address of the workers' listener.")
    workers_port: Port = Field(default=8701, description="Port of the workers' listener; 0 takes a free one.")
    workers_url: Address | None = Field(
        default=None,
        description="URL of the workers' listener for workers, if it differs from the listener's.",
    )
    public_url: Address | None = Field(
        default=None,
        description="URL of this server for users, if it differs from the listener's; it may have a path, such as `https://ops.example/fenceline`.",
    )
    server_url: str | None = Field(default=None, description="Server of the CLI. Empty: the users' address above.")
    allowed_hosts: Names = Field(
        default=(), description="Host headers accepted besides loopback and the hosts of the URLs above."
    )
    tls_certificate: Path | None = Field(default=None, description="PEM certificate chain, for both listeners.")
    tls_key: Path | None = Field(default=None, description="PEM private key of the certificate.")
    trusted_proxies: Names = Field(
        default=(),
        description="Addresses or networks of proxies that end TLS; only these and loopback can then connect.",
    )
    session_lifetime_hours: float = Field(default=12.0, gt=0, description="Lifetime of a browser session.")
    one_time_link_minutes: float = Field(default=60.0, gt=0, description="Lifetime of a one-time login link.")
    login_failures_per_minute: int = Field(
        default=10, ge=1, description="Failed logins of one address in a minute until more are refused."
    )
    metrics_public: bool = Field(default=False, description="Permit /metrics without a token.")
    request_limit_kib: int = Field(default=1024, ge=16, description="Largest accepted request body.")
    allowed_consumer_options: Names = Field(
        default=(), description="librdkafka consumer options allowed besides the built-in list."
    )
    allowed_producer_options: Names = Field(
        default=(), description="librdkafka producer options allowed besides the built-in list."
    )
    allowed_spark_conf: Names = Field(default=(), description="Spark conf keys allowed besides the built-in list.")
    allowed_spark_masters: Names = Field(
        default=(), description="Patterns of Spark masters allowed besides `local` and loopback ones."
    )
    allowed_file_roots: Names = Field(
        default=(),
        description="Patterns (with `*`) of the roots of file sinks, such as `s3://flights/*`. Empty: any.",
    )
    allowed_baseline_roots: Names = Field(
        default=(),
        description="Patterns (with `*`) of the folders whose files a comparison may read, such as `s3://old/*`. "
        "Empty: none.",
    )
    allowed_jdbc_urls: Names = Field(
        default=(), description="JDBC URLs, each as a whole, of databases that a comparison may read. Empty: none."
    )
    allowed_jdbc_drivers: Names = Field(
        default=(),
        description="Classes of JDBC drivers besides those of PostgreSQL, MySQL, MariaDB, SQL Server and Oracle.",
    )
    jdbc_driver_jars: Names = Field(
        default=(), description="Paths of the JDBC drivers' jars, on this host, for comparisons with tables."
    )
    spark_master_web_urls: Names = Field(
        default=(),
        description="Web pages of standalone masters that are not at port 8080, as `spark://host:7077=http://host:8081`.",
    )
    worker_python: str | None = Field(
        default=None,
        description="Python of the executors, with requirements/worker.lock installed. Empty: the server's own.",
    )
    java_home: Path | None = Field(
        default=None, description="Java of the drivers. Empty: `JAVA_HOME`, PATH, else the cached one."
    )
    allowed_broker_addresses: Names = Field(
        default=(),
        description="Patterns `host:port` (with `*`) of Kafka brokers beyond loopback, advertised listeners included.",
    )
    python_transforms: bool = Field(
        default=False, description="Permit authors to upload Python code that runs on the executors."
    )
    unisolated_validation: bool = Field(
        default=False,
        description="Permit validation of uploaded Python as the server's user if it cannot be isolated "
        "(docs/security.md).",
    )
    native_records: bool = Field(
        default=True,
        description="Let C hold the records of tasks where that is possible (docs/loop.md). Off: Python objects.",
    )
    secrets_dir: Path | None = Field(default=None, description="Folder of `file:` references to secrets.")
    allowed_webhook_hosts: Names = Field(
        default=(),
        description="Patterns `host` or `host:port` (with `*`) of webhooks' hosts. Empty: none.",
    )
    allowed_webhook_networks: Names = Field(
        default=(),
        description="Private addresses or networks that webhooks may use.",
    )
    alert_transaction_open_s: float = Field(
        default=120.0, gt=0, description="Age of an open transaction that webhooks report."
    )
    alert_observer_s: float = Field(
        default=60.0, ge=5, description="Time without a current journal that webhooks report."
    )
    alert_lag_s: SecondsByName = Field(
        default=(),
        description="Lag that webhooks report, as `PATTERN=SECONDS` of groups; the first pattern (with `*`) counts. "
        "Empty: none.",
    )
    alert_lag_growing_s: SecondsByName = Field(
        default=(),
        description="Time of growing lag that webhooks report, as `PATTERN=SECONDS` of groups. Empty: none.",
    )
    heartbeat_timeout_s: float = Field(
        default=10.0, gt=0, description="Time without heartbeats until an instance's process is checked."
    )
    lost_after_s: float = Field(
        default=30.0,
        gt=0,
        description="Time without heartbeats, with the cluster manager's report of an end, until LOST.",
    )
    end_dead_transactions: bool = Field(
        default=True,
        description="End open transactions of tasks whose process has ended, and remove them from their groups.",
    )
    instance_files_days: float = Field(
        default=14.0,
        gt=0,
        description="Days until the folder of an ended instance or audit is deleted, with its Spark log.",
    )
    audit_cores: int = Field(default=2, ge=1, description="Tasks of an audit that run in parallel.")
    audit_longest_minutes: float = Field(
        default=120.0, gt=0, description="Longest time of an audit; then it is stopped and failed."
    )
    observe: bool = Field(default=True, description="Read the journals of all clusters: transactions and groups.")
    observed_groups: Names = Field(
        default=(), description="Patterns (with `*`) of kept groups; others are only counted. Empty: all."
    )
    observer_save_s: float = Field(
        default=60.0, ge=1, description="Interval at which the materialized state is saved for restarts."
    )
    hanging_sweep_s: float = Field(default=5.0, ge=1, description="Interval of the sweeps for hanging transactions.")
    hanging_asks_per_s: float = Field(
        default=10.0, gt=0, description="Partitions a second, at most, that are asked for open transactions."
    )
    log_level: str = Field(
        default="info",
        pattern="^(debug|info|warning|error)$",
        description="Lowest level that is logged: debug, info, warning or error.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings passes it by name
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Use arguments, then the environment, then the file; dot-env files and secret folders are not read."""
        file = config_file()
        in_file = [] if file is None else [TomlConfigSettingsSource(settings_cls, toml_file=file)]
        return (init_settings, env_settings, *in_file)

    @property
    def base_path(self) -> str:
        """The path of `public_url`, without a slash at its end; empty without one."""
        return path_of(self.public_url)

    @property
    def users_url(self) -> str:
        """The address of this server for users and the CLI, by its settings."""
        return self.public_url or url_of(self.users_host, self.users_port, is_tls=self.has_own_tls)

    @property
    def has_own_tls(self) -> bool:
        return self.tls_certificate is not None and self.tls_key is not None

    @property
    def secret_paths(self) -> frozenset[str]:
        """The paths hidden from uploaded Python during its validation."""
        paths = (self.state_dir, self.secrets_dir, self.tls_key, config_file())
        return frozenset(str(path) for path in paths if path is not None)

    @property
    def token_file(self) -> Path:
        """The CLI's own token, mode 0600."""
        return self.state_dir / "token"

    @property
    def server_file(self) -> Path:
        """The file in which the running server records its addresses."""
        return self.state_dir / "server.json"


def url_of(host: str, port: int, *, is_tls: bool) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{name}:{port}"


def path_of(url: str | None) -> str:
    """Return the path of an address for others, without a slash at its end."""
    return "" if url is None else urlsplit(url).path.rstrip("/")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(**overrides: Any) -> Settings:
    """Return the settings of this process; `overrides` win. Raises SettingsError with a line for each error."""
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        raise SettingsError("\n".join(_sentence(item["loc"], item["msg"]) for item in error.errors())) from error
    except ValueError as error:  # a file that is not TOML
        raise SettingsError(f"{config_file()}: {error}") from error
    unknown = _unknown_names()
    if unknown:
        raise SettingsError("\n".join(f"{name} is not a setting; docs/settings.md lists them" for name in unknown))
    _check_together(settings)
    return settings


def _sentence(where: tuple[int | str, ...], message: str) -> str:
    name = str(where[0]) if where else "settings"
    return f"{name} (FENCELINE_{name.upper()} or {config_file() or 'fenceline.toml'}): {message}"


_NOT_SETTINGS = frozenset({"FENCELINE_CONFIG", "FENCELINE_TOKEN"})
_SECRET_PREFIX = "FENCELINE_SECRET_"  # noqa: S105 - the prefix of references, not a secret
_TEST_PREFIX = "FENCELINE_TEST_"


def _unknown_names() -> list[str]:
    """Return misspelt settings, which would have no effect otherwise."""
    known = {f"FENCELINE_{name.upper()}" for name in Settings.model_fields} | _NOT_SETTINGS
    return sorted(
        name
        for name in os.environ
        if name.startswith("FENCELINE_") and name not in known and not name.startswith((_SECRET_PREFIX, _TEST_PREFIX))
    )


def _check_together(settings: Settings) -> None:
    """Check settings that depend on each other. Raises SettingsError."""
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise SettingsError("tls_certificate and tls_key belong together: set both or none")
    for path in (settings.tls_certificate, settings.tls_key):
        if path is not None and not path.is_file():
            raise SettingsError(f"{path} is not a file; tls_certificate and tls_key name PEM files")
    for proxy in settings.trusted_proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError as error:
            raise SettingsError(f"trusted_proxies: {proxy} is not an address or a network ({error})") from error
    for network in settings.allowed_webhook_networks:
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError as error:
            raise SettingsError(
                f"allowed_webhook_networks: {network} is not an address or a network ({error})"
            ) from error
    for what, host in (("users_host", settings.users_host), ("workers_host", settings.workers_host)):
        if not is_loopback(host) and not settings.has_own_tls and not settings.trusted_proxies:
            raise SettingsError(
                f"{what} is {host}, open to other machines, without TLS. Set tls_certificate and tls_key, "
                "or name its TLS proxy in trusted_proxies (docs/security.md)"
            )
