"""The dealing of tests to the processes of a run: whole files, and all of Spark to one, which has one session."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling


class Files(LoadScopeScheduling):
    """Deals files as a whole, so that what the tests of a file share is made once."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def unit(nodeid: str) -> str:
    """What is dealt together with a test. Tests that need Spark have it in their names."""
    return "Spark" if "spark" in nodeid.lower() else nodeid.partition("::")[0]
