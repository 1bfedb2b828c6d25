"""The errors and credentials of OpenAPI; tests compare them with the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field

from app.kit.web.api.problem import ShownProblem
from app.kit.web.problems import MEDIA_TYPE

_MEANINGS = {
    400: "The request is no valid HTTP or JSON.",
    401: "No credential, or one that is unknown, expired or revoked.",
    403: "The role does not permit it, or the request comes from another site.",
    404: "Not found.",
    409: "Conflict with the present state.",
    412: "Changed since the revision that the request names.",
    413: "The body is too large.",
    415: "The body has an unsupported media type.",
    421: "The Host is no name of this server.",
    422: "Not valid; `problems` has every mistake at its field.",
    429: "Too many failed logins; Retry-After has the waiting time.",
    503: "A required service does not answer: Postgres, a broker.",
}
TAGS: Mapping[str, str] = {
    "clusters": "Kafka clusters that pipelines may name. Only administrators register and remove them.",
    "observing": "Current transactions and groups of a cluster, of every client, managed and foreign.",
    "fencing": "Ends of producers, memberships and transactions, with cause, confidence and evidence.",
    "problems": "Open problems of all clusters and pipelines, one for each cause.",
    "pipelines": "Definitions and their immutable revisions.",
    "mappings": "Transactional id and owner of each partition, now and at any kept moment.",
    "runs": "One start of a pipeline: its instances (Spark applications), their tasks and task events.",
    "offsets": "Committed offsets of a group. A reset has a preview and requires that nothing runs.",
    "stuck": "Blocked consumers: the transaction that blocks them, its owner and its end.",
    "transform sources": "Uploaded Python files, by their SHA-256, if the settings allow them.",
    "access": "The current user, and the tokens of people and programs.",
    "command log": "Every change with its user, reason and time.",
}
_EVERYWHERE = (400, 401, 403, 421, 422, 503)


class ProblemDocument(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not valid",
                    "status": 422,
                    "detail": "source_topics: A pipeline reads at least one topic",
                    "problems": [
                        {
                            "field": "source_topics",
                            "message": "A pipeline reads at least one topic",
                            "is_warning": False,
                        }
                    ],
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: Annotated[str, Field(description="The problem and the next step, as a sentence for a person.")]
    problems: Annotated[
        list[ShownProblem], Field(description="Every mistake at its field, where single ones are at fault.")
    ] = []


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route: these statuses, and those of every route of the API."""
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {"description": _MEANINGS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*_EVERYWHERE, *statuses})
    }


def document(app: FastAPI, *, tags: Mapping[str, str]) -> None:
    """Give the application an OpenAPI with problem documents and the two kinds of credentials.

    tags: the sentence of each heading, in their order.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                routes=app.routes,
                description="The control plane of exactly-once Kafka pipelines on Spark. Errors are RFC 9457.",
                tags=[{"name": name, "description": text} for name, text in tags.items()],
                separate_input_output_schemas=False,
            )
            components = schema.setdefault("components", {})
            described = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
            for name, part in described.pop("$defs", {}).items():
                components.setdefault("schemas", {}).setdefault(name, part)
            components["schemas"]["ProblemDocument"] = described
            components["securitySchemes"] = {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`fenceline tokens create NAME --role ROLE`",
                },
                "session": {"type": "apiKey", "in": "cookie", "name": "fenceline_session"},
            }
            schema["security"] = [{"token": []}, {"session": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # the way FastAPI documents for extending it
