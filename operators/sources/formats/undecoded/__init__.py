"""Reads columns of Parquet files whose values lie in the file as Arrow has them in memory, without decoding them."""
