"""The tabs of a pipeline's pages: core's, and those of products."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.product import PipelineLink
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.web.pages.navigation import Tab, Tabs
from app.kit.web.pages.screen import url_of


def _reads_by_group(definition: PipelineDefinition) -> bool:
    """A query has neither ids of partitions nor committed offsets to reset: it begins at its checkpoint."""
    return definition.dataframe is None


_LINKS = [
    PipelineLink(path="", title="Status", order=0),
    PipelineLink(path="runs", title="Runs", order=10),
    PipelineLink(path="events", title="Events", order=20),
    PipelineLink(path="definition", title="Definition", order=30),
    PipelineLink(path="reset-offsets", title="Reset offsets…", order=41, within="offsets", is_shown=_reads_by_group),
    PipelineLink(path="more", title="More", order=90),
    PipelineLink(
        path="imported-ids",
        title="Imported ids",
        order=92,
        within="more",
        about="Transactional ids of an application that this pipeline replaces, such as Kafka Streams.",
        is_shown=_reads_by_group,
    ),
]


def register_pipeline_links(links: Iterable[PipelineLink]) -> None:
    """Add a product's pages of a pipeline."""
    _LINKS.extend(link for link in links if link not in _LINKS)
    _LINKS.sort(key=lambda link: link.order)


def links_within(definition: PipelineDefinition, tab: str) -> list[PipelineLink]:
    """Return the links on a tab, in their order."""
    return [link for link in _LINKS if link.within == tab and link.is_shown(definition)]


def pipeline_tabs(name: str, definition: PipelineDefinition, here: str) -> Tabs:
    """here: the path of the shown page below the pipeline's, which is a tab or within one."""
    current = next((link.within or link.path for link in _LINKS if link.path == here), here)
    shown = (link for link in _LINKS if not link.within and link.is_shown(definition))
    tabs = (
        Tab(
            title=link.title,
            address=url_of("pipelines", name, *([link.path] if link.path else [])),
            is_current=link.path == current,
        )
        for link in shown
    )
    return Tabs(subject=name, tabs=tuple(tabs))


async def tabs_of(uow: UnitOfWork, name: str, here: str) -> Tabs | None:
    """Return the tabs for a page of a pipeline that may have been deleted: then there are none."""
    try:
        pipeline = await uow.of(PipelineStore).get(name)
    except NotFoundError:
        return None
    return pipeline_tabs(name, pipeline.definition, here)
