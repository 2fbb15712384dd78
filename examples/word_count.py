"""The words of text files, counted: a function cuts lines into words, and two channels count them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tidegate

LINES = pa.schema([("line", pa.string())])
COUNTS = pa.schema([("word", pa.string()), ("times", pa.int64())])


def lines_of(folder: Path) -> Iterator[tuple[str]]:
    """The lines of the text files, in the order of their names."""
    for file in sorted(folder.glob("*.txt")):
        with file.open(encoding="utf-8") as text:
            for line in text:
                yield (line,)


def words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cuts lines into words: a row for each word, in lower case."""
    split_words = pc.list_flatten(pc.split_pattern_regex(pc.utf8_lower(batch["line"]), r"[^\pL']+"))
    return pa.record_batch({"word": split_words.filter(pc.not_equal(split_words, ""))})


class Count:
    """Counts each word. Equal words come to one channel."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            self.times.update(batch["word"].to_pylist())

    def done(self, channel: int) -> pa.RecordBatch:
        return pa.record_batch([list(self.times.keys()), list(self.times.values())], schema=COUNTS)


def word_count(folder: Path, **options: Any) -> tidegate.Dataset:
    """Count the words of a folder; on Spark with the options executor="spark", spark="local[4]"."""
    graph = tidegate.TaskGraph()
    lines = graph.read_iterable(lambda: lines_of(folder), LINES)
    graph.blocking("count", Count, lines.map(words), partition="word", channels=2, schema=COUNTS)
    return graph.run(**options)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "1.txt").write_text("The tide is high.\nThe gate is shut.\n", encoding="utf-8")
        Path(folder, "2.txt").write_text("Open the gate: the tide won't wait.\n", encoding="utf-8")
        counts = word_count(Path(folder))
    for row in counts.table().sort_by([("times", "descending"), ("word", "ascending")]).to_pylist():
        print(f"{row['times']} {row['word']}")


if __name__ == "__main__":
    main()
