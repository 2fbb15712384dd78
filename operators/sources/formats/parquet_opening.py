"""All that a reader of a Parquet file takes from its footer, kept for the process: a file of many splits is opened for
each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ....proto.arrow.parquet_footer import Footer, read_footer
from ....proto.arrow.parquet_instants import INT96_UNIT, with_instants
from ....proto.arrow.validation import validated_schema
from ...core.column import Column
from ..file_versions import State, is_settled
from .matching import Names

#: Up to so many bytes of a row group's wanted columns are read without buffers, by one request a column.
_WHOLE_BYTES: Final = 16 << 20
#: In larger row groups so many bytes of each column are held and read at once.
_BUFFER_BYTES: Final = 256 << 10
_FILES_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Opening:
    """A file's footer, as Tidegate and as pyarrow read it, and the schema of its rows. `buffer_bytes` are held of each
    column that is read; 0 reads a column's chunk as a whole. If it is `settled`, each later change of the file shows in
    its state.
    """

    footer: Footer
    metadata: pq.FileMetaData
    schema: pa.Schema
    buffer_bytes: int
    settled: bool = False

    def open(
        self, file: pa.NativeFile, dictionaries: frozenset[str] = frozenset(), unit: str = INT96_UNIT
    ) -> pq.ParquetFile:
        """pyarrow's reader of the file, which takes columns of these names as dictionaries."""
        return _opened(file, self.metadata, self.buffer_bytes, dictionaries, unit)


def opening_of(file: pa.NativeFile, columns: Sequence[Column], state: State | None) -> Opening:
    """The opening of a file, of which these columns are wanted. It is the one of before if the file has the same state
    and footer, and the footer is kept.
    """
    kept = [] if state is None else _kept(state, tuple(columns))
    if kept and kept[0].settled:
        return kept[0]
    settled = state is not None and is_settled(state)
    footer = read_footer(file)
    opening = next((opening for opening in kept if opening.footer is footer), None)
    if opening is None or settled:
        opening = replace(opening or _read(file, footer, columns), settled=settled)
        kept[:] = [opening] if footer.is_kept else []  # a large footer is another value at each reading
    return opening


@lru_cache(_FILES_KEPT)
def _kept(_state: State, _columns: tuple[Column, ...]) -> list[Opening]:
    """A place for the opening of a file in this state."""
    return []


def _read(file: pa.NativeFile, footer: Footer, columns: Sequence[Column]) -> Opening:
    metadata = pq.read_metadata(file)
    wanted = wanted_names(validated_schema(metadata.schema.to_arrow_schema()), columns)
    buffer_bytes = _buffer_bytes(footer, leaves_of(footer, wanted))
    with _opened(file, metadata, buffer_bytes, frozenset(), INT96_UNIT) as parquet:
        schema = parquet.schema_arrow.remove_metadata()
    return Opening(footer, metadata, validated_schema(with_instants(schema, footer)), buffer_bytes)


def _opened(
    file: pa.NativeFile, metadata: pq.FileMetaData, buffer_bytes: int, dictionaries: frozenset[str], unit: str
) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=sorted(dictionaries),
        pre_buffer=False,
        buffer_size=buffer_bytes,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit=unit,
    )


def wanted_names(schema: pa.Schema, columns: Sequence[Column]) -> set[str]:
    """The columns that the plan asks for, by their names in the file."""
    names = Names(schema.names)
    indices = (names.position(column.name) for column in columns)
    return {names.all[index] for index in indices if index is not None}


def leaves_of(footer: Footer, names: set[str]) -> list[int]:
    """The positions of the leaves of these columns."""
    return [at for at, leaf in enumerate(footer.leaves) if leaf.path[0] in names]


def _buffer_bytes(footer: Footer, leaves: Sequence[int]) -> int:
    """The bytes to hold of each column that is read. 0 reads a column's chunk as a whole, which takes no more memory
    where the chunks of a row group are no larger than their buffers would be.
    """
    for group in footer.groups:
        if sum(group.chunks[at].compressed for at in leaves) > max(_WHOLE_BYTES, len(leaves) * _BUFFER_BYTES):
            return _BUFFER_BYTES
    return 0
