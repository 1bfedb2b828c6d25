"""Clusters in REST."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.clusters import brokers, cluster, survey
from app.core.clusters.surveys import SurveyAnswer
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.shown import Shown, shows
from app.kit.web.api.words import Name, Why


class ClusterGiven(Body):
    """A Kafka cluster to register; its brokers must answer now, because their cluster id is stored."""

    name: Name
    bootstrap_servers: Annotated[str, Field(min_length=1, description="As host:port, several separated by commas.")]
    client_config: Annotated[
        dict[str, str],
        Field(
            description="librdkafka security settings; secrets only by reference: `env:FENCELINE_SECRET_…`, `file:…`."
        ),
    ] = Field(default={})
    why: Why = None


@shows(cluster.Cluster)
class Cluster:
    kafka_cluster_id = "As the brokers report it."


@shows(brokers.ClusterDescription)
class ClusterDescription:
    """The cluster's answer just now; `brokers` are the advertised addresses, to which clients connect."""


@shows(survey.SurveyedBroker)
class SurveyedBroker:
    """A broker as it is advertised, with its own report."""

    version = "Major and minor, by its API versions; null: no answer came."
    settings = "Those that matter for transactions; null: not reported."


@shows(survey.Feature)
class Feature:
    """A feature of the cluster; level 0 is off, `newest` the highest that its brokers support."""


@shows(survey.SettingLine)
class SettingLine:
    """A setting of the brokers: one value if all have the same. advice: empty if there is none."""


class ClusterSurvey(Answer):
    """The cluster's own report, with advice for transactions."""

    asked_at: Annotated[datetime, Field(description="The brokers are asked at most every half minute.")]
    problem: Annotated[str, Field(description="Why there is no answer; then the rest is empty.")]
    brokers: list[Shown[survey.SurveyedBroker]]
    features: list[Shown[survey.FeatureLine]]
    settings: list[Shown[survey.SettingLine]]

    @classmethod
    def of_answer(cls, answer: SurveyAnswer) -> ClusterSurvey:
        found = answer.survey
        return cls(
            asked_at=answer.at,
            problem=answer.problem,
            brokers=list(found.brokers) if found else [],
            features=list(survey.feature_lines(found)) if found else [],
            settings=list(survey.setting_lines(found)) if found else [],
        )
