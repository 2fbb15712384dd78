"""Official functions that Tidegate does not run, each with the reason: the table's other half."""

from __future__ import annotations

from typing import Final

GEOMETRY: Final = "geometry is a user-defined type, which Tidegate does not carry"

REFUSED: Final[dict[tuple[str, str], str]] = {
    **{
        ("geometry", name): GEOMETRY
        for name in (
            "point",
            "make_line",
            "x_coordinate",
            "y_coordinate",
            "num_points",
            "is_empty",
            "is_closed",
            "is_simple",
            "is_ring",
            "geometry_type",
            "envelope",
            "dimension",
            "is_valid",
            "collection_extract",
            "flip_coordinates",
            "remove_repeated_points",
            "buffer",
            "centroid",
            "minimum_bounding_circle",
        )
    },
}
