"""Divides the pieces of an epoch among the channels of a pipeline: in turns in this process, in shares on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from ...operators.core.piece import Piece
from ...planner.physical.pipelines import Pipeline, Start
from .pipeline import Pieces
from .shares import morsels, shares


def in_morsels(pipeline: Pipeline) -> bool:
    """True if the pipeline's rows are the result's and come morsel after morsel, not channel after channel."""
    return pipeline.start is Start.PIECE and not pipeline.into


def turns(pipeline: Pipeline, whole: Pieces) -> list[list[Pieces]]:
    """The turns of each channel: one turn with its share of each source, or one per morsel of the only source."""
    if in_morsels(pipeline):
        (source,) = pipeline.sources
        dealt: list[Pieces] = [{source: morsel} for morsel in morsels(whole[source], pipeline.channels)]
        return [dealt[channel :: pipeline.channels] for channel in range(pipeline.channels)]
    return [[pieces] for pieces in channel_shares(pipeline, whole)]


def channel_shares(pipeline: Pipeline, whole: Pieces) -> list[Pieces]:
    """The share of each channel of each source, in order: the rows of channel 0 come before those of channel 1."""
    of_channels: list[dict[str, Sequence[Piece]]] = [{} for _ in range(pipeline.channels)]
    for source in pipeline.sources:
        for mine, share in zip(of_channels, shares(whole[source], pipeline.channels), strict=True):
            mine[source] = share
    return list(of_channels)
