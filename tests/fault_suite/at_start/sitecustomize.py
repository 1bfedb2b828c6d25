"""Python imports this at its start, in processes that have this folder in PYTHONPATH (see freeze_points)."""

import os

from tests.fault_suite.freeze_points import install_from

install_from(os.environ)
