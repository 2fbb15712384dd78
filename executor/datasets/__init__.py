"""Stores Datasets: rows in files of the checkpoint format, in a folder that is removed with its last holder."""
