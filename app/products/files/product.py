"""The record of files (app/core/product.py)."""

from __future__ import annotations

import os

from app.products.files.api import file_schemas, orphan_schemas  # first: they declare what the routes show

# isort: split
from app.core.product import PipelineLink, Product, Routes, ServerParts, Tag
from app.kit.loops.supervisor import Loop
from app.products.files import pages
from app.products.files.api import files, orphans
from app.products.files.loops.file_watch import FileWatch
from app.products.files.loops.orphan_watch import OrphanWatch
from app.products.files.metrics import file_metrics
from app.products.files.reference_topics import KafkaReferenceTopics
from app.products.files.service.collecting import FileOrphanCollectors
from app.products.files.service.needs import repeated_file_needs
from app.products.files.store.retention import FileRetentionStore

__all__ = ["FILES", "file_schemas", "orphan_schemas"]


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    settings = server.settings
    references = FileWatch(
        unit_of_work=server.unit_of_work,
        topics=KafkaReferenceTopics(
            environment=os.environ,
            secrets_dir=settings.secrets_dir,
            allowed_addresses=settings.allowed_broker_addresses,
        ),
        clock=server.clock,
    )
    collecting = OrphanWatch(
        unit_of_work=server.unit_of_work,
        collectors=FileOrphanCollectors(
            environment=os.environ,
            secrets_dir=settings.secrets_dir,
            allowed_roots=settings.allowed_file_roots,
        ),
        clock=server.clock,
    )
    return references, collecting


FILES = Product(
    name="files",
    api=(Routes(after="ids", routers=(files.router,)), Routes(after="offsets", routers=(orphans.router,))),
    tags=(
        Tag(
            after="mappings",
            name="files",
            text="Files of pipelines with a file sink, as named by the committed references in their sink topics.",
        ),
    ),
    pages=(Routes(after="pipelines", routers=(pages.router,)),),
    pipeline_links=(
        PipelineLink(path="files", title="Files", order=60, is_shown=lambda definition: definition.files is not None),
    ),
    sentences={
        "orphans-looked": "Requested. Its progress is under Orphans.",
        "orphans-collected": "Requested. It scans again, and deletes confirmed orphans; see Orphans.",
    },
    loops=_loops,
    needs=repeated_file_needs,
    metrics=file_metrics,
    expire=lambda uow, now: uow.of(FileRetentionStore).expire(now=now),
)
