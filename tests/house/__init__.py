"""The rules of the project itself: rooms, names, prose, pages, packaging, examples, benchmarks."""
