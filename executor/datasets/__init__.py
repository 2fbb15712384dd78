"""Datasets: rows in files of the checkpoint store's format, in a folder that goes with whoever holds them."""
