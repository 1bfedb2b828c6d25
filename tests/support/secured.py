"""A broker with every kind of listener, an authorizer, and users that a test makes.

The plain listener is the test's own: its clients may do everything.
"""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from app.core.wire.specification import InstanceSpecification, TaskIdentity
from app.edges.embedded.kafka import KafkaCluster
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess

_TIMEOUT_S = 30.0
_LISTENERS = {
    "ENCRYPTED": "SASL_SSL",
    "OPEN": "SASL_PLAINTEXT",
    "ELSEWHERE": "SASL_SSL",
    "EXPIRED": "SASL_SSL",
    "CERTIFIED": "SSL",
}
_SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Way(NamedTuple):
    """How a client comes in: by which listener, and how it says who it is (None: by its certificate)."""

    listener: str
    mechanism: str | None

    @property
    def protocol(self) -> str:
        return _LISTENERS[self.listener]

    def __str__(self) -> str:
        return f"{self.protocol}-{self.mechanism or 'certificate'}"


WAYS = (
    Way("ENCRYPTED", "SCRAM-SHA-512"),
    Way("ENCRYPTED", "PLAIN"),
    Way("OPEN", "SCRAM-SHA-256"),
    Way("OPEN", "PLAIN"),
    Way("CERTIFIED", None),
)
OTHER_HOST = Way("ELSEWHERE", "SCRAM-SHA-512")
"""The listener with the certificate of another host, from the same authority."""


EXPIRED_BROKER = Way("EXPIRED", "SCRAM-SHA-512")
"""The listener whose certificate was good until yesterday."""


class Validity(TypedDict):
    not_before: datetime
    not_after: datetime


EXPIRED = Validity(not_before=datetime.now(UTC) - timedelta(days=30), not_after=datetime.now(UTC) - timedelta(days=1))


class Acl(NamedTuple):
    """One permission; `name` may end in a star for everything that begins so."""

    operation: str
    resource: str
    name: str


class Certificates:
    """Files in a folder: two authorities, certificates of the broker, of another host, of a client; expired ones."""

    def __init__(self, folder: Path, client_name: str) -> None:
        ours, others = trustme.CA(), trustme.CA()
        self.authority, self.other_authority = folder / "ca.pem", folder / "other-ca.pem"
        ours.cert_pem.write_to_path(self.authority)
        others.cert_pem.write_to_path(self.other_authority)
        self.broker = _written(ours.issue_cert("127.0.0.1"), folder / "broker.pem")
        self.other_host = _written(ours.issue_cert("elsewhere.invalid"), folder / "elsewhere.pem")
        self.expired_broker = _written(ours.issue_cert("127.0.0.1", **EXPIRED), folder / "expired.pem")
        expired = ours.issue_cert("client.invalid", common_name=client_name, **EXPIRED)
        self.expired_client = _written(expired, folder / "expired-client.pem")
        client = ours.issue_cert("client.invalid", common_name=client_name)
        self.client = folder / "client.pem"
        self.client.write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
        self.key_password = secrets.token_hex(16)
        self.client_key = folder / "client.key"
        self.client_key.write_bytes(_pkcs8(client, serialization.BestAvailableEncryption(self.key_password.encode())))


