"""The parts of the merge join: its inputs, what keys match, groups of equal keys, what comes out."""
