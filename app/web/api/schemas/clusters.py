"""Clusters at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.words import Name, Why


class ClusterGiven(Body):
    """A Kafka cluster to register; its brokers must answer now, because their cluster id is kept."""

    name: Name
    bootstrap_servers: Annotated[str, Field(min_length=1, description="As host:port, several separated by commas.")]
    client_config: Annotated[
        dict[str, str],
        Field(
            description="librdkafka security settings; secrets only by reference: `env:FENCELINE_SECRET_…`, `file:…`."
        ),
    ] = Field(default={})
    why: Why = None


class Cluster(Answer):
    name: str
    kafka_cluster_id: Annotated[str, Field(description="As the brokers report it.")]
    bootstrap_servers: str
    client_config: dict[str, str]
    created_at: datetime
    created_by: str


class ClusterList(Answer):
    items: list[Cluster]


class Broker(Answer):
    id: int
    host: str
    port: int


class ClusterDescription(Answer):
    """What the cluster said just now; `brokers` are the advertised addresses, to which clients connect."""

    cluster_id: str
    controller_id: int | None
    brokers: list[Broker]
