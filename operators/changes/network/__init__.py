"""A graph of operators on changes, run on any number of channels: links, loops, and the prepares that find quiet."""
