"""Datasets: rows in files of the checkpoint store's format, in a folder that goes when its holder goes."""
