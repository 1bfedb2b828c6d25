"""Python imports this at its start, in processes that have this folder in PYTHONPATH (see seams)."""

import os

from tests.fault_suite import copier, freeze_points
from tests.fault_suite.seams import install

install([*freeze_points.makers(os.environ), *copier.makers(os.environ)])
