"""`python -m tidegate.server.cli` is `tidegate`."""

import sys

from . import main

sys.exit(main())
