"""The client of Spark: feeding, streaming, the data source."""
