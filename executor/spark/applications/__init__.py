"""The Sparks that tasks run on, as the service starts or reaches them: a local master's workers, and servers of Spark
Connect, which may be away.
"""