def _written(certificate: trustme.LeafCert, path: Path) -> Path:
    """Key and chain in one file, as Kafka reads a PEM key store."""
    key = _pkcs8(certificate, serialization.NoEncryption())
    path.write_bytes(key + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    return path


def _pkcs8(certificate: trustme.LeafCert, encryption: serialization.KeySerializationEncryption) -> bytes:
    """Kafka reads no other form of a key."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@dataclass(frozen=True)
class User:
    """`secrets` are the environment that a client of this user needs; its settings only refer to it."""

    name: str
    password: str

    @property
    def secrets(self) -> dict[str, str]:
        return {"FENCELINE_SECRET_PASSWORD": self.password}


class SecuredKafka:
    """The running broker and its users."""

    def __init__(self, kafka: KafkaCluster, certificates: Certificates, trusted: User) -> None:
        self.kafka = kafka
        self.certificates = certificates
        self.trusted = trusted
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def connection(self, way: Way, user: User, *, authority: Path | None = None) -> dict[str, str]:
        """A cluster's entry: settings that refer to secrets."""
        settings = {
            "bootstrap.servers": self.kafka.bootstrap_servers_of(way.listener),
            "security.protocol": way.protocol,
        }
        if way.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = str(authority or self.certificates.authority)
        if way.mechanism is None:
            settings["ssl.certificate.location"] = str(self.certificates.client)
            settings["ssl.key.location"] = str(self.certificates.client_key)
            settings["ssl.key.password"] = "env:FENCELINE_SECRET_KEY_PASSWORD"
        else:
            settings["sasl.mechanism"] = way.mechanism
            settings["sasl.username"] = user.name
            settings["sasl.password"] = "env:FENCELINE_SECRET_PASSWORD"
        return settings

    def secrets_of(self, user: User) -> dict[str, str]:
        return {**user.secrets, "FENCELINE_SECRET_KEY_PASSWORD": self.certificates.key_password}

    def add_user(self, name: str) -> User:
        """One that comes by SCRAM and may do nothing yet."""
        user = User(name, secrets.token_hex(16))
        add_scram(self.admin, user)
        return user

    def grant(self, user: User, acls: Sequence[Acl]) -> None:
        for created in self.admin.create_acls([AclBinding(*_fields(user, acl)) for acl in acls]).values():
            created.result(_TIMEOUT_S)

    def revoke(self, user: User, acls: Sequence[Acl]) -> None:
        filters = [AclBindingFilter(*_fields(user, acl)) for acl in acls]
        for removed in self.admin.delete_acls(filters).values():
            assert len(removed.result(_TIMEOUT_S)) == 1


def executor(
    pipeline: TestPipeline, connection: Mapping[str, str], environment: Mapping[str, str], folder: Path
) -> TaskProcess:
    """As an executor runs a task: references in the specification, secrets in the environment of the process."""
    specification = InstanceSpecification(
        fenceline_version="test",
        pipeline="p",
        revision=1,
        run_id="r",
        ordinal=0,
        lease=1,
        database_epoch="e",
        definition=pipeline.definition,
        client_config=dict(connection),
        tasks=(TaskIdentity(task=0, transactional_id=pipeline.transactional_id(0)),),
    )
    return TaskProcess(specification, folder, environment=environment)


def add_scram(admin: AdminClient, user: User) -> None:
    wanted = [
        UserScramCredentialUpsertion(user.name, ScramCredentialInfo(mechanism, 4096), user.password.encode())
        for mechanism in _SCRAM.values()
    ]
    # One request changes a user once.
    for one in wanted:
        for done in admin.alter_user_scram_credentials([one]).values():
            done.result(_TIMEOUT_S)


def _fields(user: User, acl: Acl) -> tuple[Any, ...]:
    """In the order that bindings and filters take them."""
    is_prefix = acl.name.endswith("*") and acl.name != "*"
    return (
        ResourceType[acl.resource],
        acl.name.removesuffix("*") if is_prefix else acl.name,
        ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
        f"User:{user.name}",
        "*",
        AclOperation[acl.operation],
        AclPermissionType.ALLOW,
    )


@contextmanager
def secured_kafka(folder: Path) -> Generator[SecuredKafka]:
    """A broker of its own, with one user (`trusted`) that may do everything, by every way."""
    trusted = User("trusted", secrets.token_hex(16))
    certificates = Certificates(folder, trusted.name)
    settings = {
        **TEST_BROKER_SETTINGS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{trusted.name}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "listener.name.elsewhere.ssl.keystore.type": "PEM",
        "listener.name.elsewhere.ssl.keystore.location": str(certificates.other_host),
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(certificates.expired_broker),
        "listener.name.certified.ssl.client.auth": "required",
    }
    for name, protocol in _LISTENERS.items():
        if protocol.startswith("SASL"):
            of_listener = f"listener.name.{name.lower()}"
            settings[f"{of_listener}.sasl.enabled.mechanisms"] = ",".join(("PLAIN", *_SCRAM))
            settings[f"{of_listener}.plain.sasl.jaas.config"] = (
                f'{_PLAIN} required user_{trusted.name}="{trusted.password}";'
            )
            for mechanism in _SCRAM:
                settings[f"{of_listener}.{mechanism.lower()}.sasl.jaas.config"] = f"{_SCRAM_MODULE} required;"
    with KafkaCluster.start(overrides=settings, listeners=_LISTENERS) as kafka:
        made = SecuredKafka(kafka, certificates, trusted)
        add_scram(made.admin, trusted)
        yield made
