"""Clusters at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.clusters.survey import feature_lines, setting_lines
from app.services.observing.surveys import SurveyAnswer
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


class SurveyedBroker(Answer):
    """A broker as it is advertised, with what it says of itself."""

    id: int
    host: str
    port: int
    is_controller: bool
    version: Annotated[
        tuple[int, int] | None, Field(description="Major and minor, by what it offers; null: no answer came.")
    ]
    settings: Annotated[dict[str, str] | None, Field(description="Those that matter here; null: not told.")]


class Feature(Answer):
    """A feature of the cluster; level 0 is off, `newest` the highest that its brokers could have."""

    name: str
    level: int
    newest: int | None


class SettingLine(Answer):
    """A setting of the brokers: one value where all have the same. advice: empty where it is as it should be."""

    name: str
    values: list[str]
    meaning: str
    advice: str


class FeatureLine(Answer):
    feature: Feature
    meaning: str
    advice: str


class ClusterSurvey(Answer):
    """What a cluster says of itself, and what to think about for transactions."""

    asked_at: Annotated[datetime, Field(description="The brokers are asked at most every half minute.")]
    problem: Annotated[str, Field(description="Why there is no answer; then the rest is empty.")]
    brokers: list[SurveyedBroker]
    features: list[FeatureLine]
    settings: list[SettingLine]

    @classmethod
    def of_answer(cls, answer: SurveyAnswer) -> ClusterSurvey:
        survey = answer.survey
        return cls(
            asked_at=answer.at,
            problem=answer.problem,
            brokers=[SurveyedBroker.of(broker) for broker in survey.brokers] if survey else [],
            features=[FeatureLine.of(line) for line in feature_lines(survey)] if survey else [],
            settings=[SettingLine.of(line) for line in setting_lines(survey)] if survey else [],
        )
