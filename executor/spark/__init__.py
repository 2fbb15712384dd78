"""Runs a task's pipelines on Spark: the same operators and the same channels, each channel as a Spark task.

An epoch is one job. A pipeline is a stage of it, an exchange a shuffle of *parcels*: rows that hold a whole block's
slice for one channel as bytes, and are sorted so that they are read in the order of the local exchange. The service
does all planning, and sees only names of files and counters; rows go from file to task to file.
"""
