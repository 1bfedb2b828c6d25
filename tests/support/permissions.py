"""A broker that allows all operations to all users, except those that a test forbids."""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.brokers import TEST_BROKER_SETTINGS

_TIMEOUT_S = 20

GUARDED_BROKER_SETTINGS = {
    **TEST_BROKER_SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def deny(
    bootstrap_servers: str,
    name: str,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    *,
    is_rest_allowed: bool = False,
) -> None:
    """Forbid this to all users. is_rest_allowed: the rest is allowed, which a resource with any rule would not be."""

    def rule(what: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", what, permission)

    rules = [rule(operation, AclPermissionType.DENY)]
    if is_rest_allowed:
        rules.append(rule(AclOperation.ALL, AclPermissionType.ALLOW))
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for created in admin.create_acls(rules).values():
        created.result(_TIMEOUT_S)


def allow_again(bootstrap_servers: str, name: str, kind: ResourceType = ResourceType.TOPIC) -> None:
    """Take back every rule about the resource."""
    rules = AclBindingFilter(
        kind, name, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for removed in admin.delete_acls([rules]).values():
        removed.result(_TIMEOUT_S)
