"""Check the demo's second pipeline: every flight is in one file that a committed reference names."""

from dataclasses import dataclass
from typing import Self

from app.products.demo import file_pipeline
from app.products.demo.feed import Feed
from app.products.demo.file_outputs import FlightsInFiles
from app.products.demo.proof import SinkProof, SinkVerdict
from app.products.demo.stage import DemoStage


@dataclass(frozen=True, slots=True)
class FileProof:
    """The check, with the references and files that it read."""

    proof: SinkProof
    outputs: FlightsInFiles

    @classmethod
    def of(cls, stage: DemoStage, feed: Feed) -> Self:
        outputs = FlightsInFiles(stage.files_root)
        proof = SinkProof(
            bootstrap_servers=stage.bootstrap_servers,
            group=file_pipeline.NAME,
            feed=feed,
            sink_topic=file_pipeline.SINK_TOPIC,
            outputs=outputs,
        )
        return cls(proof, outputs)

    def count_read(self) -> int:
        """Return the number of flights that the group has committed."""
        return sum(self.proof.committed())

    def sentence(self, verdict: SinkVerdict) -> str:
        """Return the newest result as one line for people."""
        return f"{self.outputs.files:,} files by carrier and day · {verdict.sentence()}"
