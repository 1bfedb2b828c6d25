"""`python -m tests.texts.figures`: length of sentences and number of findings, for each kind of file."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

from tests.texts.blocks import blocks_of
from tests.texts.checking import WORDS, all_paths, check, count_words, sentences


def class_names(root: Path) -> Counter[str]:
    trees = (ast.parse(path.read_text("utf-8")) for room in ("app", "workers") for path in (root / room).rglob("*.py"))
    return Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def main(root: Path) -> None:
    lengths: dict[str, list[int]] = {}
    words: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for path in all_paths(root):
        source = (root / path).read_text("utf-8")
        parts = path.split("/")
        group = "/".join(parts[:2]) if parts[:2] == ["docs", "adr"] else parts[0]
        for block in blocks_of(path, source):
            name = f"{group}, errors" if block.kind == "error" else group
            words[name] += len(WORDS.expression.findall(block.text))
            if block.kind in ("paragraph", "error"):
                lengths.setdefault(name, []).extend(count_words(one) for _, one in sentences(block) if one)
        others[group] += sum(one.rule in ("opening", "heading") for one in check(path, source))
    write = sys.stdout.write
    write(
        "| texts | sentences | mean | longest | over 25 | retired words | openings, headings |\n|" + "---|" * 7 + "\n"
    )
    for name in sorted(words):
        counts = lengths.get(name) or [0]
        share = sum(count > 25 for count in counts) / len(counts)
        mean = f"{sum(counts) / len(counts):.1f}"
        write(f"| {name} | {len(counts)} | {mean} | {max(counts)} | {share:.1%} | {words[name]} | {others[name]} |\n")
    shared = {name: count for name, count in class_names(root).items() if count > 1}
    write(f"\n{len(shared)} names for {sum(shared.values())} classes: {Counter(shared).most_common(25)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
